"""Requests as /metrics counts them, beside what kube-apiserver has counted of the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver.server.pages.counted import ask_all
from understudy import Server

RECORDED = Path(__file__).parent / "counted"
TOKEN = "admintoken"


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_requests_are_counted_as_recorded(release: str, tmp_path: Path) -> None:
    """Compare the samples that requests change, and by how much, with what was recorded."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    with Server(emulated_version=release, token_auth_file=tokens) as server:
        counted = {*ask_all(server.url, TOKEN)}
    recorded = {*(RECORDED / f"{release}.txt").read_text().splitlines()}
    assert sorted(counted ^ recorded) == []
