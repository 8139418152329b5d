"""The registered endpoints of DRA drivers, and the end of the ResourceSlices of drivers that went away.

A driver has one endpoint, or several while it is updated without a break. Releases differ in which service they speak,
which endpoint they call, and when they delete the slices of a driver. Upstream: `pkg/kubelet/cm/dra/plugin`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES, resource_slices
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
    PrepareResponse,
    UnprepareResponse,
    WatchResourcesRequest,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.pluginmanager import RegistrationError
from understudy.machinery.errors import StatusError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_37, ByRelease, Version
from understudy.machinery.serializer.rpc.grpc_channel import GRPCChannel, RPCError
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

PLUGIN_TYPE = "DRAPlugin"
CALL_TIMEOUT = 45.0  # seconds that a driver has to prepare claims
HEALTH_RETRY = 5.0
FIRST_RETRY, LONGEST_RETRY = 1.0, 300.0  # until slices that could not be deleted are tried again

# The services that the kubelet of a release speaks, its favourite first.
SERVICES = ByRelease({V1_31: (V1ALPHA4,), V1_32: (V1BETA1, V1ALPHA4), V1_34: (V1, V1BETA1)})
HEALTH_SERVICES = ByRelease({V1_34: (HEALTH_V1ALPHA1,), V1_37: (HEALTH_V1, HEALTH_V1ALPHA1)})
# Seconds that a driver may be away before its slices are deleted.
WIPING_DELAY = ByRelease({V1_31: 0.0, V1_33: 30.0})

Answer = TypeVar("Answer", PrepareResponse, UnprepareResponse)
HealthHandler = Callable[[str, AsyncIterator[WatchResourcesResponse]], Awaitable[None]]


class UnknownDriverError(Exception):
    """A driver that is not registered."""


class Plugin(ABC):
    """A registered endpoint of a driver.

    connected  whether the driver can be called
    """

    def __init__(self, driver: str, endpoint: str) -> None:
        self.driver = driver
        self.endpoint = endpoint
        self.connected = False

    @abstractmethod
    def start(self, changed: Callable[[], None], health: HealthHandler | None) -> None:
        """Keep connected, and report changes; hand the stream of device health to a handler, if there is one."""

    @abstractmethod
    async def prepare(self, claims: tuple[Claim, ...]) -> PrepareResponse:
        """Call NodePrepareResources. Raises RPCError."""

    @abstractmethod
    async def unprepare(self, claims: tuple[Claim, ...]) -> UnprepareResponse:
        """Call NodeUnprepareResources. Raises RPCError."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection and all that follows it."""


class NewPlugin(Protocol):
    """Makes the endpoint of a driver. Arguments are those of `DRAPlugin`."""

    def __call__(
        self, driver: str, endpoint: str, service: str, health_service: str, keeps_following: bool, clock: Clock
    ) -> Plugin: ...


class DRAPlugin(Plugin):
    """An endpoint that is called by gRPC.

    health_service   the service that tells the health of devices, "" if there is none
    keeps_following  whether a driver is asked again that says that it does not know the health of devices
    clock            by which it waits before it asks again
    """

    def __init__(
        self, driver: str, endpoint: str, service: str, health_service: str, keeps_following: bool, clock: Clock
    ) -> None:
        super().__init__(driver, endpoint)
        self._clock = clock
        self._service = WIRE_NAMES[service]
        self._health_service = health_service
        self._keeps_following = keeps_following
        self._channel = GRPCChannel(endpoint)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, changed: Callable[[], None], health: HealthHandler | None) -> None:
        def set_connected(connected: bool) -> None:
            self.connected = connected
            changed()

        self._tasks.append(asyncio.create_task(self._channel.keep_connected(set_connected)))
        if health is not None and self._health_service:
            self._tasks.append(asyncio.create_task(self._follow_health(health)))

    async def prepare(self, claims: tuple[Claim, ...]) -> PrepareResponse:
        return await self._call(PREPARE, claims, PrepareResponse)

    async def unprepare(self, claims: tuple[Claim, ...]) -> UnprepareResponse:
        return await self._call(UNPREPARE, claims, UnprepareResponse)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    async def _call(self, method: str, claims: tuple[Claim, ...], answer: type[Answer]) -> Answer:
        return await self._channel.call(f"{self._service}/{method}", ClaimsRequest(claims), answer, CALL_TIMEOUT)

    async def _follow_health(self, handler: HealthHandler) -> None:
        """Follow the health of devices; try again when the stream ends.

        Up to 1.36 it ends immediately, again and again, if there is no service.
        """
        while True:
            method = f"{self._health_service}/{WATCH}"
            stream = self._channel.stream(method, WatchResourcesRequest(), WatchResourcesResponse)
            try:
                await handler(self.driver, stream)
            except RPCError as why:
                log.debug("health of %s: %s", self.driver, why)
                if why.code == "Unimplemented" and not self._keeps_following:
                    return
            await sleep(self._clock, HEALTH_RETRY)


