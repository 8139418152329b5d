"""Namespaces: which finalizers of the garbage collector a deletion leaves them."""

from __future__ import annotations

import pytest

from tests.http import send
from understudy import Server

NAMESPACES = "/api/v1/namespaces"


@pytest.mark.parametrize(
    ("query", "before", "after"),
    [
        ("orphanDependents=false", [], ["foregroundDeletion"]),
        ("orphanDependents=false", ["orphan", "e.io/a"], ["e.io/a", "foregroundDeletion"]),
        ("orphanDependents=true", ["foregroundDeletion"], ["orphan"]),
        ("propagationPolicy=Background", ["foregroundDeletion"], None),
        ("", ["orphan"], ["orphan"]),
    ],
)
def test_deletion_sets_finalizers(apiserver: Server, query: str, before: list[str], after: list[str] | None) -> None:
    """`orphanDependents=false` means the foreground for namespaces, and the background for all other kinds."""
    send(apiserver, "POST", NAMESPACES, {"metadata": {"name": "n", "finalizers": before}})
    assert send(apiserver, "DELETE", f"{NAMESPACES}/n?{query}").json()["metadata"].get("finalizers") == after
