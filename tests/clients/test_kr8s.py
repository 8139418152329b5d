"""kr8s, with and without asyncio. Its watches do not list again after 410, so that is not tested.

Its watches do not begin anew after 410, they ask for the same version again: that is left out here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from understudy import Server

kr8s = pytest.importorskip("kr8s", reason="the client `kr8s` is not installed")
objects = pytest.importorskip("kr8s.objects")
kr8s_asyncio = pytest.importorskip("kr8s.asyncio")
async_objects = pytest.importorskip("kr8s.asyncio.objects")
httpx = pytest.importorskip("httpx")

pytestmark = pytest.mark.apiserver(emulated_version="1.35")  # kr8s 0.20.15 warns of any later one

Connect = Callable[[object], Awaitable[Any]]


@pytest.fixture
def api(apiserver: Server) -> Iterator[Any]:
    """Return a synchronous client. It leaves connections open, which would be an error here, so they are closed."""
    api = kr8s.api(kubeconfig=apiserver.kubeconfig)
    yield api
    pytest.importorskip("kr8s._async_utils").as_sync_func(api._session.aclose)()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Return an asyncio client for a kubeconfig."""
    made = []

    async def connect(kubeconfig: object) -> Any:
        made.append(await kr8s_asyncio.api(kubeconfig=kubeconfig))
        return made[-1]

    yield connect
    for api in made:
        await api._session.aclose()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def test_crud(api: Any) -> None:
    """Objects are created, read, listed, patched, labelled and deleted."""
    made = objects.ConfigMap(config_map("a", k="1"), api=api)
    made.create()
    made.patch({"data": {"l": "1"}})
    made.patch([{"op": "remove", "path": "/data/k"}], type="json")
    made.label(tier="one")
    assert [(c.name, c.raw["data"]) for c in api.get("configmaps", label_selector="tier=one")] == [("a", {"l": "1"})]
    made.delete()
    assert not made.exists()
    with pytest.raises(kr8s.NotFoundError):
        objects.ConfigMap.get("a", api=api)
    with pytest.raises(kr8s.ServerError, match="is invalid") as error:
        objects.ConfigMap(config_map("A"), api=api).create()
    assert error.value.response.status_code == 422


def test_kinds_are_discovered(apiserver: Server, api: Any) -> None:
    """A kind that kr8s has no class for is found by discovery."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d.example.com", "nodeName": "n", "pool": pool},
    }
    apiserver.apply(slice_)
    assert [result.name for result in api.get("resourceslices.resource.k8s.io")] == ["s"]


async def test_watch_survives_a_drop(apiserver: Server, relay: Any, connect: Connect) -> None:
    """A watch that restarts after a dropped connection misses nothing and repeats nothing."""
    api = await connect(relay.kubeconfig)
    direct = await connect(apiserver.kubeconfig)
    first = await async_objects.ConfigMap(config_map("first"), api=direct)
    await first.create()
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def watch() -> None:
        since = first.metadata.resourceVersion
        while True:
            try:
                async with aclosing(api.async_watch("configmaps", namespace="default", since=since)) as events:
                    async for type_, obj in events:
                        since = obj.metadata.resourceVersion
                        seen.put_nowait((type_, obj.name))
            except (httpx.TransportError, kr8s.ConnectionClosedError):
                continue

    task = asyncio.create_task(watch())
    for name in ("a", "b", "c"):
        await (await async_objects.ConfigMap(config_map(name), api=direct)).create()
        assert await asyncio.wait_for(seen.get(), 60) == ("ADDED", name)
        relay.cut()
    await first.delete()
    assert await asyncio.wait_for(seen.get(), 60) == ("DELETED", "first")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_concurrent_consumers(apiserver: Server, claim: str, connect: Connect) -> None:
    """JSON patches that each add a consumer to a claim's status all arrive."""
    api = await connect(apiserver.kubeconfig)
    claims = async_objects.new_class("ResourceClaim", "resource.k8s.io/v1beta1", asyncio=True)
    names = [f"pod-{n}" for n in range(30)]
    first, *others = ({"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in names)
    result = await claims.get(claim, namespace="default", api=api)
    await result.patch({"status": {"reservedFor": [first]}}, subresource="status")

    async def reserve(consumer: dict[str, str]) -> None:
        mine = await claims.get(claim, namespace="default", api=api)
        await mine.patch(
            [{"op": "add", "path": "/status/reservedFor/-", "value": consumer}], subresource="status", type="json"
        )

    await asyncio.gather(*map(reserve, others))
    stored = await claims.get(claim, namespace="default", api=api)
    assert sorted(consumer["name"] for consumer in stored.status.reservedFor) == sorted(names)


async def test_optimistic_locking_loses_no_change(apiserver: Server, connect: Connect) -> None:
    """Many tasks that read, change and write again after 409 lose no change."""
    api = await connect(apiserver.kubeconfig)
    await (await async_objects.ConfigMap(config_map("counter", n="0"), api=api)).create()
    conflicts = []

    async def increment() -> None:
        while True:
            current = await async_objects.ConfigMap.get("counter", namespace="default", api=api)
            version = current.metadata.resourceVersion
            more = {"n": str(int(current.raw["data"]["n"]) + 1)}
            try:
                await current.patch({"metadata": {"resourceVersion": version}, "data": more})
                return
            except kr8s.ServerError as error:
                conflicts.append(error.response.status_code)

    await asyncio.gather(*(increment() for _ in range(12)))
    assert (await async_objects.ConfigMap.get("counter", namespace="default", api=api)).raw["data"] == {"n": "12"}
    assert set(conflicts) == {409}