class DRAPluginManager:
    """Takes the registrations of DRA drivers and finds the endpoint to call. Upstream: `DRAPluginManager`.

    health        takes the streams of device health, None if the kubelet does not follow it
    wiping_delay  seconds, None for those of the release
    new_plugin    makes the endpoints that are called
    """

    def __init__(
        self,
        client: APIClient,
        node: str,
        version: Version,
        health: HealthHandler | None = None,
        wiping_delay: float | None = None,
        new_plugin: NewPlugin = DRAPlugin,
    ) -> None:
        self._new_plugin = new_plugin
        self._client = client
        self._node = node
        self._version = version
        self._health = health
        self._wiping_delay = WIPING_DELAY[version] if wiping_delay is None else wiping_delay
        self._plugins: dict[str, list[Plugin]] = {}  # by driver, in the order of their registration
        self._wiping: dict[str, asyncio.Task[None]] = {}  # by driver, "" for all

    def start(self) -> None:
        """Delete the slices of all drivers of the node: none has registered yet, and some may never do so again."""
        self._wipe_after("", 0.0)

    async def stop(self) -> None:
        """Close all connections and give up what is to be deleted."""
        for task in self._wiping.values():
            task.cancel()
        await asyncio.gather(*self._wiping.values(), return_exceptions=True)
        for plugins in self._plugins.values():
            for plugin in plugins:
                await plugin.close()

    def get(self, driver: str) -> Plugin:
        """Return the endpoint of a driver to call: of those that are connected the newest. Raises UnknownDriverError.

        Before 1.34 it is the newest, connected or not.
        """
        plugins = self._plugins.get(driver)
        if not plugins:
            if self._version >= V1_34:
                raise UnknownDriverError(f"DRA driver {driver} is not registered")
            raise UnknownDriverError(f"plugin name {driver} not found in the list of registered DRA plugins")
        connected = [plugin for plugin in plugins if plugin.connected] if self._version >= V1_34 else []
        return (connected or plugins)[-1]

    def validate(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        """Raise RegistrationError if no service of a driver is known here."""
        try:
            self._choose_service(name, versions)
        except RegistrationError as why:
            if self._version >= V1_34:
                raise self._invalid(name, endpoint, why) from why
            raise RegistrationError(f"invalid versions of plugin {name}: {why}") from why

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        try:
            service = self._choose_service(name, versions)
        except RegistrationError as why:
            if self._version >= V1_34:
                raise self._invalid(name, endpoint, why) from why
            raise RegistrationError(f"version check of plugin {name} failed: {why}") from why
        plugins = self._plugins.setdefault(name, [])
        if self._version < V1_33:  # one endpoint for each driver
            for plugin in plugins:
                await plugin.close()
            plugins.clear()
        elif any(plugin.endpoint == endpoint for plugin in plugins):
            what = "DRA driver plugin" if self._version >= V1_34 else "plugin"
            raise RegistrationError(f"endpoint {endpoint} already registered for {what} {name}")
        plugin = self._new_plugin(
            name,
            endpoint,
            service,
            self._choose_health_service(versions),
            keeps_following=self._version < V1_37,
            clock=self._client.clock,
        )
        plugins.append(plugin)
        plugin.start(lambda: self._connection_changed(name), self._health)
        if self._version < V1_34:
            self._stop_wiping(name)
        else:
            self._connection_changed(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Let an endpoint of a driver go; before 1.33, whichever is registered."""
        plugins = self._plugins.get(name, [])
        for plugin in [p for p in plugins if self._version < V1_33 or p.endpoint == endpoint]:
            plugins.remove(plugin)
            await plugin.close()
            if self._version >= V1_34:
                self._connection_changed(name)
            elif not plugins:
                self._stop_wiping(name)
                self._wipe_after(name, self._wiping_delay)

    def _invalid(self, name: str, endpoint: str, why: RegistrationError) -> RegistrationError:
        return RegistrationError(
            f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {why}"
        )

    def _choose_service(self, name: str, versions: tuple[str, ...]) -> str:
        """Return the service to call of those that a driver has. Raises RegistrationError.

        From 1.34 the first of the driver's that the kubelet knows; in 1.32 and 1.33 the first of the kubelet's. Drivers
        for 1.31 do not name services but a version, `1.0.0`.
        """
        if self._version < V1_32:
            _check_versions(versions)
            if self._plugins.get(name):
                text = f"{go_quote(versions[0])} < {go_quote(versions[0])}"  # drivers for 1.31 all say "1.0.0"
                raise RegistrationError(
                    f"another plugin instance is already registered with a higher supported version: {text}"
                )
            return V1ALPHA4
        if not versions:
            raise RegistrationError("empty list of supported gRPC services (aka supported versions)")
        known = SERVICES[self._version]
        if self._version < V1_34:
            return next((service for service in known if service in versions), V1ALPHA4)
        for service in versions:
            if service in known:
                return service
        raise RegistrationError(
            f"none of services supported by the plugin ({_quoted(versions)}) are supported by the kubelet"
            f" ({_quoted(known)})"
        )

    def _choose_health_service(self, versions: tuple[str, ...]) -> str:
        """Return the service that tells the health of devices, "" if a driver has none.

        Up to 1.36 there is one, which is called whatever a driver says. Upstream: `pickHealthService`.
        """
        if self._version < V1_34:
            return ""
        known = HEALTH_SERVICES[self._version]
        if self._version < V1_37:
            return known[0]
        return next((service for service in known if service in versions), "")

    def _connection_changed(self, driver: str) -> None:
        """Begin or stop to wait for a driver to come back. From 1.34 one that is not connected is away."""
        if self._version < V1_34:
            return
        if any(plugin.connected for plugin in self._plugins.get(driver, [])):
            self._stop_wiping(driver)
        elif driver not in self._wiping:
            self._wipe_after(driver, self._wiping_delay)

    def _stop_wiping(self, driver: str) -> None:
        task = self._wiping.pop(driver, None)
        if task is not None:
            task.cancel()

    def _wipe_after(self, driver: str, delay: float) -> None:
        task = asyncio.create_task(self._wipe(driver, delay), name=f"wipe slices of {driver or 'all drivers'}")
        self._wiping[driver] = task
        task.add_done_callback(lambda done: self._wiping.pop(driver) if self._wiping.get(driver) is done else None)

    async def _wipe(self, driver: str, delay: float) -> None:
        """Delete the slices of a driver, or of all, once the Node exists. Upstream: `wipeResourceSlices`."""
        await sleep(self._client.clock, delay)
        fields = f"spec.driver={driver},spec.nodeName={self._node}" if driver else f"spec.nodeName={self._node}"
        retry = FIRST_RETRY
        while True:
            try:
                await self._client.get(NODES, self._node)
                await self._client.delete_collection(resource_slices(self._version), fields=fields)
            except (StatusError, ConnectionError) as why:
                log.info("cannot delete ResourceSlices with %s: %s", fields, why)
            else:
                log.info("deleted ResourceSlices with %s", fields)
                return
            await sleep(self._client.clock, retry * random.uniform(1.0, 1.2))
            retry = min(retry * 2, LONGEST_RETRY)


def _quoted(texts: tuple[str, ...]) -> str:
    """Return texts as Go prints a slice with %q."""
    return f"[{' '.join(go_quote(text) for text in texts)}]"


def _check_versions(versions: tuple[str, ...]) -> None:
    """Refuse the versions of a driver that a kubelet of 1.31 does not take. Upstream: `HighestSupportedVersion`."""
    if not versions:
        raise RegistrationError("empty list for supported versions")
    majors = [int(version.lstrip("v").split(".")[0]) for version in versions if re.fullmatch(r"v?\d+(\.\d+)+", version)]
    if 1 not in majors:
        unparsed = next((v for v in versions if not re.fullmatch(r"v?\d+(\.\d+)+", v)), None)
        why = f"could not parse {go_quote(unparsed)} as version" if unparsed else "<nil>"
        text = f"could not find a highest supported version from versions ([{' '.join(versions)}]) reported: {why}"
        raise RegistrationError(f"none of the versions are supported: {text}")
