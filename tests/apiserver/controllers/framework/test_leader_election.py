"""One of several programs leads: it renews its Lease, and another takes over when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.front_door import front_door
from tests.waiting import running
from understudy.apiserver.authentication.loopback import LoopbackTokens
from understudy.apiserver.client.loopback import ClientBuilder
from understudy.apiserver.client.verbs import Query, Verbs
from understudy.apiserver.controllers.framework.leader_election import Election, LeaderElector
from understudy.apiserver.server.bootstrap import fill
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj
from understudy.machinery.util.timers import SteeredClock

TIMES = Election()  # 15 s, 10 s, 2 s
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/work"


class Network(Verbs):
    """A client that may lose its connection."""

    def __init__(self, client: Verbs) -> None:
        self._client = client
        self.is_down = False

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: Query | None = None
    ) -> Obj:
        if self.is_down:
            raise ConnectionError("no answer")
        return await self._client.request(method, path, body, content_type, query)


class World:
    """A server, a clock that stands still, and candidates."""

    def __init__(self) -> None:
        door = front_door(V1_37)
        self.state = door.state
        self.client = ClientBuilder(door, door.state, LoopbackTokens(), lambda *_: lambda: None).client("test")
        self.clock = SteeredClock()
        self.clock.freeze()
        self.working: list[str] = []  # the names of those that work now
        self.networks: dict[str, Network] = {}

    @asynccontextmanager
    async def candidate(self, name: str, times: Election = TIMES) -> AsyncIterator[None]:
        network = self.networks[name] = Network(self.client)
        elector = LeaderElector(network, self.clock, times, "work")

        async def work() -> None:
            self.working.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                self.working.remove(name)

        async with running(elector.run(work)):
            await self.settle()
            yield

    async def settle(self) -> None:
        """Let everybody do what can be done without a wait."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Move the clock on, by half a second each time; never do two work at the same time."""
        for _ in range(round(seconds * 2)):
            self.clock.move_to(self.clock.monotonic() + 0.5)
            await self.settle()
            assert len(self.working) <= 1

    async def lease(self) -> Obj:
        spec: Obj = (await self.client.get(LEASE))["spec"]
        return spec


@pytest.fixture
async def world() -> World:
    world = World()
    await fill.fill(world.state, 0)
    # What a first write needs is read beside the event loop, for which `settle` does not wait.
    await world.client.create(LEASE.rpartition("/")[0], {"metadata": {"name": "first"}})
    return world


async def test_leader_renews_its_lease(world: World) -> None:
    """The first candidate leads as long as it lives, and says so every two seconds."""
    async with world.candidate("a"), world.candidate("b"):
        first = await world.lease()
        assert (first["leaseDurationSeconds"], first["leaseTransitions"]) == (15, 0)
        for _ in range(20):
            before = await world.lease()
            await world.advance(2)
            now = await world.lease()
            assert now["renewTime"] > before["renewTime"]
            assert {**now, "renewTime": ""} == {**first, "renewTime": ""}
        assert world.working == ["a"]


async def test_leader_that_cannot_renew_gives_up(world: World) -> None:
    """A leader without a connection stops its work after ten seconds, before another takes over, and is a candidate."""
    async with world.candidate("a"):
        async with world.candidate("b"):
            await world.advance(6)
            world.networks["a"].is_down = True
            await world.advance(8)
            assert world.working == ["a"]
            await world.advance(4)
            assert world.working == []
            await world.advance(10)
            assert world.working == ["b"]
            assert (await world.lease())["leaseTransitions"] == 1
            world.networks["a"].is_down = False
            await world.advance(30)
            assert world.working == ["b"]
        assert (await world.lease())["holderIdentity"] == ""
        await world.advance(4.5)
        assert world.working == ["a"]
        assert (await world.lease())["leaseTransitions"] == 2


async def test_lease_that_somebody_else_renews_is_left_alone(world: World) -> None:
    """A candidate waits for as long as the Lease changes, whatever the times in it: clocks differ."""
    spec = {"holderIdentity": "elsewhere", "leaseDurationSeconds": 15, "renewTime": "2000-01-01T00:00:00.000000Z"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "work"}, "spec": spec}
    await world.client.create(LEASE.removesuffix("/work"), lease)
    async with world.candidate("a"):
        await world.advance(12)
        await world.client.patch(LEASE, {"spec": {"renewTime": "2000-01-01T00:00:09.000000Z"}})
        await world.advance(14)
        assert world.working == []
        await world.advance(8)
        assert world.working == ["a"]


async def test_lease_that_is_deleted_is_made_again(world: World) -> None:
    """A leader whose Lease is gone makes it anew, and goes on."""
    async with world.candidate("a", Election(3, 2, 1)):
        await world.client.delete(LEASE)
        await world.advance(1.5)
        assert (await world.lease())["leaseDurationSeconds"] == 3
        assert world.working == ["a"]
