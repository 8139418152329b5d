"""One request of a connection of HTTP/2, and the way its answer goes back: as much as the client has room for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import random
from typing import Protocol

from h2.errors import ErrorCodes
from multidict import CIMultiDict

from understudy.apiserver.endpoints.request import NO_ANSWER, Delivery
from understudy.apiserver.server.http1.body import Body
from understudy.apiserver.server.http1.connection import ImpairedWriter, reset
from understudy.apiserver.server.http1.exchange import DATE, WITHOUT_BODY, Exchange, date_of
from understudy.apiserver.server.http1.head import CONNECTION, CONTENT_LENGTH, Head
from understudy.apiserver.server.http2.rules import Rules
from understudy.apiserver.storage.turns import Turns

_BUFFER = 4096  # bytes of a body whose length Go tells to HEAD, too: it begins to send when there are more


class Carrier(Protocol):
    """The connection that streams share.

    http2          its rules, and the frames that are to be sent
    is_full        whether the client reads too slowly
    is_over        whether nothing more is read of the client
    goaway_chance  the share of answers with which the client is told to connect anew
    """

    http2: Rules
    transport: asyncio.Transport | None
    is_full: bool
    is_over: bool
    goaway_chance: float

    def flush(self) -> None:
        """Send the frames that have been made."""

    def go_away(self) -> None:
        """Let no more requests come, and close the connection behind those that have come."""

    def fail(self, code: ErrorCodes) -> None:
        """End the connection for an error of the client."""

    def rest(self) -> None:
        """Note that no request is left."""


class StreamBody(Body):
    """The body of a request; the client has room for as much as is read of it."""

    __slots__ = ("_make_room",)

    def __init__(self, make_room: Callable[[int], None], length: int) -> None:
        super().__init__(lambda: None, length)
        self._make_room = make_room

    def take(self) -> bytes:
        """Return the bytes that came since the last call, without waiting for more."""
        data = super().take()
        if data:
            self._make_room(len(data))
        return data


class Stream:
    """The place of one request on its connection.

    break_off  ends one whose answer does not come to its end
    is_open    whether more of the answer can be sent
    """

    __slots__ = ("_break_off", "_connection", "_room", "is_open", "number")

    def __init__(self, connection: Carrier, number: int, break_off: Callable[[Stream], None]) -> None:
        self._connection = connection
        self._break_off = break_off
        self.number = number
        self.is_open = True
        self._room: asyncio.Future[None] | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""
        return self._connection.transport

    def begin(self, status: int, headers: CIMultiDict[str], *, ends: bool, waits: bool = False) -> None:
        """Send the head of an answer. Raises ConnectionResetError if the client gave the request up.

        waits  whether it is sent with the first bytes of the body
        """
        self._check()
        if headers.pop(CONNECTION, "") == "close" or random() < self._connection.goaway_chance:
            self._connection.go_away()
        fields = [(b":status", b"%d" % status)]
        fields += [(name.lower().encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()]
        self._connection.http2.send_headers(self.number, fields, end_stream=ends)
        self.is_open = not ends
        if not waits:
            self._connection.flush()

    def send_continue(self) -> None:
        """Tell the client to send the body of its request. Raises ConnectionResetError if it gave the request up."""
        self._check()
        self._connection.http2.send_headers(self.number, [(b":status", b"100")])
        self._connection.flush()

    async def write(self, *parts: bytes, ends: bool = False) -> None:
        """Send bytes of a body, and wait while the client has no room for them.

        Raises ConnectionResetError if it went away or gave the request up.
        """
        http2, left = self._connection.http2, memoryview(b"".join(parts) if len(parts) > 1 else parts[0])
        while True:
            self._check()
            room = min(http2.local_flow_control_window(self.number), http2.max_outbound_frame_size)
            if self._connection.is_full or (room <= 0 and left):
                self._connection.flush()
                await self._wait()
                continue
            part, left = left[:room], left[room:]
            self.is_open = bool(left) or not ends
            http2.send_data(self.number, bytes(part), end_stream=not self.is_open)
            self._connection.flush()
            if not left:
                return

    def write_now(self, data: bytes) -> bool:
        """Send bytes of a body if the client has room for all of them; report whether they are sent."""
        http2, connection = self._connection.http2, self._connection
        if not self.is_open or connection.transport is None or connection.is_full:
            return False
        if len(data) > min(http2.local_flow_control_window(self.number), http2.max_outbound_frame_size):
            return False
        http2.send_data(self.number, data, end_stream=False)
        connection.flush()
        return True

    def end(self) -> None:
        """Tell the client that nothing follows."""
        self._check()
        self.is_open = False
        self._connection.http2.end_stream(self.number)
        self._connection.flush()

    def reset(self) -> None:
        """Tell the client that the rest of the answer does not come, if it waits for it."""
        if self.is_open:
            self._break_off(self)

    def wake(self) -> None:
        """Let who sends look again whether there is room."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _wait(self) -> None:
        self._room = asyncio.get_running_loop().create_future()
        try:
            await self._room
        finally:
            self._room = None

    def _check(self) -> None:
        if not self.is_open or self._connection.transport is None:
            raise ConnectionResetError("the client gave up the request")


