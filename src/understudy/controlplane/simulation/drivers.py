"""Drivers of a simulation: they publish the slices that a manifest has of them, prepare claims, and fail.

A driver runs on each node for which there are slices of it; one whose slices are for several nodes runs on all. Its
kubelet calls it as it does by gRPC. What it has prepared it knows again after its own end and that of its node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field

from understudy.apiserver.controllers.framework.controller import Controller, run_controllers
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.resources import Resource, resource_slices
from understudy.controlplane.kubelet.dra.api import (
    Claim,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
)
from understudy.controlplane.kubelet.dra.plugins import DRAPluginManager, HealthHandler, Plugin
from understudy.controlplane.kubelet.fake.allocated import AllocationError, allocation_results, device_of
from understudy.controlplane.kubelet.fake.driver import VERSIONS
from understudy.controlplane.simulation.failures import Fate
from understudy.controlplane.simulation.history import Note
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.rpc.grpc_channel import RPCError
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.timers import sleep

WORKING = 0.5  # seconds that a driver takes to prepare a claim, and to unprepare it


@dataclass
class SimulatedDriver:
    """One driver on one node.

    slices    its ResourceSlices for the node, by name
    fate      when it fails
    note      is told when it ends and is back, and of each claim that it is asked for
    prepared  the devices of its prepared claims, by uid: (pool, device), those that several claims may share left out
    """

    name: str
    node: str
    version: Version
    fate: Fate
    note: Note
    slices: dict[str, Obj] = field(default_factory=dict)
    prepared: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._client: APIClient | None = None  # while it runs
        self._prepared: dict[str, PreparedClaim] = {}

    async def run(self, client: APIClient, plugins: DRAPluginManager) -> None:
        """Run, fail, and run again, until cancelled: its node fails."""
        endpoint = f"/var/lib/kubelet/plugins/{self.name}/dra.sock"
        try:
            while True:
                self._client = client
                await plugins.register(self.name, endpoint, VERSIONS[self.version])
                publishing = asyncio.create_task(self._publish(client), name=f"slices of {self.name}")
                try:
                    await self.fate.until_failure()
                finally:
                    self._client = None
                    publishing.cancel()
                    await asyncio.gather(publishing, return_exceptions=True)
                self._note("DRIVER_DOWN")
                await plugins.deregister(self.name, endpoint)
                await self.fate.until_return()
                self._note("DRIVER_UP")
        finally:
            self._client = None

    async def _publish(self, client: APIClient) -> None:
        informers = Informers(client)
        publisher = _Publisher(client, informers, resource_slices(self.version), self)
        await run_controllers(informers, [publisher])

    async def prepare(self, claim: Claim) -> PreparedClaim:
        """Prepare a claim. One whose devices are prepared for another is refused. Raises RPCError."""
        client = await self._work()
        if claim.uid not in self._prepared:
            try:
                results = await allocation_results(client, self.version, self.name, claim)
            except AllocationError as why:
                return self._refused(claim, str(why))
            own = {
                (result["pool"], result["device"])
                for result in results
                if not (result.get("adminAccess") or result.get("shareID"))
            }
            if taken := sorted(device for uid, held in self.prepared.items() for device in own & held):
                return self._refused(claim, f"device {'/'.join(taken[0])} is prepared for another claim")
            self.prepared[claim.uid] = own
            self._prepared[claim.uid] = PreparedClaim(tuple(map(device_of, results)))
        self._note("PREPARE", claim)
        return self._prepared[claim.uid]

    def _refused(self, claim: Claim, error: str) -> PreparedClaim:
        self._note("PREPARE", claim, error)
        return PreparedClaim(error=error)

    async def unprepare(self, claim: Claim) -> UnpreparedClaim:
        """Unprepare a claim, prepared or not. Raises RPCError."""
        await self._work()
        self.prepared.pop(claim.uid, None)
        self._prepared.pop(claim.uid, None)
        self._note("UNPREPARE", claim)
        return UnpreparedClaim()

    async def _work(self) -> APIClient:
        """Take the time of a call; return the client. Raises RPCError if the driver ends meanwhile."""
        if (client := self._client) is not None:
            await sleep(client.clock, WORKING)
        if client is None or client is not self._client:
            raise RPCError("Unavailable", "error reading from server: EOF")
        return client

    def _note(self, what: str, claim: Claim | None = None, error: str = "") -> None:
        about = {"claim": f"{claim.namespace}/{claim.name}"} if claim else {}
        self.note(what, node=self.node, driver=self.name, **about, **({"error": error} if error else {}))


class SimulatedPlugin(Plugin):
    """The endpoint of a driver that is an object of this process."""

    def __init__(self, driver: SimulatedDriver, endpoint: str) -> None:
        super().__init__(driver.name, endpoint)
        self._driver = driver

    def start(self, changed: Callable[[], None], health: HealthHandler | None) -> None:
        self.connected = True
        changed()

    async def prepare(self, claims: tuple[Claim, ...]) -> PrepareResponse:
        return PrepareResponse({claim.uid: await self._driver.prepare(claim) for claim in claims})

    async def unprepare(self, claims: tuple[Claim, ...]) -> UnprepareResponse:
        return UnprepareResponse({claim.uid: await self._driver.unprepare(claim) for claim in claims})

    async def close(self) -> None:
        self.connected = False


class _Publisher(Controller[str]):
    """Creates the slices of a driver that are missing; keys are their names. Upstream: `resourceslice.Controller`."""

    def __init__(self, client: APIClient, informers: Informers, resource: Resource, driver: SimulatedDriver) -> None:
        super().__init__(informers)
        self._client = client
        self._resource = resource
        self._driver = driver
        self._stored = informers.of(resource)
        self._stored.add_handler(delete=lambda slice_: self.queue.add(slice_["metadata"]["name"]))
        self.queue.add_all(driver.slices)

    async def sync(self, key: str) -> None:
        """Create a slice, if it is one of this driver and not there."""
        slice_ = self._driver.slices.get(key)
        if slice_ is None or self._stored.store.get("", key) is not None:
            return
        try:
            await self._client.create(self._resource, {"metadata": {"name": key}, "spec": slice_["spec"]})
        except StatusError as why:
            if why.reason != "AlreadyExists":
                raise
