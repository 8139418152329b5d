"""Ports of pods, which are ports of this machine. Upstream: `k8s.io/cri-streaming/pkg/streaming/portforward`."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress

from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.webhooks.egress.dialing import os_reason
from understudy.apiserver.server.webhooks.streams import channels as websockets
from understudy.apiserver.server.webhooks.streams import remotecommand as names
from understudy.apiserver.server.webhooks.streams.spdy import SpdyConnection, SpdyStream
from understudy.apiserver.server.webhooks.streams.stream import (
    SocketStream,
    Stream,
    Wire,
    beside,
    copy,
    together,
    until_first,
)
from understudy.controlplane.kubelet.server.command_streams import begin_channels
from understudy.controlplane.kubelet.server.host import Address
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query

PROTOCOL = "portforward.k8s.io"
_DATA, _PORT, _REQUEST_ID = "data", "port", "requestid"  # a type of streams, and headers of theirs
_OF_WEBSOCKETS = ("", websockets.V4, websockets.V4_BASE64)


class Ports:
    """The ports of one pod.

    address  returns host and port that stand in for a port
    """

    def __init__(self, uid: str, address: Callable[[int], Address]) -> None:
        self._uid = uid
        self._address = address

    async def forward(self, port: int, data: Stream, error: Stream) -> bool:
        """Connect a stream with a port until that is closed; tell why it cannot be. Report whether it could."""
        try:
            socket = await self._connected(port)
        except OSError as why:
            await error.write(f"error forwarding port {port} to pod {self._uid}, uid : {why}".encode())
            return False
        try:
            with suppress(OSError):
                async with beside(copy(data, socket)):
                    await copy(socket, data)
        finally:
            socket.end()
        return True

    async def _connected(self, port: int) -> SocketStream:
        """Return a connection to what stands in for a port. Raises OSError with the words of containerd."""
        host, number = self._address(port)
        try:
            return SocketStream(*await asyncio.open_connection(host, number))
        except OSError as why:
            text = f'failed to connect to localhost:{port} inside namespace "host", IPv4: dial tcp4 {host}:{number}:'
            text = f'failed to execute portforward in network namespace "host": {text} connect: {os_reason(why)}'
            raise OSError(text) from None


class SpdyPorts:
    """The streams of a client that forwards ports over SPDY: two for each connection (`httpStreamHandler`)."""

    def __init__(self, wire: Wire, ports: Ports) -> None:
        self.connection = SpdyConnection(wire, is_server=True, accept=self._accept)
        self._ports = ports
        self._pairs: dict[str, dict[str, SpdyStream]] = {}
        self._complete: asyncio.Queue[dict[str, SpdyStream]] = asyncio.Queue()

    async def run(self) -> None:
        """Forward until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._forward(await self._complete.get()))

    async def _forward(self, pair: Mapping[str, SpdyStream]) -> None:
        data, error = pair[_DATA], pair[names.ERROR]
        with suppress(ConnectionError):
            if await self._ports.forward(int(data.headers[_PORT]), data, error):
                error.close()
            else:
                data.reset()
        error.reset()
        data.reset()

    def _accept(self, stream: SpdyStream) -> bool:
        """Take a stream if its headers are right (`httpStreamReceived`)."""
        kind, port = stream.headers.get(names.STREAM_TYPE, ""), stream.headers.get(_PORT, "")
        if kind not in (_DATA, names.ERROR) or not is_port(port):
            return False
        # Clients that name no request open both streams one after the other, that of errors first.
        request = stream.headers.get(_REQUEST_ID) or str(stream.number - (2 if kind == _DATA else 0))
        pair = self._pairs.setdefault(request, {})
        if kind in pair:
            return False
        pair[kind] = stream
        if len(pair) == len((_DATA, names.ERROR)):
            self._complete.put_nowait(self._pairs.pop(request))
        return True


async def forward_channels(exchange: Http1Exchange, ports: Ports, numbers: list[int]) -> None:
    """Forward ports to the channels of a WebSocket, two for each, until all connections are closed."""
    channels = await begin_channels(exchange, _OF_WEBSOCKETS, [True, False] * len(numbers))
    if channels is None:
        return

    async def forward(number: int, data: Stream, error: Stream) -> None:
        for stream in (data, error):
            await stream.write(struct.pack("<H", number))
        await ports.forward(number, data, error)

    pairs = zip(numbers, channels.streams[::2], channels.streams[1::2], strict=True)
    await until_first(together(*(forward(*pair) for pair in pairs)), channels.ended.wait())
    await channels.finish()


def asked_ports(query: Query) -> list[int]:
    """Return the ports that the client of a WebSocket names. Raises ValueError (`NewV4Options`)."""
    texts = query.all(_PORT)
    if not texts:
        raise ValueError(f"query parameter {go_quote(_PORT)} is required")
    for text in texts:
        if not text:
            raise ValueError(f"query parameter {go_quote(_PORT)} cannot be empty")
        for part in text.split(","):
            if part == "0":
                raise ValueError(f"port {go_quote(text)} must be > 0")
            if not is_port(part):
                syntax = f"strconv.ParseUint: parsing {go_quote(part)}: {_mistake(part)}"
                raise ValueError(f"unable to parse {go_quote(text)} as a port: {syntax}")
    return [int(part) for text in texts for part in text.split(",")]


def is_port(text: str) -> bool:
    """Report whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16


def _mistake(text: str) -> str:
    return "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
