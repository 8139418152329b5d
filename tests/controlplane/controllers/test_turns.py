"""Controllers of very many objects: others have their turn meanwhile, and what they write is not missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.front_door import front_door
from tests.waiting import running
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.client.loopback import Client, ClientBuilder
from understudy.apiserver.controllers import NewController
from understudy.apiserver.controllers.controller import ControllerContext
from understudy.apiserver.controllers.framework.controller import Controller, run_controllers
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.server.bootstrap import fill
from understudy.apiserver.storage import pages, turns
from understudy.apiserver.storage.memory import MemoryStore
from understudy.controlplane.controllers.garbage import GarbageCollector
from understudy.controlplane.controllers.namespace import NamespaceController
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj

COUNT = 60
NAMESPACES, MAPS = "/api/v1/namespaces", "/api/v1/namespaces/a/configmaps"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}


class World:
    """A server without a listener, with a namespace of many ConfigMaps, and one controller."""

    def __init__(self) -> None:
        door = front_door(V1_34)
        self.state = door.state
        self.clients = ClientBuilder(door, door.state, LoopbackTokens(), lambda *_: lambda: None)
        self.client: Client = self.clients.client("test")

    async def fill(self, **metadata: Any) -> None:
        """Create the objects that every server has, a namespace and its ConfigMaps."""
        await fill.fill(self.state, 0)
        await self.client.create(NAMESPACES, {"metadata": {"name": "a"}})
        for number in range(COUNT):
            await self.client.create(MAPS, {"metadata": {"name": f"c{number}", **metadata}})

    def maps(self) -> list[Obj]:
        return self.state.registry.listing("", "configmaps", "a")

    @asynccontextmanager
    async def controller(self, new_controller: NewController) -> AsyncIterator[tuple[Controller[str], StoreInformers]]:
        context = ControllerContext(self.state, self.clients, lambda user: pytest.fail("no HTTP"))
        informers = StoreInformers(self.state.registry.store, self.state.clock)
        controller = new_controller(context, informers)
        async with running(run_controllers(informers, [controller])):
            yield controller, informers


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every slice of work be over as soon as it begins."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(turns, "FIRST", 0.0)


async def turns_until(done: Callable[[], object]) -> int:
    """Return the number of turns that others have until something is done."""
    seen = 0
    while not done():
        await asyncio.sleep(0)
        seen += 1
        assert seen < 20_000
    return seen


async def turns_of(work: Coroutine[Any, Any, object]) -> int:
    """Return the number of turns that others have while a coroutine runs."""
    task = asyncio.create_task(work)
    seen = await turns_until(task.done)
    await task
    return seen


@pytest.mark.usefixtures("slices")
async def test_graph_of_owners_is_built_in_turns() -> None:
    """Others have their turn while the garbage collector learns what is stored; what they write is in its graph."""
    world = World()
    await world.fill()
    async with world.controller(GarbageCollector) as (_, informers):
        synced = asyncio.create_task(informers.wait_for_sync())
        await turns_until(lambda: informers.of("/registry/").store.objects())
        owner = {**OWNER, "uid": "7"}
        orphan = await world.client.create(MAPS, {"metadata": {"name": "c", "ownerReferences": [owner]}})
        assert not synced.done()
        assert await turns_until(synced.done) > COUNT
        await turns_until(lambda: orphan["metadata"]["uid"] not in {obj["metadata"]["uid"] for obj in world.maps()})
    assert len(world.maps()) == COUNT


@pytest.mark.usefixtures("slices")
async def test_writes_are_learnt_in_turns() -> None:
    """Others have their turn while the garbage collector learns of many writes at once."""
    world = World()
    await world.fill()
    async with world.controller(GarbageCollector) as (_, informers):
        await informers.wait_for_sync()
        informer = informers.of("/registry/")
        for number in range(COUNT):  # the client does not suspend
            await world.client.create(MAPS, {"metadata": {"name": f"d{number}"}})
        before = len(informer.store.objects())
        assert await turns_until(lambda: len(informer.store.objects()) == before + COUNT) > COUNT // 2


@pytest.mark.usefixtures("slices")
async def test_dependents_are_looked_at_in_turns() -> None:
    """Others have their turn while the garbage collector looks at all dependents of an owner."""
    world = World()
    await fill.fill(world.state, 0)
    await world.client.create(NAMESPACES, {"metadata": {"name": "a"}})
    owner = await world.client.create(MAPS, {"metadata": {"name": "owner", "finalizers": ["e.com/f"]}})
    uid = owner["metadata"]["uid"]
    blocking = {"ownerReferences": [{**OWNER, "uid": uid, "blockOwnerDeletion": True}], "finalizers": ["e.com/f"]}
    for number in range(COUNT):
        await world.client.create(MAPS, {"metadata": {"name": f"c{number}", **blocking}})
    async with world.controller(GarbageCollector) as (collector, informers):
        await informers.wait_for_sync()
        await turns_until(lambda: collector.queue.is_idle)
        await world.client.delete(f"{MAPS}/owner", propagation="Foreground")
        await turns_until(lambda: all("deletionTimestamp" in obj["metadata"] for obj in world.maps()))
        await turns_until(lambda: collector.queue.is_idle)
        assert await turns_of(collector.sync("/registry/configmaps/a/owner")) >= COUNT
    assert len(world.maps()) == COUNT + 1


@pytest.mark.usefixtures("slices")
async def test_namespace_is_emptied_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn while a namespace is emptied, and while what is left in it is counted."""
    monkeypatch.setattr(pages, "PAGE", 10)
    world = World()
    await world.fill(finalizers=["e.com/f"])
    async with world.controller(NamespaceController) as (controller, informers):
        await informers.wait_for_sync()
        await world.client.delete(f"{NAMESPACES}/a")
        assert await turns_until(lambda: all("deletionTimestamp" in obj["metadata"] for obj in world.maps())) >= COUNT
        await turns_until(lambda: controller.queue.is_idle)
        namespace = await world.client.get(f"{NAMESPACES}/a")
        messages = {condition["type"]: condition["message"] for condition in namespace["status"]["conditions"]}
        remaining = f"Some resources are remaining: configmaps. has {COUNT} resource instances"
        assert messages["NamespaceContentRemaining"] == remaining
        for obj in world.maps():
            await world.client.patch(f"{MAPS}/{obj['metadata']['name']}", {"metadata": {"finalizers": None}})
        await turns_until(lambda: world.state.registry.lookup("", "namespaces", "", "a") is None)
    assert world.maps() == []


@pytest.mark.usefixtures("slices")
async def test_pages_are_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn between two pages, which are in order; what is written meanwhile is in later ones."""
    monkeypatch.setattr(pages, "PAGE", 4)
    store = MemoryStore()
    for number in range(10):
        await store.create(f"/registry/a/{number}", {})
    read: list[list[str]] = []
    async for page in pages.pages(store, "/registry/a/"):
        read.append([entry.key[-1] for entry in page])
        if len(read) == 2:
            await store.create("/registry/a/9a", {})
            await store.create("/registry/a/0a", {})
    assert read == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9", "a"]]

    async def read_all() -> None:
        async for _ in pages.pages(store, "/registry/a/"):
            pass

    assert await turns_of(read_all()) >= 3
