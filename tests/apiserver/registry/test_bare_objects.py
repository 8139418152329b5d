"""Objects that another program has written to the storage, without what an API server gives: uid and time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.apiserver.extensions.test_custom_resources import DEFINITIONS, is_true, wait_for
from tests.http import exchange
from understudy import Server
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.types import Obj

CONFIG_MAP: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare", "namespace": "default"}}
PATH = "/api/v1/namespaces/default/configmaps/bare"


def definition(plural: str, kind: str) -> Obj:
    schema: Obj = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "scope": "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
        "status": {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    store = MemoryStore()

    async def fill() -> None:
        await store.create("/registry/configmaps/default/bare", CONFIG_MAP)
        for each in (definition("shoes", "Shoe"), definition("hats", "Hat")):
            name = each["metadata"]["name"]
            await store.create(f"/registry/apiextensions.k8s.io/customresourcedefinitions/{name}", each)

    asyncio.run(fill())
    with Server(store=lambda: store) as server:
        yield server


@pytest.mark.parametrize("plural", ["shoes", "hats"])
def test_definition_is_established_and_served(server: Server, plural: str) -> None:
    path = f"{DEFINITIONS}/{plural}.example.com"
    wait_for(server, path, lambda _, body: is_true(body, "Established"))
    assert exchange(server, "GET", f"/apis/example.com/v1/{plural}")[0] == 200


def test_object_is_updated_and_deleted(server: Server) -> None:
    status, found = exchange(server, "GET", PATH)
    assert (status, found["metadata"].keys()) == (200, {"name", "namespace", "resourceVersion"})
    status, updated = exchange(server, "PUT", PATH, {**found, "data": {"a": "b"}})
    assert (status, updated["data"], "uid" in updated["metadata"]) == (200, {"a": "b"}, False)
    wrong = {"preconditions": {"uid": "other"}}
    assert exchange(server, "DELETE", PATH, wrong)[0] == 409
    status, gone = exchange(server, "DELETE", PATH)
    assert (status, gone["details"]) == (200, {"name": "bare", "kind": "configmaps"})
