"""The streams of a command, as a client opens them: over SPDY, or as channels of a WebSocket.

Upstream: `createStreams` of `k8s.io/cri-streaming/pkg/streaming/remotecommand`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.webhooks.streams import channels as websockets
from understudy.apiserver.server.webhooks.streams import remotecommand as names
from understudy.apiserver.server.webhooks.streams.channels import CHANNEL_NAMES, Channels, chosen_protocol
from understudy.apiserver.server.webhooks.streams.remotecommand import StreamOptions
from understudy.apiserver.server.webhooks.streams.spdy import PROTOCOL, SpdyConnection, SpdyStream
from understudy.apiserver.server.webhooks.streams.stream import Stream
from understudy.apiserver.server.webhooks.streams.websocket_wire import UpgradedWire, refuses_websocket
from understudy.controlplane.kubelet.server.refused import RefusedError

_OF_SPDY = (names.V4, names.V3, names.V2, names.V1)
_OF_WEBSOCKETS = ("", names.V1, websockets.BASE64_CHANNELS, names.V4, websockets.V4_BASE64)
_WITH_STATUS = (names.V4, names.V5, websockets.V4_BASE64)


class CommandStreams:
    """The streams of a command by name, and the connection that carries them.

    protocol  the version of the protocol that was chosen
    """

    def __init__(self, protocol: str, streams: Mapping[str, Stream], connection: SpdyConnection | Channels) -> None:
        self.streams = streams
        self.ended = connection.ended
        self._protocol = protocol
        self._connection = connection

    async def finish(self, error: Exception | None) -> None:
        """Tell the client how the command has ended: the Status in versions that have one, else the text of an error.

        Raises ConnectionResetError if the client has gone.
        """
        stream = self.streams[names.ERROR]
        if self._protocol in _WITH_STATUS:
            await stream.write(names.success() if error is None else names.failure(error))
        elif error is not None:
            await stream.write(names.message_of(error).encode())
        stream.close()

    async def end(self) -> None:
        """End the connection."""
        await self._connection.finish()


def negotiated(exchange: Http1Exchange, known: Sequence[str]) -> str:
    """Return the first protocol for SPDY that a client names and a server knows. Raises RefusedError (`Handshake`)."""
    lines = exchange.headers.getall(names.PROTOCOL_VERSION, [])
    named = [name for line in lines for text in line.split(",") if (name := text.strip(" "))]
    if not named:
        raise RefusedError(400, f"unable to upgrade: {names.PROTOCOL_VERSION} is required\n")
    for name in named:
        if name in known:
            return name
    words = f"client supports [{' '.join(named)}], server accepts [{' '.join(known)}]"
    accepted = [(names.ACCEPTED_VERSIONS, name) for name in known]
    raise RefusedError(403, f"unable to upgrade: unable to negotiate protocol: {words}\n", accepted)


def asks_for_websocket(exchange: Http1Exchange) -> bool:
    """Report whether a client asks for a WebSocket."""
    return exchange.headers.get("Upgrade", "").lower() == "websocket"


async def begin_spdy(exchange: Http1Exchange, protocol: str, connection: SpdyConnection) -> None:
    """Speak SPDY from now on. Raises RefusedError for a client that does not ask for it (`UpgradeResponse`)."""
    if PROTOCOL.lower() not in exchange.headers.get("Upgrade", "").lower():
        raise RefusedError(400, f"unable to upgrade: missing upgrade headers in request: {dict(exchange.headers)}\n")
    headers = {"Connection": "Upgrade", "Upgrade": PROTOCOL, names.PROTOCOL_VERSION: protocol}
    await exchange.upgrade(headers, connection.receive)


async def begin_channels(exchange: Http1Exchange, known: Sequence[str], reads: Sequence[bool]) -> Channels | None:
    """Begin a WebSocket with channels, and return them; None if it is refused, which the client is told."""
    protocol = chosen_protocol(exchange, known)
    if await refuses_websocket(exchange, knows_protocol=protocol is not None):
        return None
    assert protocol is not None
    channels = Channels(exchange, protocol, reads)
    await channels.open()
    return channels


async def streams_of(exchange: Http1Exchange, options: StreamOptions, *, closes_streams: bool) -> CommandStreams | None:
    """Return the streams that a client opens; None for one that opens none, or is refused.

    closes_streams  whether WebSockets of version 5 are known

    Raises RefusedError.
    """
    if not asks_for_websocket(exchange):
        return await _spdy_streams(exchange, options)
    known = (names.V5, *_OF_WEBSOCKETS) if closes_streams else _OF_WEBSOCKETS
    channels = await begin_channels(exchange, known, [options.stdin, False, False, False, True])
    if channels is None:
        return None
    await channels.named(options.first).write(b"")
    asked_for = (names.ERROR, *options.inputs(), *options.outputs)
    streams = {name: channels.named(name) for name in CHANNEL_NAMES if name in asked_for}
    return CommandStreams(channels.protocol, streams, channels)


async def _spdy_streams(exchange: Http1Exchange, options: StreamOptions) -> CommandStreams | None:
    """Return the streams once the client has opened all of them."""
    protocol = negotiated(exchange, _OF_SPDY)
    expected = {names.ERROR, *options.inputs(protocol), *options.outputs}
    streams: dict[str, SpdyStream] = {}
    complete = asyncio.Event()

    def accept(stream: SpdyStream) -> bool:
        streams[stream.headers.get(names.STREAM_TYPE, "")] = stream
        if expected <= streams.keys():
            complete.set()
        return True

    connection = SpdyConnection(UpgradedWire(exchange), is_server=True, accept=accept)
    await begin_spdy(exchange, protocol, connection)
    try:
        async with asyncio.timeout(names.CREATION_TIMEOUT):
            await complete.wait()
    except TimeoutError:
        connection.close()
        return None
    return CommandStreams(protocol, streams, connection)
