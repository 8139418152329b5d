"""The client lightkube, with and without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from typing import Any

import pytest

from understudy import Server

lightkube = pytest.importorskip("lightkube", reason="the client `lightkube` is not installed")
core = pytest.importorskip("lightkube.resources.core_v1")
resource = pytest.importorskip("lightkube.resources.resource_v1beta1")
meta = pytest.importorskip("lightkube.models.meta_v1")
types = pytest.importorskip("lightkube.types")

ConfigMap = core.ConfigMap


def config(kubeconfig: object) -> Any:
    return lightkube.KubeConfig.from_file(kubeconfig)


@pytest.fixture
def kube(apiserver: Server) -> Iterator[Any]:
    with lightkube.Client(config=config(apiserver.kubeconfig), field_manager="tests") as kube:
        yield kube


def version(kube: Any) -> str:
    """Return the collection's current resourceVersion."""
    listed = kube.list(ConfigMap)
    list(listed)
    return str(listed.resourceVersion)


def config_map(name: str, **data: str) -> Any:
    return ConfigMap(metadata=meta.ObjectMeta(name=name, namespace="default"), data=data)


def test_crud(kube: Any) -> None:
    """Objects are created, read, listed, replaced, patched in every way, and deleted."""
    made = kube.create(config_map("a", k="1"))
    made.data["k"] = "2"
    assert kube.replace(made).data == {"k": "2"}
    assert kube.patch(ConfigMap, "a", {"data": {"l": "1"}}, patch_type=types.PatchType.MERGE).data == {
        "k": "2",
        "l": "1",
    }
    assert kube.patch(ConfigMap, "a", {"data": {"k": None}}).data == {"l": "1"}
    remove = [{"op": "remove", "path": "/data/l"}]
    assert kube.patch(ConfigMap, "a", remove, patch_type=types.PatchType.JSON).data is None
    assert kube.apply(config_map("a", m="1"), force=True).data == {"m": "1"}
    assert [c.metadata.name for c in kube.list(ConfigMap, chunk_size=1)] == ["a"]
    kube.delete(ConfigMap, "a")
    with pytest.raises(lightkube.ApiError, match='configmaps "a" not found') as error:
        kube.get(ConfigMap, "a")
    assert (error.value.status.code, error.value.status.reason) == (404, "NotFound")


def test_watch_survives_a_drop(apiserver: Server, kube: Any, relay: Any) -> None:
    """A watch continues where it was when its connection dropped."""

    def again(error: Exception, count: int) -> Any:
        return types.OnErrorResult(types.OnErrorAction.RETRY, sleep=0)

    since = version(kube)
    with (
        lightkube.Client(config=config(relay.kubeconfig)) as watcher,
        closing(watcher.watch(ConfigMap, resource_version=since, on_error=again)) as events,
    ):
        for name in ("a", "b", "c"):
            kube.create(config_map(name))
            assert [(type_, obj.metadata.name) for type_, obj in [next(events)]] == [("ADDED", name)]
            relay.cut()
        kube.delete(ConfigMap, "a")
        assert [(type_, obj.metadata.name) for type_, obj in [next(events)]] == [("DELETED", "a")]


def test_expired_watch_lists_again(apiserver: Server, kube: Any) -> None:
    """A watch from a compacted version gets 410 and starts again with the current objects."""
    codes = []

    def again(error: Any, count: int) -> Any:
        codes.append(error.status.code)
        return types.OnErrorResult(types.OnErrorAction.RETRY, sleep=0)

    since = version(kube)
    kube.create(config_map("a"))
    apiserver.compact()
    with closing(kube.watch(ConfigMap, resource_version=since, on_error=again)) as events:
        assert [(type_, obj.metadata.name) for type_, obj in [next(events)]] == [("ADDED", "a")]
    assert codes == [410]


def test_concurrent_consumers(kube: Any, claim: str) -> None:
    """Strategic merge patches that each add a consumer to a claim's status all arrive."""
    names = [f"pod-{n}" for n in range(30)]

    def reserve(name: str) -> None:
        body = {"status": {"reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]}}
        kube.patch(resource.ResourceClaim.Status, claim, body)

    reserve(names[0])  # msgspec 0.22 may crash where two threads decode the first objects of a class
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(reserve, names[1:]))
    stored = kube.get(resource.ResourceClaim, claim)
    assert sorted(consumer.name for consumer in stored.status.reservedFor) == sorted(names)


async def test_optimistic_locking_loses_no_change(apiserver: Server) -> None:
    """Tasks that read, change and replace again after 409 lose no change."""
    conflicts = []
    async with lightkube.AsyncClient(config=config(apiserver.kubeconfig)) as kube:
        await kube.create(config_map("counter", n="0"))

        async def increment() -> None:
            while True:
                current = await kube.get(ConfigMap, "counter")
                current.data["n"] = str(int(current.data["n"]) + 1)
                try:
                    await kube.replace(current)
                    return
                except lightkube.ApiError as error:
                    conflicts.append(error.status.reason)

        await asyncio.gather(*(increment() for _ in range(12)))
        assert (await kube.get(ConfigMap, "counter")).data == {"n": "12"}
    assert set(conflicts) == {"Conflict"}


async def test_async_watch_keeps_the_order(apiserver: Server) -> None:
    """An asyncio watch sees changes in their order."""
    async with lightkube.AsyncClient(config=config(apiserver.kubeconfig)) as kube:
        made = await kube.create(config_map("a"))
        await kube.patch(ConfigMap, "a", {"data": {"k": "1"}})
        await kube.delete(ConfigMap, "a")
        seen = []
        async with aclosing(kube.watch(ConfigMap, resource_version=made.metadata.resourceVersion)) as events:
            async for type_, obj in events:
                seen.append((type_, obj.data))
                if type_ == "DELETED":
                    break
    assert seen == [("MODIFIED", {"k": "1"}), ("DELETED", {"k": "1"})]
