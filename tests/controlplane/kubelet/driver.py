"""A DRA driver for tests: a gRPC server with the services of a driver, which notes how it is called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc.aio

from tests.waiting import until
from understudy.controlplane.kubelet.dra.api import (
    HEALTH_SERVICE,
    PREPARE,
    UNPREPARE,
    V1,
    V1ALPHA4,
    WATCH,
    WIRE_NAMES,
    ClaimsRequest,
    Device,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
    WatchResourcesRequest,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.pluginmanager import (
    SERVICE,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from understudy.controlplane.kubelet.protobuf import Message


@dataclass
class Driver:
    """A driver that listens below a kubelet's folder while it is an open context manager.

    versions         what it says it supports; it serves these services, and v1alpha4 for other texts
    calls            ["prepare c1 c2", "unprepare c1 c2", …]: the names of the claims of each call
    prepare          returns the answer to a call; by default one device for each claim
    statuses         what the kubelet has told it about its registration
    """

    root: Path
    name: str = "gpu.example.com"
    versions: tuple[str, ...] = (V1,)
    plugin_type: str = "DRAPlugin"
    instance: str = ""
    calls: list[str] = field(default_factory=list)
    statuses: list[RegistrationStatus] = field(default_factory=list)
    prepare: Callable[[ClaimsRequest], PrepareResponse] | None = None
    unprepare: Callable[[ClaimsRequest], UnprepareResponse] | None = None
    health: asyncio.Queue[WatchResourcesResponse] = field(default_factory=asyncio.Queue)
    hold: asyncio.Event | None = None  # calls wait for it

    @property
    def registration_socket(self) -> Path:
        """Return the path of the socket that the kubelet finds."""
        return self.root / "plugins_registry" / f"{self.name}{self.instance}-reg.sock"

    @property
    def endpoint(self) -> Path:
        """Return the path of the socket that the kubelet calls."""
        return self.root / "plugins" / f"{self.name}{self.instance}.sock"

    async def __aenter__(self) -> Self:
        names = {WIRE_NAMES.get(version, WIRE_NAMES[V1ALPHA4]) for version in self.versions}
        services = {name: self._dra_service() for name in names}
        self._servers = [
            await serve(self.endpoint, {**services, HEALTH_SERVICE: {WATCH: stream(self._watch)}}),
            await serve(self.registration_socket, {SERVICE: self._registration_service()}),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket, server in zip((self.endpoint, self.registration_socket), self._servers, strict=True):
            socket.unlink(missing_ok=True)
            await server.stop(None)

    async def stop_listening(self) -> None:
        """Answer no more calls, but stay registered."""
        await self._servers[0].stop(None)

    async def registered(self) -> RegistrationStatus:
        """Wait until the kubelet has told the outcome of the registration; return it."""
        return (await until(lambda: self.statuses))[-1]

    def _registration_service(self) -> dict[str, grpc.RpcMethodHandler]:
        info = PluginInfo(self.plugin_type, self.name, str(self.endpoint), self.versions)

        def notify(status: RegistrationStatus) -> RegistrationStatusResponse:
            self.statuses.append(status)
            return RegistrationStatusResponse()

        return {
            "GetInfo": unary(InfoRequest, lambda _: info),
            "NotifyRegistrationStatus": unary(RegistrationStatus, notify),
        }

    def _dra_service(self) -> dict[str, grpc.RpcMethodHandler]:
        return {PREPARE: unary(ClaimsRequest, self._prepare), UNPREPARE: unary(ClaimsRequest, self._unprepare)}

    async def _prepare(self, request: ClaimsRequest) -> PrepareResponse:
        self.calls.append(" ".join(["prepare", *(claim.name for claim in request.claims)]))
        if self.hold is not None:
            await self.hold.wait()
        return (self.prepare or self._one_device_each)(request)

    async def _unprepare(self, request: ClaimsRequest) -> UnprepareResponse:
        self.calls.append(" ".join(["unprepare", *(claim.name for claim in request.claims)]))
        if self.unprepare is not None:
            return self.unprepare(request)
        return UnprepareResponse({claim.uid: UnpreparedClaim() for claim in request.claims})

    def _one_device_each(self, request: ClaimsRequest) -> PrepareResponse:
        return PrepareResponse(
            {
                claim.uid: PreparedClaim((Device(("r",), "pool", "gpu-0", (f"{self.name}/gpu={claim.name}",)),))
                for claim in request.claims
            }
        )

    async def _watch(self, _: WatchResourcesRequest) -> AsyncIterator[WatchResourcesResponse]:
        while True:
            yield await self.health.get()


async def serve(path: Path, services: dict[Any, dict[str, grpc.RpcMethodHandler]]) -> grpc.aio.Server:
    """Start a gRPC server on a socket; one that is there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = grpc.aio.server()
    for name, methods in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server


def unary(request: type[Message], answer: Callable[[Any], Any]) -> grpc.RpcMethodHandler:
    """Return a method that answers one message with one."""

    async def handle(message: Message, _: object) -> Message:
        answered = answer(message)
        return await answered if asyncio.iscoroutine(answered) else answered

    return grpc.unary_unary_rpc_method_handler(handle, request.decode, Message.encode)


def stream(answer: Callable[[WatchResourcesRequest], AsyncIterator[Message]]) -> grpc.RpcMethodHandler:
    """Return a method that answers one message with many."""

    async def handle(message: WatchResourcesRequest, _: object) -> AsyncIterator[Message]:
        async for answered in answer(message):
            yield answered

    return grpc.unary_stream_rpc_method_handler(handle, WatchResourcesRequest.decode, Message.encode)
