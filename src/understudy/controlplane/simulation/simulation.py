"""A server, its controllers, its scheduler and kubelets on one clock that jumps, in one event loop, from one seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from understudy.apiserver.storage.turns import endless_turns
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.components import Component, ComponentContext
from understudy.controlplane.dev.controllers import controllers_of
from understudy.controlplane.server import Server
from understudy.controlplane.simulation.failures import Failures
from understudy.controlplane.simulation.history import Recorder
from understudy.controlplane.simulation.kubelets import Kubelets
from understudy.controlplane.simulation.loop import LoopClock, VirtualTimeLoop
from understudy.controlplane.simulation.node import Conditions, ended
from understudy.controlplane.simulation.workload import Workload
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.types import Obj
from understudy.machinery.util.chance import seeded
from understudy.machinery.util.clock import parse_timestamp

START = "2030-01-01T00:00:00Z"
AGENT = "understudy-simulation"
HEALTH = ("node-lifecycle", "taint-eviction")


class Simulation:
    """A control plane whose time jumps from one event to the next: hours take seconds.

        simulation = Simulation(seed=7, load=["gpu-cluster"], workload=Workload(device_class="gpu.example.com"))
        simulation.run(hours=24, history="history.jsonl")
        pods = simulation.objects("pods")

    All that chance decides comes from the seed, so that the same seed gives the same history, to the byte: names and
    uids, when pods of the workload come and how long they run, pauses before another try, what fails. Claims, pods and
    nodes are handled by the controllers, the scheduler and the kubelets of `understudy dev`, which call stand-ins of
    the drivers that have ResourceSlices. It runs once, and blocks its thread meanwhile.

    seed      an integer
    load      manifests and worlds to begin with, as for `Server`
    workload  pods that come and go, None for none
    failures  nodes and drivers that fail and come back. With any, even none of each, nodes renew leases, and the
              controllers node-lifecycle and taint-eviction evict pods from nodes that are silent
    programs  coroutine functions that run beside: each is called with the `ComponentContext` of the server, and
              cancelled at the end
    start     the time at which it begins
    options   further options of `Server`: emulated_version, feature_gates, controllers; faults and chaos, which all
              controllers, the scheduler, kubelets and the workload meet

    After it has run, `writes` is the number of writes, `faults` that of faults that were met, and `incidents` has what
    has happened to nodes and drivers, as lines of the history have it. Raises ValueError for options that make no
    sense; its `run` raises LoadError for a manifest, RuntimeError if it has run before, and what a program raises.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        load: Sequence[Any] = (),
        workload: Workload | None = None,
        failures: Failures | None = None,
        programs: Sequence[Component] = (),
        start: str = START,
        **options: Any,
    ) -> None:
        self._seed = seed
        self._workload = workload
        self._failures = failures
        self._programs = programs
        self._loop = VirtualTimeLoop()
        self._clock = LoopClock(self._loop, parse_timestamp(start))
        more = options.pop("controllers", ())
        gates = Server(**{name: options[name] for name in ("emulated_version", "feature_gates") if name in options})
        more = more.split(",") if isinstance(more, str) else list(more)
        names = controllers_of(gates.state.gates, [*more, *(HEALTH if failures is not None else ())])
        self._server = Server(
            **{"etcd_compaction_interval": "5m0s", **options, "controllers": names, "load": load, "clock": self._clock}
        )
        self._objects: dict[str, list[Obj]] = {}
        self.writes = 0
        self.faults = 0
        self.incidents: list[Obj] = []

    def run(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, history: str | PathLike[str] | None = None
    ) -> None:
        """Run for some time. Raises ValueError for none.

        history  a file for what was written: a line of JSON for each write
        """
        seconds = timedelta(days=days, hours=hours, minutes=minutes).total_seconds()
        if seconds <= 0:
            raise ValueError("want a time to simulate, such as hours=24")
        if self._loop.is_closed():
            raise RuntimeError("a simulation runs once: make another one")
        with ExitStack() as stack:
            file = stack.enter_context(Path(history).open("wb")) if history is not None else None
            stack.enter_context(seeded(self._seed))
            stack.enter_context(endless_turns())
            stack.callback(self._loop.close)
            self._loop.run_until_complete(self._run(seconds, file))

    def objects(self, kind: str) -> list[Obj]:
        """Return the objects of a kind at the end, of all namespaces: "pods", "resourceclaims"."""
        return self._objects[kind]

    async def _run(self, seconds: float, file: BinaryIO | None) -> None:
        server = self._server
        recorder = Recorder(server.state.registry.store, self._clock, file.write if file else lambda line: None)
        self.incidents = recorder.incidents
        await server.start_inside()
        state, admin = server.state, server.connection_of(User("system:admin", [MASTERS]))
        version = state.release.version
        conditions = Conditions(admin, version, state.gates, self._clock, self._seed, self._failures, recorder.note)
        context = ComponentContext(server.connection_of, version, state.gates, self._clock)
        works = [Kubelets(conditions).run(), *(program(context) for program in self._programs)]
        async with APIClient(admin, AGENT, self._clock) as client:
            if self._workload is not None:
                works.append(self._workload.run(client, version, random.Random(self._seed)))
            tasks = [asyncio.create_task(work) for work in works]
            try:
                await self._until_over(tasks, seconds)
                for kind in state.serving.kinds:
                    if not kind.virtual and kind.resource not in self._objects:
                        self._objects[kind.resource] = state.registry.listing(kind.group, kind.resource)
                self.writes = state.registry.store.revision
                self.faults = sum(rule.fired for rule in server.faults)
                recorder.stop()
            finally:
                await ended(tasks)
                await server.stop()

    async def _until_over(self, tasks: list[asyncio.Task[None]], seconds: float) -> None:
        """Let some time pass. Raises what ends a task before."""
        over = asyncio.create_task(asyncio.sleep(seconds))
        running: set[asyncio.Task[None]] = {*tasks, over}
        try:
            while not over.done():
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            over.cancel()
