"""Commands in pods and ports of pods: processes and ports of this machine stand in for those of containers.

Upstream: `getExec`, `getAttach` and `getPortForward`, with the runtime's `ServeExec` and `ServePortForward`.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.endpoints.kubelets import TUNNEL_PREFIX, tunneled_protocols
from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.webhooks.streams.remotecommand import CommandError, StreamOptions
from understudy.apiserver.server.webhooks.streams.stream import until_first
from understudy.apiserver.server.webhooks.streams.websocket_wire import UpgradedWire, WebSocketWire, refuses_websocket
from understudy.controlplane.kubelet.server import ports, processes
from understudy.controlplane.kubelet.server.command_streams import (
    CommandStreams,
    asks_for_websocket,
    begin_spdy,
    negotiated,
    streams_of,
)
from understudy.controlplane.kubelet.server.host import Host
from understudy.controlplane.kubelet.server.ports import Ports, SpdyPorts
from understudy.controlplane.kubelet.server.refused import RefusedError
from understudy.controlplane.kubelet.server.sessions import Sessions
from understudy.machinery.options import Query
from understudy.machinery.types import Obj


class PodStreams:
    """Runs commands of clients, and connects them with ports.

    speaks_websockets  whether the kubelet knows WebSockets of version 5, and those that carry SPDY
    """

    def __init__(self, host: Host, sessions: Sessions, *, speaks_websockets: bool) -> None:
        self._host = host
        self._sessions = sessions
        self._speaks_websockets = speaks_websockets

    async def attach(self, exchange: Http1Exchange, options: StreamOptions, pod: Obj, container: Obj) -> None:
        """Run the command of a container, since none runs that could be attached to. Raises RefusedError."""
        options = options._replace(tty=bool(container.get("tty")))
        if options.tty and options.stderr:
            raise RefusedError(500, "rpc error: code = InvalidArgument desc = tty and stderr cannot both be true")
        command = [*container.get("command", ()), *container.get("args", ())]
        await self.execute(exchange, options, pod, container["name"], command)

    async def forward(self, exchange: Http1Exchange, query: Query, pod: Obj) -> None:
        """Connect the client with ports of a pod. Raises RefusedError."""
        metadata = pod["metadata"]
        uid, numbers = metadata["uid"], self.asked_ports(exchange, query)
        own = Ports(uid, partial(self._host.address, metadata["namespace"], metadata["name"]))
        with self._sessions.begin(uid) as ended:
            if numbers:
                await until_first(ports.forward_channels(exchange, own, numbers), ended.wait())
                return
            streams = await self._begin_ports(exchange, own)
            if streams is not None:
                await until_first(streams.run(), streams.connection.ended.wait(), ended.wait())
                await streams.connection.finish()

    def asked_ports(self, exchange: Http1Exchange, query: Query) -> list[int]:
        """Return the ports that the client of a WebSocket with channels names, none for others. Raises RefusedError."""
        if not asks_for_websocket(exchange) or self._tunneled(exchange):
            return []
        try:
            return ports.asked_ports(query)
        except ValueError as why:
            raise RefusedError(400, str(why)) from None

    async def execute(
        self, exchange: Http1Exchange, options: StreamOptions, pod: Obj, container: str, command: Sequence[str]
    ) -> None:
        """Run a command in a container. Raises RefusedError."""
        if not is_upgrade(exchange):
            raise RefusedError(500, "Upgrade request required\n")
        streams = await streams_of(exchange, options, closes_streams=self._speaks_websockets)
        if streams is None:
            return
        metadata = pod["metadata"]
        names = {"POD_NAMESPACE": metadata["namespace"], "POD_NAME": metadata["name"], "POD_UID": metadata["uid"]}
        environment = {**os.environ, **names, "CONTAINER_NAME": container}
        with self._sessions.begin(metadata["uid"]) as ended:
            try:
                process = processes.Process.start([*self._host.command, *command], environment, options)
            except OSError as why:
                await streams.finish(OSError(f"error executing command in container: {why}"))
            else:
                finishing = _finished(processes.run(process, streams.streams, ended), streams, command)
                await until_first(finishing, streams.ended.wait())
        await streams.end()

    async def _begin_ports(self, exchange: Http1Exchange, own: Ports) -> SpdyPorts | None:
        """Return the streams of a client over SPDY, None if it is refused. Raises RefusedError."""
        if not is_upgrade(exchange):
            raise RefusedError(500, "Upgrade request required\n")
        if tunneled := self._tunneled(exchange):
            return await _begin_tunnel(exchange, own, tunneled)
        protocol = negotiated(exchange, [ports.PROTOCOL])
        streams = SpdyPorts(UpgradedWire(exchange), own)
        await begin_spdy(exchange, protocol, streams.connection)
        return streams

    def _tunneled(self, exchange: Http1Exchange) -> list[str]:
        """Return the protocols that a client wants to speak over SPDY in the messages of a WebSocket."""
        if not self._speaks_websockets or not asks_for_websocket(exchange):
            return []
        return tunneled_protocols(spoken_protocols(exchange.headers))


async def _finished(running: Coroutine[Any, Any, None], streams: CommandStreams, command: Sequence[str]) -> None:
    """Run a command to its end, and tell the client of it."""
    error: Exception | None = None
    try:
        await running
    except CommandError as why:
        error = CommandError(why.code, f"error executing command [{' '.join(command)}], exit code {why.code}")
    await streams.finish(error)


async def _begin_tunnel(exchange: Http1Exchange, own: Ports, protocols: Sequence[str]) -> SpdyPorts | None:
    """Return the streams of a client over SPDY in the messages of a WebSocket, None if it is refused."""
    if await refuses_websocket(exchange, knows_protocol=ports.PROTOCOL in protocols):
        return None
    streams: SpdyPorts
    wire = WebSocketWire(exchange, lambda data: streams.connection.receive(data), lambda: streams.connection.end())
    streams = SpdyPorts(wire, own)
    await wire.open(f"{TUNNEL_PREFIX}{ports.PROTOCOL}")
    return streams


def is_upgrade(exchange: Http1Exchange) -> bool:
    """Report whether a client asks for another protocol (`IsUpgradeRequest`)."""
    return any("upgrade" in text.lower() for text in exchange.headers.getall("Connection", ()))


def stream_options(query: Query) -> StreamOptions:
    """Return the streams that a client asks for. Raises RefusedError if there are none (`NewOptions`)."""
    tty, stdin, stdout, stderr = (query.get(name) == "1" for name in ("tty", "input", "output", "error"))
    options = StreamOptions(stdin, stdout, stderr and not tty, tty)
    if not any(options[:3]):
        raise RefusedError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options
