"""The connection that a request came on, as its answer uses it; and one on which a fault lets little through."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from math import inf
from typing import Protocol

from understudy.apiserver.endpoints.request import Delivery

_AT_ONCE = 0.05  # seconds between two portions of an answer that trickles
_NO_LINGER = struct.pack("ii", 1, 0)  # closing the socket resets the connection


class Writer(Protocol):
    """Sends bytes to a client."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""

    async def write(self, *parts: bytes) -> None:
        """Send bytes, and wait while the client reads too slowly. Raises ConnectionResetError if it went away."""


class Connection(Writer, Protocol):
    """The connection that a request of HTTP/1.1 came on."""

    def write_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the client went away."""

    def write_if_ready(self, data: bytes) -> bool:
        """Send bytes if the client is there and does not read too slowly; report whether they are sent."""

    async def end_writing(self) -> None:
        """Tell the client that nothing follows, and give it the time to read what was sent."""

    def upgrade(self, receive: Callable[[bytes], None]) -> None:
        """Give all that the client sends from now on to `receive`."""

    def hold(self, is_full: bool) -> None:
        """Let a client that speaks another protocol wait, or go on: too much of what it has sent is not read yet."""


def reset(transport: asyncio.Transport | None) -> None:
    """Reset a connection (TCP's RST), without a word about its end. None is one whose client went away."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


class ImpairedWriter:
    """Sends slowly, or resets the connection when enough of an answer has been sent.

    head  whether the head of the answer comes before its body
    """

    def __init__(self, writer: Writer, delivery: Delivery, *, head: bool = False) -> None:
        self._writer = writer
        self._rate = delivery.bytes_per_second
        self._body_bytes = delivery.body_bytes
        self._left = inf if delivery.body_bytes is None else 0.0 if head else delivery.body_bytes
        self._has_begun = not head

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""
        return self._writer.transport

    async def write(self, *parts: bytes) -> None:
        """Send bytes as slowly as they may be sent. Raises ConnectionResetError if it went away, or is reset."""
        data = b"".join(parts)
        if not self._has_begun:
            self._has_begun = True
            if self._body_bytes is not None and self._body_bytes >= 0:
                self._left = data.index(b"\r\n\r\n") + 4 + self._body_bytes
        is_last = len(data) > self._left
        await self._trickle(data[: int(self._left)] if is_last else data)
        self._left -= len(data)
        if is_last:
            reset(self.transport)
            raise ConnectionResetError("a fault resets this connection")

    async def _trickle(self, data: bytes) -> None:
        """Send bytes at the rate of the connection."""
        if self._rate == inf:
            if data:
                await self._writer.write(data)
            return
        portion = max(int(self._rate * _AT_ONCE), 1)
        for at in range(0, len(data), portion):
            await self._writer.write(data[at : at + portion])
            await asyncio.sleep(portion / self._rate)


class ImpairedConnection(ImpairedWriter):
    """A connection of HTTP/1.1 that sends slowly, or is reset when enough of an answer has been sent."""

    def __init__(self, connection: Connection, delivery: Delivery) -> None:
        super().__init__(connection, delivery, head=True)
        self._connection = connection

    def write_now(self, data: bytes) -> None:
        self._connection.write_now(data)

    def write_if_ready(self, data: bytes) -> bool:
        """Send nothing: that has to be slow."""
        return False

    async def end_writing(self) -> None:
        await self._connection.end_writing()

    def upgrade(self, receive: Callable[[bytes], None]) -> None:
        self._connection.upgrade(receive)

    def hold(self, is_full: bool) -> None:
        self._connection.hold(is_full)
