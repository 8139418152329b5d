"""Finds plugins by the sockets in a directory and registers them. Upstream: `pkg/kubelet/pluginmanager`.

A plugin listens on `<directory>/NAME.sock` and says there, by the Registration service, what it is: its type, name,
endpoint and versions. A handler for its type decides; the plugin is told the outcome. When its socket vanishes, the
plugin is deregistered; when another socket takes its place, it is deregistered and registered again.

The directory is looked at several times a second, which works on every file system and is quick enough.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os import scandir
from pathlib import Path
from typing import Protocol

from understudy.machinery.serializer.rpc.grpc_channel import GRPCChannel, RPCError
from understudy.machinery.serializer.rpc.messages import Message, boolean, text, texts
from understudy.machinery.types import NamedTuple, dataclass

log = logging.getLogger(__name__)

LOOK_EVERY = 0.1  # seconds
GET_INFO_TIMEOUT, NOTIFY_TIMEOUT = 1.0, 5.0
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 122.0  # until a plugin that failed is tried again; doubled each time
SERVICE = "pluginregistration.Registration"


@dataclass(frozen=True)
class InfoRequest(Message):
    """Asks a plugin what it is."""


@dataclass(frozen=True)
class PluginInfo(Message):
    """The answer of a plugin about itself (`PluginInfo`). DRA drivers name their gRPC services as versions."""

    type: str = text(1)
    name: str = text(2)
    endpoint: str = text(3)
    supported_versions: tuple[str, ...] = texts(4)


@dataclass(frozen=True)
class RegistrationStatus(Message):
    """Tells a plugin whether it was registered, and if not, why."""

    plugin_registered: bool = boolean(1)
    error: str = text(2)


@dataclass(frozen=True)
class RegistrationStatusResponse(Message):
    """The empty answer to a RegistrationStatus."""


class RegistrationError(Exception):
    """A plugin that cannot be registered, and why."""


class PluginHandler(Protocol):
    """Takes plugins of one type. Upstream: `cache.PluginHandler`."""

    def validate(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        """Raise RegistrationError if a plugin could not be registered."""

    async def register(self, name: str, endpoint: str, versions: tuple[str, ...]) -> None:
        """Take a plugin. Raises RegistrationError."""

    async def deregister(self, name: str, endpoint: str) -> None:
        """Deregister a plugin with a socket that has vanished."""


class _Socket(NamedTuple):
    """A socket as it is now: another one under the same path differs."""

    path: str
    device: int
    inode: int
    made: int  # time; an inode is soon used again


class _Registered(NamedTuple):
    socket: _Socket
    handler: PluginHandler
    name: str
    endpoint: str


class PluginManager:
    """Registers the plugins whose sockets are in a directory or below. `handlers` are by plugin type."""

    def __init__(self, directory: Path, handlers: Mapping[str, PluginHandler]) -> None:
        self._directory = directory
        self._handlers = handlers
        self._registered: dict[str, _Registered] = {}
        self._backoff: dict[str, tuple[float, float]] = {}  # by path: seconds, and until when

    async def run(self) -> None:
        """Follow the directory until cancelled; it is made if it is missing."""
        self._directory.mkdir(parents=True, exist_ok=True)
        busy: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                sockets = {socket.path: socket for socket in _sockets(self._directory)}
                busy = {path: task for path, task in busy.items() if not task.done()}
                for path in {**self._registered, **sockets}.keys() - busy.keys():
                    socket = sockets.get(path)
                    if self._is_due(path, socket):
                        busy[path] = tasks.create_task(self._reconcile(path, socket), name=f"plugin {path}")
                await asyncio.sleep(LOOK_EVERY)

    def _is_due(self, path: str, socket: _Socket | None) -> bool:
        """Report whether a socket is to be registered or deregistered now."""
        registered = self._registered.get(path)
        if registered is not None:
            return registered.socket != socket
        return asyncio.get_running_loop().time() >= self._backoff.get(path, (0.0, 0.0))[1]

    async def _reconcile(self, path: str, socket: _Socket | None) -> None:
        """Deregister the plugin of a path, and register the one whose socket is there now."""
        registered = self._registered.pop(path, None)
        if registered is not None:
            log.info("plugin %s at %s is gone", registered.name, path)
            await registered.handler.deregister(registered.name, registered.endpoint)
        if socket is None:
            self._backoff.pop(path, None)
            return
        try:
            await self._register(socket)
        except (RegistrationError, RPCError) as why:
            log.warning("%s", why)
            delay = min(self._backoff.get(path, (FIRST_BACKOFF / 2, 0.0))[0] * 2, LONGEST_BACKOFF)
            self._backoff[path] = (delay, asyncio.get_running_loop().time() + delay)
        else:
            self._backoff.pop(path, None)

    async def _register(self, socket: _Socket) -> None:
        """Register the plugin of a socket and tell it the outcome. Upstream: `GenerateRegisterPluginFunc`."""
        path = socket.path
        channel = GRPCChannel(path)
        try:
            try:
                info = await channel.call(f"{SERVICE}/GetInfo", InfoRequest(), PluginInfo, GET_INFO_TIMEOUT)
            except RPCError as why:
                text = (
                    f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {path}, err: {why}"
                )
                raise RegistrationError(text) from why
            endpoint = info.endpoint or path
            try:
                handler = await self._take(info, endpoint, path)
            except RegistrationError as why:
                await self._notify(channel, path, RegistrationStatus(False, str(why)))
                raise
            self._registered[path] = _Registered(socket, handler, info.name, endpoint)
            try:
                await self._notify(channel, path, RegistrationStatus(True))
            except RegistrationError:
                del self._registered[path]
                await handler.deregister(info.name, endpoint)
                raise
            log.info("registered plugin %s at %s", info.name, path)
        finally:
            await channel.close()

    async def _take(self, info: PluginInfo, endpoint: str, path: str) -> PluginHandler:
        """Hand a plugin to the handler of its type; return the handler. Raises RegistrationError."""
        handler = self._handlers.get(info.type)
        if handler is None:
            raise RegistrationError(
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
            )
        try:
            handler.validate(info.name, endpoint, info.supported_versions)
        except RegistrationError as why:
            raise RegistrationError(f"RegisterPlugin error -- plugin validation failed with err: {why}") from why
        try:
            await handler.register(info.name, endpoint, info.supported_versions)
        except RegistrationError as why:
            raise RegistrationError(f"RegisterPlugin error -- plugin registration failed with err: {why}") from why
        return handler

    async def _notify(self, channel: GRPCChannel, path: str, status: RegistrationStatus) -> None:
        """Tell a plugin whether it was registered. Raises RegistrationError if it does not take that."""
        method = f"{SERVICE}/NotifyRegistrationStatus"
        try:
            await channel.call(method, status, RegistrationStatusResponse, NOTIFY_TIMEOUT)
        except RPCError as why:
            kind = "registration status" if status.plugin_registered else "error"
            text = f"RegisterPlugin error -- failed to send {kind} at socket {path}, err: {status.error}: {why}"
            raise RegistrationError(text) from why


def _sockets(directory: Path) -> Iterator[_Socket]:
    """Yield the sockets in a directory and below it, but for hidden ones."""
    with suppress(FileNotFoundError), scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            with suppress(FileNotFoundError):  # it has just been removed
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    yield from _sockets(Path(entry.path))
                elif stat.S_ISSOCK(status.st_mode):
                    yield _Socket(entry.path, status.st_dev, status.st_ino, status.st_mtime_ns)
