"""A driver for tests of `understudy drivers test`: a `FakeDriver` in this process, with one fault that has a name."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from understudy.apiserver.client.external.kubeconfig_reader import read_kubeconfig
from understudy.controlplane.client.resources import resource_claims, resource_slices
from understudy.controlplane.drivers.places import Places
from understudy.controlplane.drivers.process import RunningDriver
from understudy.controlplane.kubelet.dra.api import (
    Claim,
    ClaimsRequest,
    Device,
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
    WatchResourcesRequest,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.fake.driver import FakeDriver
from understudy.controlplane.kubelet.fake.grpc_server import Methods, unary
from understudy.controlplane.kubelet.fake.resource_slice import SlicePublisher
from understudy.controlplane.kubelet.pluginmanager import RegistrationStatus, RegistrationStatusResponse
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

NAME, DEVICES = "gpu.example.com", ("gpu-0", "gpu-1", "gpu-2")
_numbers = itertools.count()


class FaultyDriver(FakeDriver):
    """Answers as the fault says."""

    fault = ""
    places: Places
    number = 0  # of the process, from 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: set[str] = set()
        self.unprepared: set[str] = set()
        self.under_way: set[str] = set()

    async def _prepared(self, claim: Claim) -> PreparedClaim:
        if self.fault == "uid is not looked at" and self._client:
            with suppress(StatusError):
                stored = await self._client.get(resource_claims(self._release), claim.name, claim.namespace)
                return await super()._prepared(replace(claim, uid=stored["metadata"]["uid"]))
        if self.fault == "missing claims are prepared" and claim.name == "missing":
            return PreparedClaim()
        if self.fault == "nothing is prepared":
            return PreparedClaim(error="out of order")
        if self.fault == "claims are prepared once" and claim.uid in self.seen:
            return PreparedClaim(error="device is busy")
        is_first = claim.uid not in self.seen
        self.seen.add(claim.uid)
        answer = await super()._prepared(claim)
        silent = {
            TELLS_NO_DEVICES: True,
            "devices are told once": not is_first,
            "devices are told when claims were unprepared": claim.uid not in self.unprepared,
        }
        if silent.get(self.fault):
            return replace(answer, devices=())
        return replace(answer, devices=tuple(self._changed_device(device) for device in answer.devices))

    def _registration_service(self, versions: tuple[str, ...]) -> Methods:
        """Take one registration only, if that is the fault."""
        methods = super()._registration_service(versions)

        def notify(status: RegistrationStatus) -> RegistrationStatusResponse:
            if self.statuses:
                raise RuntimeError("registered already")
            self.statuses.append(status)
            self._registration.set()
            return RegistrationStatusResponse()

        once = {"NotifyRegistrationStatus": unary(RegistrationStatus, notify)}
        return {**methods, **once} if self.fault == "registers once" else methods

    async def _publish_when_registered(self, publisher: SlicePublisher) -> None:
        if self.fault == "slice is missing" and self._client:
            pool = {"name": self.node, "generation": 1, "resourceSliceCount": 2}
            spec = {"driver": self.name, "nodeName": self.node, "pool": pool, "devices": [{"name": "gpu-0"}]}
            await self._client.create(resource_slices(self._release), {"metadata": {"name": "a"}, "spec": spec})
        elif self.fault == "slices are for another node" and self._client:
            await SlicePublisher(self._client, self._release, self.name, "other").publish(self.devices)
        elif self.fault == "publishes once":
            await publisher.publish(self.devices)
        else:
            await super()._publish_when_registered(publisher)
        await asyncio.Event().wait()

    def _changed_device(self, device: Device) -> Device:
        match self.fault:
            case "another device":
                return replace(device, device_name="gpu-9")
            case "another request":
                return replace(device, request_names=("r9",))
            case "CDI id without vendor":
                return replace(device, cdi_device_ids=(device.device_name,))
            case "new CDI ids":
                return replace(device, cdi_device_ids=(f"{NAME}/gpu={next(_numbers)}",))
            case "new CDI ids after a start":
                return replace(device, cdi_device_ids=(f"{NAME}/gpu={self.number}",))
            case "one CDI id for all":
                return replace(device, cdi_device_ids=(f"{NAME}/gpu=all",))
        return device

    async def _prepare(self, request: ClaimsRequest) -> PrepareResponse:
        if self.fault == "given up calls stay":
            uids = {claim.uid for claim in request.claims}
            if uids & self.under_way:
                return PrepareResponse({uid: PreparedClaim(error="a call is under way") for uid in uids})
            self.under_way |= uids
            await asyncio.Event().wait()
        if self.fault == NEWER and self.number > 1:
            return PrepareResponse({claim.uid: PreparedClaim(error="too early") for claim in request.claims})
        response = await super()._prepare(request)
        if self.fault == "only the first claim is answered":
            return PrepareResponse({claim.uid: response.claims[claim.uid] for claim in request.claims[:1]})
        return response

    async def _unprepare(self, request: ClaimsRequest) -> UnprepareResponse:
        self.unprepared |= {claim.uid for claim in request.claims}
        errors = {claim.uid: await self._unprepare_error(claim) for claim in request.claims}
        if any(errors.values()):
            return UnprepareResponse({uid: UnpreparedClaim(error) for uid, error in errors.items()})
        return await super()._unprepare(request)

    async def _unprepare_error(self, claim: Claim) -> str:
        if self.fault == "nothing is unprepared":
            return "device is stuck"
        unknown = f"{claim.namespace}/{claim.name}" not in self.prepared
        if self.fault == "what is not prepared cannot be unprepared" and unknown:
            return "claim is not prepared"
        if self.fault == "claims are needed to unprepare" and self._client:
            try:
                await self._client.get(resource_claims(self._release), claim.name, claim.namespace)
            except StatusError as why:
                return str(why)
        return ""

    async def _watch(self, _: WatchResourcesRequest) -> AsyncIterator[WatchResourcesResponse]:
        pool = "other" if self.fault == "health of other devices" else self.node
        healths = [DeviceHealth(DeviceIdentifier(pool, name), HealthStatus.HEALTHY, 1) for name in DEVICES]
        if self.fault != "silent about health":
            yield WatchResourcesResponse(tuple(healths))
        await asyncio.Event().wait()

    async def write_slices(self) -> None:
        """Write the slices again and again, if that is the fault."""
        while self.fault == "slices are written again":
            await asyncio.sleep(0.2)
            await self.publish(DEVICES)


class Process:
    """A driver that runs in this process."""

    def __init__(self, driver: FaultyDriver | None) -> None:
        self.driver = driver
        self.task = asyncio.create_task(driver.write_slices()) if driver else None

    def problem(self) -> str:
        return ""

    async def stop(self) -> None:
        await self.kill()
        if self.driver and self.driver.fault != "socket stays":
            self.driver.registration_socket.unlink(missing_ok=True)

    async def kill(self) -> None:
        if self.driver and self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            await self.driver.__aexit__()
            with socket.socket(socket.AF_UNIX) as left:  # as a process does that is killed
                left.bind(str(self.driver.registration_socket))


class Ended(Process):
    """A driver that ended at once."""

    def __init__(self) -> None:
        super().__init__(None)

    def problem(self) -> str:
        return "the driver ended with exit code 3"


NEWER = "the newer process prepares nothing"
TELLS_NO_DEVICES = "devices are told to the container runtime alone"  # which is no fault
_OPTIONS: dict[str, Obj] = {
    "another type of plugin": {"plugin_type": "DevicePlugin"},
    "unknown services": {"versions": ("v9.DRAPlugin",)},
}


class Starter:
    """Starts drivers with a fault, "" for none."""

    def __init__(self, fault: str = "", devices: tuple[str, ...] = DEVICES) -> None:
        self.fault = fault
        self.devices: list[str | Obj] = [] if fault == "no devices" else list(devices)
        self.started = 0

    async def __call__(self, places: Places) -> RunningDriver:
        self.started += 1
        name = "GPU_1" if self.fault == "wrong name" else NAME
        instance = f"-{places.instance[:8]}" if self.fault in ("", NEWER) else ""
        driver = FaultyDriver(
            places.root, name, server=read_kubeconfig(places.kubeconfig), node=places.node, devices=self.devices,
            instance=instance, **_OPTIONS.get(self.fault, {}),
        )  # fmt: skip
        driver.fault, driver.places, driver.number = self.fault, places, self.started
        old = driver.registration_socket.exists()
        if self.fault == "does not listen" or (self.fault == "old sockets are in the way" and old):
            return Process(None)
        if self.fault == "ends":
            return Ended()
        await driver.__aenter__()
        if self.fault == "CDI files once" and self.started == 1:
            (places.cdi / "gpu.json").write_text("{}")
        return Process(driver)
