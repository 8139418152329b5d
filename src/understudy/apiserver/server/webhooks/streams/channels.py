"""Channels of a WebSocket, whose messages begin with the number of theirs. Upstream: `Conn` of `wsstream`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.endpoints.kubelets import STREAM_CLOSE
from understudy.apiserver.server.http1 import websocket
from understudy.apiserver.server.http1.exchange import Http1Exchange
from understudy.apiserver.server.webhooks.streams.stream import PORTION, Inboxes, linger
from understudy.apiserver.server.webhooks.streams.websocket_wire import WebSocketWire

CHANNELS, BASE64_CHANNELS = "channel.k8s.io", "base64.channel.k8s.io"
V4, V4_BASE64 = f"v4.{CHANNELS}", f"v4.{BASE64_CHANNELS}"
CHANNEL_NAMES = ("stdin", "stdout", "stderr", "error", "resize")  # those of a command, by their numbers
_CLOSE = 255  # the number in a message that ends the channel whose number follows


def chosen_protocol(exchange: Http1Exchange, known: Sequence[str]) -> str | None:
    """Return the first subprotocol that a client names and a server knows, None if there is none.

    The name of a client that names none is "".
    """
    return next((name for name in spoken_protocols(exchange.headers) or [""] if name in known), None)


class Channels:
    """A WebSocket with channels.

    reads     whether the client may send on a channel, by its number
    protocol  the subprotocol that was chosen
    ended     is set when the client sends no more
    """

    def __init__(self, exchange: Http1Exchange, protocol: str, reads: Sequence[bool]) -> None:
        self.ended = asyncio.Event()
        self.protocol = protocol
        self.is_base64 = protocol in (BASE64_CHANNELS, V4_BASE64)
        opcode = websocket.TEXT if self.is_base64 else websocket.BINARY
        self.wire = WebSocketWire(exchange, self._receive, self._end, opcode)
        inboxes = Inboxes(self.wire)
        self.streams = [Channel(self, number, inboxes.new() if read else None) for number, read in enumerate(reads)]

    def named(self, name: str) -> Channel:
        """Return the channel of a command's stream."""
        return self.streams[CHANNEL_NAMES.index(name)]

    async def open(self) -> None:
        """Confirm the WebSocket."""
        await self.wire.open(self.protocol)

    async def finish(self) -> None:
        """End the WebSocket, once the client has read all."""
        self.wire.close()
        for stream in self.streams:
            stream.end()
        await linger(self.wire, self.ended)

    def _receive(self, message: bytes) -> None:
        """Take a message; one of no channel is passed over, and one that ends no channel ends the WebSocket."""
        if not message:
            return
        number = message[0] - (ord("0") if self.is_base64 else 0)
        if number == _CLOSE and self.protocol == STREAM_CLOSE:
            if len(message) == 2 and message[1] < len(self.streams):
                self.streams[message[1]].end()
            else:
                self._end()
        elif 0 <= number < len(self.streams):
            self.streams[number].put(message[1:])

    def _end(self) -> None:
        self.ended.set()
        for stream in self.streams:
            stream.end()


class Channel:
    """A channel, which is read if it has an inbox."""

    def __init__(self, channels: Channels, number: int, inbox: asyncio.StreamReader | None) -> None:
        self._channels = channels
        self._number = number
        self._inbox = inbox
        self._is_ended = False

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        return b"" if self._inbox is None else await self._inbox.read(PORTION)

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises ConnectionResetError if the client is gone."""
        if self._channels.is_base64:
            await self._channels.wire.send(b"%d%b" % (self._number, base64.b64encode(data)))
        else:
            await self._channels.wire.send(bytes((self._number,)) + data)

    def close(self) -> None:
        """Do nothing: a server cannot end a channel."""

    def put(self, data: bytes) -> None:
        """Take bytes that have come. Those that are no base64 are passed over."""
        if self._inbox is None or self._is_ended:
            return
        try:
            self._inbox.feed_data(base64.b64decode(data, validate=True) if self._channels.is_base64 else data)
        except binascii.Error:
            return

    def end(self) -> None:
        """Note that nothing more comes."""
        if self._inbox is not None and not self._is_ended:
            self._is_ended = True
            self._inbox.feed_eof()
