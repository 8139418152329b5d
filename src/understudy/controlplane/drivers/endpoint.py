"""A driver's gRPC services, called as a kubelet calls them, but whenever a test wants it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path

from understudy.controlplane.drivers.verdicts import FailedError
from understudy.controlplane.kubelet.dra.api import (
    PREPARE,
    UNPREPARE,
    WATCH,
    WIRE_NAMES,
    Claim,
    ClaimsRequest,
    PreparedClaim,
    PrepareResponse,
    UnprepareResponse,
    WatchResourcesRequest,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.dra.plugins import CALL_TIMEOUT, SERVICES
from understudy.controlplane.kubelet.pluginmanager import (
    GET_INFO_TIMEOUT,
    NOTIFY_TIMEOUT,
    SERVICE,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from understudy.machinery.releases.version import Version
from understudy.machinery.serializer.rpc.grpc_channel import GRPCChannel, RPCError
from understudy.machinery.types import NamedTuple


class Registration(NamedTuple):
    """A registration socket, and what the plugin behind it says that it is."""

    socket: Path
    info: PluginInfo


async def registrations(registry: Path) -> list[Registration]:
    """Return the plugins that answer at the sockets in a folder and below it, as a kubelet finds them."""
    answering = []
    for path in sorted(registry.rglob("*")):
        with suppress(FileNotFoundError, RPCError):
            if stat.S_ISSOCK(path.stat().st_mode) and not path.name.startswith("."):
                answering.append(Registration(path, await _ask(path)))
    return answering


async def _ask(path: Path) -> PluginInfo:
    channel = GRPCChannel(str(path))
    try:
        return await channel.call(f"{SERVICE}/GetInfo", InfoRequest(), PluginInfo, GET_INFO_TIMEOUT)
    finally:
        await channel.close()


async def notify(registration: Registration) -> None:
    """Tell a plugin that it is registered. Raises RPCError."""
    channel = GRPCChannel(str(registration.socket))
    try:
        method = f"{SERVICE}/NotifyRegistrationStatus"
        await channel.call(method, RegistrationStatus(True), RegistrationStatusResponse, NOTIFY_TIMEOUT)
    finally:
        await channel.close()


class Endpoint:
    """The endpoint of a driver, called as a kubelet of a release does: by the service that this would choose."""

    def __init__(self, registration: Registration, version: Version) -> None:
        info = registration.info
        known = SERVICES[version]
        services = [service for service in info.supported_versions if service in known]
        self._service = WIRE_NAMES[services[0] if services else known[-1]]
        self._channel = GRPCChannel(info.endpoint or str(registration.socket))

    async def prepare(self, *claims: Claim, timeout: float = CALL_TIMEOUT) -> dict[str, PreparedClaim]:
        """Prepare claims; return the answers by uid. Raises FailedError for a claim without one, RPCError."""
        method = f"{self._service}/{PREPARE}"
        response = await self._channel.call(method, ClaimsRequest(claims), PrepareResponse, timeout)
        _check_answers(PREPARE, claims, response.claims)
        return response.claims

    async def unprepare(self, *claims: Claim) -> dict[str, str]:
        """Unprepare claims; return the errors by uid, "" for none. Raises FailedError, RPCError."""
        method = f"{self._service}/{UNPREPARE}"
        response = await self._channel.call(method, ClaimsRequest(claims), UnprepareResponse, CALL_TIMEOUT)
        _check_answers(UNPREPARE, claims, response.claims)
        return {uid: answer.error for uid, answer in response.claims.items()}

    async def health(self, service: str, timeout: float) -> WatchResourcesResponse:
        """Return the first message of a service about the health of the devices. Raises FailedError, RPCError."""
        try:
            async with asyncio.timeout(timeout):
                async for response in self._stream(service):
                    return response
        except TimeoutError:
            raise FailedError(f"{WATCH} sent nothing within {timeout:g} s") from None
        raise FailedError(f"{WATCH} ended without having sent anything")

    def _stream(self, service: str) -> AsyncIterator[WatchResourcesResponse]:
        return self._channel.stream(f"{service}/{WATCH}", WatchResourcesRequest(), WatchResourcesResponse)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


def _check_answers(method: str, claims: tuple[Claim, ...], answers: Mapping[str, object]) -> None:
    asked = {claim.uid for claim in claims}
    if missing := asked - answers.keys():
        raise FailedError(f"{method} answered nothing about {len(missing)} of {len(asked)} claims")
    if others := answers.keys() - asked:
        raise FailedError(f"{method} answered about claims that it was not asked for: {', '.join(sorted(others))}")
