"""The client `kubernetes_asyncio`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from understudy import Server

kubernetes = pytest.importorskip("kubernetes_asyncio", reason="the client `kubernetes_asyncio` is not installed")
client, watch = kubernetes.client, kubernetes.watch

STRATEGIC = "application/strategic-merge-patch+json"


async def connected(kubeconfig: object) -> Any:
    return await kubernetes.config.new_client_from_config(config_file=kubeconfig)


@pytest.fixture
async def api(apiserver: Server) -> AsyncIterator[Any]:
    async with await connected(apiserver.kubeconfig) as api:
        yield api


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


@pytest.mark.parametrize("whose", ["server", "user"])
async def test_kubeconfig_is_loaded(apiserver: Server, whose: str) -> None:
    """`load_kube_config` takes the kubeconfig of the server, and that of a user, as it is."""
    kubeconfig = apiserver.kubeconfig if whose == "server" else apiserver.user("driver").kubeconfig
    configuration = client.Configuration()
    await kubernetes.config.load_kube_config(kubeconfig, client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        assert (await client.CoreV1Api(api).read_namespace("default")).metadata.name == "default"


async def test_crud(api: Any) -> None:
    """Objects are created, read, listed, replaced, patched in every way, and deleted."""
    core = client.CoreV1Api(api)
    made = await core.create_namespaced_config_map("default", config_map("a", k="1"))
    made.data["k"] = "2"
    assert (await core.replace_namespaced_config_map("a", "default", made)).data == {"k": "2"}
    patch = core.patch_namespaced_config_map
    assert (await patch("a", "default", {"data": {"l": "1"}})).data == {"k": "2", "l": "1"}
    assert (await patch("a", "default", [{"op": "remove", "path": "/data/k"}])).data == {"l": "1"}
    assert [c.metadata.name for c in (await core.list_namespaced_config_map("default")).items] == ["a"]
    await core.delete_namespaced_config_map("a", "default")
    with pytest.raises(client.ApiException) as error:
        await core.read_namespaced_config_map("a", "default")
    assert error.value.status == 404


async def test_informer_survives_drops_and_expiry(apiserver: Server, api: Any, relay: Any) -> None:
    """A loop of list and watch misses nothing and repeats nothing, though connections drop and versions expire."""
    core = client.CoreV1Api(api)
    seen: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    paused = asyncio.Event()
    paused.set()

    async def inform(core: Any) -> None:
        since = ""
        while True:
            await paused.wait()
            if not since:
                listed = await core.list_namespaced_config_map("default")
                since = listed.metadata.resource_version
                for item in listed.items:
                    seen.put_nowait(("LISTED", item.metadata.name))
            try:
                events = watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version=since)
                async for event in events:
                    since = event["object"].metadata.resource_version
                    seen.put_nowait((event["type"], event["object"].metadata.name))
            except client.ApiException as error:
                seen.put_nowait(("ERROR", str(error.status)))
                since = ""
            except aiohttp.ClientError:
                pass

    async def next_seen() -> tuple[str, str]:
        return await asyncio.wait_for(seen.get(), 60)

    async with await connected(relay.kubeconfig) as through:
        task = asyncio.create_task(inform(client.CoreV1Api(through)))
        for name in ("a", "b", "c"):
            await core.create_namespaced_config_map("default", config_map(name))
            assert (await next_seen())[1] == name
            relay.cut()
        await core.create_namespaced_config_map("default", config_map("d"))
        assert await next_seen() == ("ADDED", "d")
        paused.clear()
        relay.cut()
        await core.delete_namespaced_config_map("a", "default")
        apiserver.compact()
        paused.set()
        listed = [("LISTED", name) for name in ("b", "c", "d")]
        assert [await next_seen() for _ in range(4)] == [("ERROR", "410"), *listed]
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_concurrent_consumers(api: Any, claim: str) -> None:
    """Strategic merge patches that each add a consumer to a claim's status all arrive."""
    names = [f"pod-{n}" for n in range(30)]
    claims = client.ResourceV1beta1Api(api)

    async def reserve(name: str) -> None:
        body = {"status": {"reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]}}
        await claims.patch_namespaced_resource_claim_status(claim, "default", body, _content_type=STRATEGIC)

    await asyncio.gather(*map(reserve, names))
    stored = await claims.read_namespaced_resource_claim(claim, "default")
    assert sorted(consumer.name for consumer in stored.status.reserved_for) == sorted(names)


async def test_optimistic_locking_loses_no_change(api: Any) -> None:
    """Tasks that read, change and replace again after 409 lose no change."""
    core = client.CoreV1Api(api)
    await core.create_namespaced_config_map("default", config_map("counter", n="0"))
    conflicts = []

    async def increment() -> None:
        while True:
            current = await core.read_namespaced_config_map("counter", "default")
            current.data["n"] = str(int(current.data["n"]) + 1)
            try:
                await core.replace_namespaced_config_map("counter", "default", current)
                return
            except client.ApiException as error:
                conflicts.append(error.status)

    await asyncio.gather(*(increment() for _ in range(12)))
    assert (await core.read_namespaced_config_map("counter", "default")).data == {"n": "12"}
    assert set(conflicts) == {409}