class Http2Exchange(Exchange):
    """A request of HTTP/2, and its answer."""

    __slots__ = ("_delivery", "_impaired", "_stream")

    def __init__(self, stream: Stream, head: Head, body: Body) -> None:
        super().__init__(head, body)
        self._stream = stream
        self._delivery: Delivery | None = None
        self._impaired: ImpairedWriter | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""
        return self._stream.transport

    async def send(self, status: int, headers: CIMultiDict[str], parts: Sequence[bytes] = (b"",)) -> None:
        """Send a whole answer, whose body is in one part or more. One to HEAD has no body."""
        size = sum(map(len, parts))
        if self.method == "HEAD" or status in WITHOUT_BODY:
            if self.method == "HEAD" and 0 < size <= _BUFFER:
                headers[CONTENT_LENGTH] = str(size)
            return self._begin(status, headers, ends=True)
        headers[CONTENT_LENGTH] = str(size)
        self._begin(status, headers, ends=not size, waits=size > 0 and self._impaired is None)
        turns = Turns()  # of all clients that get large answers, however fast they read
        if len(parts) > 1:
            await turns.next()
        sent = 0
        for part in filter(None, parts):
            sent += len(part)
            await self._write(part, ends=sent == size)
            if turns.is_over:
                await turns.next()
        return None

    async def send_continue(self) -> None:
        """Tell the client to send its body."""
        self._stream.send_continue()

    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        """Send the head of an answer whose body comes piece by piece."""
        self._begin(status, headers, ends=False)

    async def send_chunk(self, data: bytes) -> None:
        """Send the next bytes of a body."""
        await self._write(data)

    def send_chunk_now(self, data: bytes) -> bool:
        return self._impaired is None and self._stream.write_now(data)

    async def end(self) -> None:
        """End a body that came piece by piece."""
        self._stream.end()

    def impair(self, delivery: Delivery) -> None:
        """Let the answer be sent slowly, or only in part."""
        self._delivery = delivery
        self._impaired = ImpairedWriter(self._stream, delivery)

    def reset(self) -> None:
        """Break off the answer."""
        self._stream.reset()

    def _begin(self, status: int, headers: CIMultiDict[str], *, ends: bool, waits: bool = False) -> None:
        if self._delivery is not None and self._delivery.body_bytes == NO_ANSWER:
            reset(self.transport)
            raise ConnectionResetError("a fault resets this connection")
        self.has_begun = True
        headers[DATE] = date_of(int(time.time()))
        self._stream.begin(status, headers, ends=ends, waits=waits)

    async def _write(self, data: bytes, *, ends: bool = False) -> None:
        """Send bytes of the body, the last ones if it ends."""
        if self._impaired is None:
            return await self._stream.write(data, ends=ends)
        await self._impaired.write(data)
        if ends:
            self._stream.end()
        return None
