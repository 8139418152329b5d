"""The endpoints of the Service `kubernetes` where the number of servers is said (`master-count`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from understudy.apiserver.client.verbs import Verbs
from understudy.apiserver.controllers.replicas.counted_endpoints import MasterCountReconciler
from understudy.apiserver.server.options.config import ServerConfig
from understudy.machinery import errors
from understudy.machinery.types import Obj

RECORDED = Path(__file__).with_name("recorded") / "counted_endpoints.jsonl"
PATHS = {
    "endpoints": "/api/v1/namespaces/default/endpoints",
    "slice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
}


class Stored(Verbs):
    """Objects by their paths."""

    def __init__(self, objects: dict[str, Obj]) -> None:
        self.objects = objects

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: Mapping[str, str] | None = None
    ) -> Obj:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        if method in ("POST", "PUT"):
            self.objects[path] = body
        if path not in self.objects:
            raise errors.not_found("", "things", path)
        return self.objects.pop(path) if method == "DELETE" else self.objects[path]


@pytest.mark.parametrize("row", [*map(json.loads, RECORDED.read_text().splitlines())], ids=lambda row: row["about"])
def test_endpoints_are_as_recorded(row: Obj) -> None:
    """A server adds its address and removes those that follow it; what has no form of its own is made anew."""
    stored = Stored({f"{PATHS['endpoints']}/kubernetes": row["before"]} if row["before"] else {})
    reconciler = MasterCountReconciler(stored, row["address"], 6443, "10.0.0.1", row["count"])
    asyncio.run(reconciler.remove() if row["leaves"] else reconciler.add())
    found = {name: stored.objects.get(f"{path}/kubernetes") or {} for name, path in PATHS.items()}
    assert (found["endpoints"].get("subsets") or None) == row["subsets"]
    assert {name: found["slice"].get(name) or None for name in row["slice"]} == row["slice"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"apiserver_count": 0}, "--apiserver-count should be a positive number, but value '0' provided"),
        ({"apiserver_count": -1}, "--apiserver-count should be a positive number, but value '-1' provided"),
        ({"endpoint_reconciler_type": "x"}, "Reconciler not implemented: x (--endpoint-reconciler-type)"),
    ],
)
def test_wrong_options(options: Any, error: str) -> None:
    """The texts are those of kube-apiserver."""
    with pytest.raises(ValueError, match=r"apiserver-count|Reconciler") as refused:
        ServerConfig(**options)
    assert str(refused.value) == error
