"""Lists by selectors are the same whether an index finds the objects or each one is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.apiserver.server.test_snapshots import definition
from tests.http import send
from understudy import Server
from understudy.apiserver.registry import list as listing
from understudy.apiserver.storage.memory import MemoryStore

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a server with 30 objects of three kinds in two namespaces, a third of each with the same label."""
    with Server() as server:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        server.create(definition("v1"))
        server.wait_for("customresourcedefinitions", "widgets.example.com", "Established")
        for number in range(30):
            labels = {"third": str(number % 3), **({"tenth": ""} if number % 10 == 0 else {})}
            metadata = {"name": f"n{number}", "namespace": "other" if number % 5 == 0 else "default", "labels": labels}
            containers = [{"name": "c", "image": "i"}]
            spec = {"containers": containers, **({"nodeName": f"node-{number % 4}"} if number % 2 else {})}
            server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
            server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            server.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
        yield server


def pages(server: Server, path: str, query: str) -> list[bytes]:
    """Return the bodies of all pages of a list."""
    bodies, token = [], ""
    while True:
        response = send(server, "GET", f"{path}?{query}&continue={token}")
        assert response.status == 200
        bodies.append(response.body)
        assert len(bodies) < 50
        if not (token := response.json()["metadata"].get("continue", "")):
            return bodies


SELECTORS = [
    "labelSelector=third=1",
    "labelSelector=third in (0,2),tenth",
    "labelSelector=tenth=",
    "labelSelector=!tenth,third==0",
    "labelSelector=third=7",
    "labelSelector=third=1&fieldSelector=metadata.name!=n4",
    "fieldSelector=spec.nodeName=node-1,status.phase=Pending",
    "fieldSelector=spec.nodeName=",
    "labelSelector=third=1&fieldSelector=spec.nodeName=node-3",
]
LIMITS = ["", "&limit=3", "&limit=1000", "&limit=3&resourceVersion=0", "&resourceVersion=1"]


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        (path, selector)
        for path in (PODS, "/api/v1/pods", MAPS, WIDGETS)
        for selector in SELECTORS
        if path.endswith("pods") or "spec." not in selector
    ],
)
def test_index_finds_the_same(server: Server, path: str, selector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page has the same objects, revision and token, after writes as well."""
    found = []
    find = MemoryStore.find

    async def noted(store: MemoryStore, *args: object) -> object:
        found.append(entries := await find(store, *args))  # type: ignore[arg-type]
        return entries

    monkeypatch.setattr(MemoryStore, "find", noted)
    query = quote(selector, safe="=&")
    name = "n1" if path != "/api/v1/pods" else "n2"
    for change in ({"x": "1"}, {"third": "1"}, {"third": "2"}):
        before = send(server, "GET", f"{path}?limit=1").json()["metadata"]["resourceVersion"]
        server.patch(path.rpartition("/")[2], name, {"metadata": {"labels": change}})
        for limit in (*LIMITS, f"&resourceVersion={before}&resourceVersionMatch=Exact"):
            monkeypatch.setattr(listing, "FEW", 0)
            with_index = pages(server, path, query + limit)
            monkeypatch.setattr(listing, "FEW", 1000)
            assert with_index == pages(server, path, query + limit)
    assert len(found) > 3 * len(LIMITS)
    assert None not in found
