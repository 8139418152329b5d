"""A node of a simulation: its kubelet and its drivers, which end when it is switched off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.resources import NODES, PODS
from understudy.controlplane.kubelet.dra.claim_info import ClaimInfoCache
from understudy.controlplane.kubelet.dra.manager import DRAManager
from understudy.controlplane.kubelet.dra.plugins import DRAPluginManager, Plugin
from understudy.controlplane.kubelet.kubelet import RECONCILE_PERIOD, pod_network
from understudy.controlplane.kubelet.node import NodeKeeper, address_of
from understudy.controlplane.kubelet.pod_status import PodStatusWriter
from understudy.controlplane.kubelet.pods import PodIPs, PodRuntime, PodWorkers
from understudy.controlplane.kubelet.sandboxes import Sandbox, Sandboxes
from understudy.controlplane.simulation.drivers import SimulatedDriver, SimulatedPlugin
from understudy.controlplane.simulation.failures import Failures, Fate
from understudy.controlplane.simulation.history import Note
from understudy.controlplane.simulation.persistence import until_answered
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import NamedTuple, Obj, dataclass
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import sleep

BOOT_ID = "00000000-0000-4000-8000-{:012}"


@dataclass(frozen=True)
class Conditions:
    """Holds the settings that all nodes of a simulation share.

    failures  how often they fail; without these no node has heartbeats
    note      is told when one fails and is back
    """

    connection: Connection
    version: Version
    gates: Gates
    clock: Clock
    seed: int
    failures: Failures | None
    note: Note

    def client(self, user_agent: str) -> APIClient:
        """Return a new client of the server."""
        return APIClient(self.connection, user_agent, self.clock)

    def fate(self, key: str, per_day: float, minutes: float) -> Fate:
        """Return the fate of a node or a driver."""
        return Fate(self.seed, key, self.clock, per_day, minutes)


class MemorySandboxes(Sandboxes):
    """The running pods of a node, in no file."""

    def __init__(self) -> None:
        self._running = {}

    def start(self, uid: str, sandbox: Sandbox) -> None:
        self._running[uid] = sandbox

    def stop(self, uid: str) -> None:
        self._running.pop(uid, None)


class MemoryClaims(ClaimInfoCache):
    """The prepared claims of a node, in no file."""

    def __init__(self, version: Version, before: ClaimInfoCache | None) -> None:
        """Begin as with the file of a kubelet that has ended."""
        self._version = version
        self._entries = {}
        for info in before or ():
            self.add(replace(info, pod_uids=set(info.pod_uids), prepared=False, unpreparing=False))

    def save(self) -> None:
        """Leave them where they are."""


class _Life(NamedTuple):
    """Holds the parts that a driver of a running node needs."""

    tasks: asyncio.TaskGroup
    client: APIClient
    plugins: DRAPluginManager


class SimulatedNode:
    """Runs one node, until cancelled."""

    def __init__(self, name: str, conditions: Conditions) -> None:
        self.name = name
        self._conditions = conditions
        self._failures = failures = conditions.failures or Failures()
        self._fate = conditions.fate(f"node/{name}", failures.nodes_per_day, failures.node_minutes)
        self._drivers: dict[str, SimulatedDriver] = {}
        self._claims: ClaimInfoCache | None = None
        self._starts = 0
        self._life: _Life | None = None

    def add_driver(self, name: str, slice_: Obj | None) -> None:
        """Let a driver run here, and publish a slice, if it has one for this node alone."""
        driver = self._drivers.get(name)
        if driver is None:
            failures, conditions = self._failures, self._conditions
            key = f"driver/{self.name}/{name}"
            fate = conditions.fate(key, failures.drivers_per_day, failures.driver_minutes)
            driver = SimulatedDriver(name, self.name, conditions.version, fate, conditions.note)
            self._drivers[name] = driver
            if self._life is not None:
                self._start(driver, self._life)
        if slice_ is not None:
            driver.slices.setdefault(slice_["metadata"]["name"], slice_)

    def _start(self, driver: SimulatedDriver, life: _Life) -> None:
        life.tasks.create_task(driver.run(life.client, life.plugins), name=f"driver {driver.name} of {self.name}")

    async def run(self) -> None:
        """Be switched on, fail, and be switched on again."""
        note = self._conditions.note
        while True:
            life = asyncio.create_task(self._live(), name=f"kubelet of {self.name}")
            failure = asyncio.create_task(self._fate.until_failure())
            try:
                await asyncio.wait([life, failure], return_when=asyncio.FIRST_COMPLETED)
                if life.done():
                    life.result()
            finally:
                await ended([life, failure])
            note("NODE_DOWN", node=self.name)
            await self._fate.until_return()
            note("NODE_UP", node=self.name)

    async def _live(self) -> None:
        """Make the node ready, and run the drivers and the pods that are bound to it, until cancelled."""
        conditions, name, version = self._conditions, self.name, self._conditions.version
        self._starts += 1
        agent = f"kubelet/v{version.number}.0"
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(conditions.client(agent))
            events = await stack.enter_async_context(EventRecorder(client, "kubelet", host=name))
            boot_id = BOOT_ID.format(self._starts)
            keeper = NodeKeeper(client, name, version, conditions.gates, boot_id, conditions.clock)
            await keeper.register()
            node = await until_answered(conditions.clock, keeper.get)
            self._claims = MemoryClaims(version, self._claims)
            plugins = DRAPluginManager(client, name, version, new_plugin=self._plugin)
            stack.push_async_callback(plugins.stop)
            dra = DRAManager(client, self._claims, plugins, version, conditions.gates)
            runtime = PodRuntime(
                client=client,
                events=events,
                dra=dra,
                status=PodStatusWriter(conditions.gates, lambda *_: []),
                sandboxes=MemorySandboxes(),
                pod_ips=PodIPs(pod_network(name, node)),
                host_ip=address_of(node),
                clock=conditions.clock,
            )
            stack.callback(setattr, self, "_life", None)
            async with asyncio.TaskGroup() as tasks:
                if self._starts > 1:
                    plugins.start()
                self._life = _Life(tasks, client, plugins)
                for driver in self._drivers.values():
                    self._start(driver, self._life)
                if conditions.failures is not None:
                    self._send_heartbeats(client, keeper, tasks)
                await self._run_pods(client, runtime, dra, tasks)

    def _send_heartbeats(self, client: APIClient, keeper: NodeKeeper, tasks: asyncio.TaskGroup) -> None:
        itself = Informer(client, NODES, fields=f"metadata.name={self.name}")
        tasks.create_task(itself.run(), name=f"node {self.name}")
        tasks.create_task(keeper.renew_lease(), name=f"lease of {self.name}")
        reports = keeper.report_status(lambda: itself.store.get("", self.name))
        tasks.create_task(reports, name=f"status of {self.name}")

    async def _run_pods(
        self, client: APIClient, runtime: PodRuntime, dra: DRAManager, tasks: asyncio.TaskGroup
    ) -> None:
        workers = PodWorkers(runtime, tasks)
        pods = Informer(client, PODS, fields=f"spec.nodeName={self.name}")
        pods.add_handler(workers.update, workers.replace, workers.remove)
        tasks.create_task(pods.run(), name=f"pods of {self.name}")
        await pods.wait_for_sync()
        while True:
            await dra.reconcile(workers.active())
            await sleep(runtime.clock, RECONCILE_PERIOD)

    def _plugin(self, driver: str, endpoint: str, *_: object, **__: object) -> Plugin:
        return SimulatedPlugin(self._drivers[driver], endpoint)


async def ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
