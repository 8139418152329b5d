"""A DRA driver without hardware, for tests of what is around a driver: schedulers, operators, a kubelet.

    async with FakeDriver(root, server=server.url, node="node-1", devices=["gpu-0", "gpu-1"]) as driver:
        await driver.registered()
        ...                                             # pods get devices, and run
        await driver.called("prepare", "training")
        driver.fail("out of memory")                    # from now on

It registers with the kubelet that has the folder `root`, publishes its devices in a ResourceSlice, prepares the claims
that it is asked to, and notes how it is called. docs/howto/drivers.md has more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Self

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.kubelet.dra.api import (
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    PREPARE,
    UNPREPARE,
    V1,
    V1ALPHA4,
    V1BETA1,
    WATCH,
    WIRE_NAMES,
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
from understudy.controlplane.kubelet.dra.plugins import PLUGIN_TYPE
from understudy.controlplane.kubelet.fake.allocated import AllocationError, allocation_results, device_of
from understudy.controlplane.kubelet.fake.grpc_server import Methods, serve, stream, unary
from understudy.controlplane.kubelet.fake.resource_slice import SlicePublisher
from understudy.controlplane.kubelet.pluginmanager import (
    SERVICE,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_37, ByRelease
from understudy.machinery.types import Obj, dataclass

TIMEOUT = 60.0  # seconds to wait for the kubelet
NOWHERE = "devices are published on the API server and for the node that the options server and node name"
# What a driver for a release says that it supports: from 1.32 on its gRPC services, before that a version.
VERSIONS = ByRelease(
    {
        V1_31: ("1.0.0",),
        V1_32: (V1BETA1, V1ALPHA4),
        V1_34: (V1, V1BETA1, HEALTH_V1ALPHA1),
        V1_37: (V1, V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1),
    }
)
WITHOUT_SERVER = (V1, HEALTH_V1, HEALTH_V1ALPHA1)


@dataclass
class FakeDriver:
    """A driver that listens below a kubelet's folder while it is an open (asynchronous) context manager.

    root             folder of the kubelet; sockets need a short one, such as `tempfile.mkdtemp()`
    name             of the driver, as device classes select it
    server, node     URL of the API server (or a Connection) and node for which `devices` are published. Without a
                     server nothing is published, and prepared devices are made up
    devices          to publish, once a kubelet has registered the driver: names, or devices as a slice has them, such
                     as {"name": "gpu-0", "attributes": {…}, "taints": […]}
    versions         what it says that it supports: what drivers for the server's release do, or v1 without a server;
                     device health is told by the services that it names (before 1.37 anyway)
    plugin_type, instance
                     of its registration; a second endpoint of the same driver has another instance
    calls            ["prepare c1 c2", "unprepare c1 c2", …]: the names of the claims of each call
    prepared         the devices of the claims that are prepared, by "NAMESPACE/NAME"
    statuses         what the kubelet has told it about its registration
    prepare, unprepare
                     functions that answer a call in its place
    health           what streams of device health send next; see `set_health`
    hold             calls wait for this event, if there is one

    Raises ValueError for devices without server and node.
    """

    root: Path | str | PathLike[str]
    name: str = "gpu.example.com"
    versions: tuple[str, ...] = ()
    plugin_type: str = PLUGIN_TYPE
    instance: str = ""
    calls: list[str] = field(default_factory=list)
    prepared: dict[str, tuple[Device, ...]] = field(default_factory=dict)
    statuses: list[RegistrationStatus] = field(default_factory=list)
    prepare: Callable[[ClaimsRequest], PrepareResponse] | None = None
    unprepare: Callable[[ClaimsRequest], UnprepareResponse] | None = None
    health: asyncio.Queue[WatchResourcesResponse] = field(default_factory=asyncio.Queue)
    hold: asyncio.Event | None = None
    server: str | Connection | None = None
    node: str = ""
    devices: Sequence[str | Obj] = ()

    def __post_init__(self) -> None:
        if self.devices and not (self.server and self.node):
            raise ValueError(NOWHERE)
        self.root = Path(self.root)
        self._errors: dict[tuple[str, str], str] = {}  # by method and name of the claim, "" for all
        self._healths: dict[str, DeviceHealth] = {}
        self._changed, self._registration = asyncio.Event(), asyncio.Event()
        self._stack = AsyncExitStack()
        self._client: APIClient | None = None
        self._release = V1_34
        self._publisher: SlicePublisher | None = None
        self._publishing: asyncio.Task[None] | None = None

    # --- life

    @property
    def registration_socket(self) -> Path:
        """Return the path of the socket that the kubelet finds."""
        return Path(self.root) / "plugins_registry" / f"{self.name}{self.instance}-reg.sock"

    @property
    def endpoint(self) -> Path:
        """Return the path of the socket that the kubelet calls."""
        return Path(self.root) / "plugins" / f"{self.name}{self.instance}.sock"

    async def __aenter__(self) -> Self:
        """Listen, and publish the devices once a kubelet has registered the driver: pods that get them can start then.

        Raises ValueError for a path that is too long for a socket, StatusError and ConnectionError of the API server.
        """
        async with AsyncExitStack() as stack:
            if self.server is not None:
                connection = Connection(url=self.server) if isinstance(self.server, str) else self.server
                self._client = await stack.enter_async_context(APIClient(connection, self.name))
                self._release = await self._client.server_version()
            versions = self.versions or (VERSIONS[self._release] if self._client else WITHOUT_SERVER)
            services: dict[str, Methods] = {
                WIRE_NAMES.get(version, WIRE_NAMES[V1ALPHA4]): self._dra_service()
                for version in versions
                if version not in (HEALTH_V1, HEALTH_V1ALPHA1)
            }
            health: Methods = {WATCH: stream(WatchResourcesRequest, self._watch)}
            self._servers = [
                await serve(self.endpoint, {**services, HEALTH_V1: health, HEALTH_V1ALPHA1: health}),
                await serve(self.registration_socket, {SERVICE: self._registration_service(versions)}),
            ]
            stack.push_async_callback(self._stop)
            if self._client and self.node:
                self._publisher = SlicePublisher(self._client, self._release, self.name, self.node)
                self._publishing = asyncio.create_task(self._publish_when_registered(self._publisher))
                self._publishing.add_done_callback(lambda _: self._changed.set())
                stack.push_async_callback(_end, self._publishing)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Go away without a word, as a driver does that is stopped: its ResourceSlice stays, for the kubelet."""
        await self._stack.aclose()

    async def _publish_when_registered(self, publisher: SlicePublisher) -> None:
        while not any(status.plugin_registered for status in self.statuses):
            self._registration.clear()
            await self._registration.wait()
        if self.devices:
            await publisher.publish(self.devices)
        await publisher.run()

    async def _stop(self) -> None:
        for socket, server in zip((self.endpoint, self.registration_socket), self._servers, strict=True):
            socket.unlink(missing_ok=True)
            await server.stop(None)

    async def stop_listening(self) -> None:
        """Answer no more calls, but stay registered."""
        await self._servers[0].stop(None)

    # --- what a test says

    async def publish(self, devices: Iterable[str | Obj]) -> Obj:
        """Publish devices in place of those that were published before; return the ResourceSlice as stored.

        When somebody deletes it, as a kubelet does at its start, it is published again. Raises StatusError for what the
        API server refuses, RuntimeError without `server` and `node`.
        """
        if self._publisher is None:
            raise RuntimeError(NOWHERE)
        return await self._publisher.publish(devices)

    def fail(self, error: str, claim: str = "", *, method: str = "prepare") -> None:
        """Answer calls to "prepare" or "unprepare" a claim (its name), or any claim, with an error; "" ends that."""
        self._errors[method, claim] = error

    def set_health(self, device: str, status: HealthStatus, message: str = "", pool: str = "") -> None:
        """Tell the kubelet the health of a device, of the node's pool by default."""
        identifier = DeviceIdentifier(pool or self.node, device)
        self._healths[device] = DeviceHealth(identifier, status, int(time.time()), message=message)
        self.health.put_nowait(WatchResourcesResponse(tuple(self._healths.values())))

    # --- what a test waits for

    async def registered(self, timeout: float = TIMEOUT) -> RegistrationStatus:
        """Wait until the kubelet has told the outcome of the registration; return it. Raises TimeoutError."""
        await self._wait(lambda: self.statuses, "no kubelet has registered the driver", timeout)
        return self.statuses[-1]

    async def called(self, method: str, claim: str = "", timeout: float = TIMEOUT) -> str:
        """Wait for a call of "prepare" or "unprepare", of one claim or any; return it as in `calls`.

        Calls that were there before count. Raises TimeoutError.
        """

        def first() -> list[str]:
            split = [call.split() for call in self.calls]
            return [" ".join(words) for words in split if words[0] == method and (not claim or claim in words[1:])]

        await self._wait(first, f"no call to {method} {claim or 'a claim'}", timeout)
        return first()[0]

    async def _wait(self, holds: Callable[[], object], failure: str, timeout: float) -> None:
        """Wait until something holds. Raises TimeoutError, and what the API server said to the driver's devices."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    if self._publishing and self._publishing.done():
                        await self._publishing
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{failure} within {timeout:g} s; calls so far: {self.calls}") from None

    # --- what the kubelet asks

    def _registration_service(self, versions: tuple[str, ...]) -> Methods:
        info = PluginInfo(self.plugin_type, self.name, str(self.endpoint), versions)

        def notify(status: RegistrationStatus) -> RegistrationStatusResponse:
            self.statuses.append(status)
            self._changed.set()
            self._registration.set()
            return RegistrationStatusResponse()

        return {
            "GetInfo": unary(InfoRequest, lambda _: info),
            "NotifyRegistrationStatus": unary(RegistrationStatus, notify),
        }

    def _dra_service(self) -> Methods:
        return {PREPARE: unary(ClaimsRequest, self._prepare), UNPREPARE: unary(ClaimsRequest, self._unprepare)}

    async def _prepare(self, request: ClaimsRequest) -> PrepareResponse:
        await self._note("prepare", request)
        if self.prepare is not None:
            response = self.prepare(request)
        else:
            response = PrepareResponse({claim.uid: await self._prepared(claim) for claim in request.claims})
        for claim in request.claims:
            answer = response.claims.get(claim.uid)
            if answer is not None and not answer.error:
                self.prepared[_key(claim)] = answer.devices
        return response

    async def _unprepare(self, request: ClaimsRequest) -> UnprepareResponse:
        await self._note("unprepare", request)
        if self.unprepare is not None:
            response = self.unprepare(request)
        else:
            errors = {claim.uid: self._error("unprepare", claim) for claim in request.claims}
            response = UnprepareResponse({uid: UnpreparedClaim(error) for uid, error in errors.items()})
        for claim in request.claims:
            answer = response.claims.get(claim.uid)
            if answer is not None and not answer.error:
                self.prepared.pop(_key(claim), None)
        return response

    def _error(self, method: str, claim: Claim) -> str:
        """Return the error that a test wants, "" for none."""
        return self._errors.get((method, claim.name)) or self._errors.get((method, "")) or ""

    async def _note(self, method: str, request: ClaimsRequest) -> None:
        """Note a call, and let it wait if it has to."""
        self.calls.append(" ".join([method, *(claim.name for claim in request.claims)]))
        self._changed.set()
        if self.hold is not None:
            await self.hold.wait()

    async def _prepared(self, claim: Claim) -> PreparedClaim:
        """Return the devices that the API server says a claim was given, or an error."""
        if error := self._error("prepare", claim):
            return PreparedClaim(error=error)
        if self._client is None:
            return PreparedClaim((Device(("r",), "pool", "gpu-0", (f"{self.name}/gpu={claim.name}",)),))
        try:
            results = await allocation_results(self._client, self._release, self.name, claim)
        except AllocationError as why:
            return PreparedClaim(error=str(why))
        return PreparedClaim(tuple(map(device_of, results)))

    async def _watch(self, _: WatchResourcesRequest) -> AsyncIterator[WatchResourcesResponse]:
        while True:
            yield await self.health.get()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, StatusError, ConnectionError):  # `_wait` raises it
        await task


def _key(claim: Claim) -> str:
    return f"{claim.namespace}/{claim.name}"
