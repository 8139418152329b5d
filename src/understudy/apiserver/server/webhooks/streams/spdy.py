"""A connection of SPDY/3.1 and its streams. Upstream: `Connection` and `Stream` of github.com/moby/spdystream.

As there, nothing is said of windows: who reads a stream slowly lets the others wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from understudy.apiserver.server.webhooks.streams.spdy_frames import (
    CANCEL,
    PROTOCOL_ERROR,
    Frame,
    FrameReader,
    FrameWriter,
    Kind,
    SpdyError,
)
from understudy.apiserver.server.webhooks.streams.stream import PORTION, Inboxes, Wire, linger

PROTOCOL = "SPDY/3.1"


class SpdyConnection:
    """One side of a connection.

    is_server  whether the other side has opened the connection
    accept     takes a stream that the other side opens, and reports whether it is accepted
    ended      is set when nothing more comes
    """

    def __init__(
        self, wire: Wire, *, is_server: bool, accept: Callable[[SpdyStream], bool] = lambda stream: False
    ) -> None:
        self.wire = wire
        self.frames = FrameWriter()
        self.ended = asyncio.Event()
        self._accept = accept
        self._reader = FrameReader()
        self._inboxes = Inboxes(wire)
        self._streams: dict[int, SpdyStream] = {}
        self._next, self._parity, self._last = (2, 0, -1) if is_server else (1, 1, 0)

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream, and return it once the other side has accepted it. Raises ConnectionResetError."""
        number, self._next = self._next, self._next + 2
        stream = self._streams[number] = SpdyStream(self, number, headers, self._inboxes.new())
        await self.wire.send(self.frames.begin(number, headers))
        await stream.accepted.wait()
        if stream.is_closed:
            raise ConnectionResetError("the other side refuses a stream")
        return stream

    def receive(self, data: bytes) -> None:
        """Take what the other side has sent. A frame that breaks the protocol ends the connection."""
        if self.ended.is_set():
            return
        try:
            for frame in self._reader.read(data):
                self._handle(frame)
        except SpdyError:
            self.end()

    def end(self) -> None:
        """End all streams: nothing more comes."""
        self.ended.set()
        for stream in [*self._streams.values()]:
            stream.break_off()

    def close(self) -> None:
        """Break off the streams that are open, and say that nothing more comes."""
        for stream in [*self._streams.values()]:
            stream.reset()
        self.wire.send_now(self.frames.go_away(max(self._last, 0)))

    async def finish(self) -> None:
        """End the connection as its server, once the client has read all."""
        self.close()
        await linger(self.wire, self.ended)

    def forget(self, number: int) -> None:
        """Forget a stream that both sides have closed, or one has broken off."""
        self._streams.pop(number, None)

    def _handle(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.SYN_STREAM:
                self._begin(frame)
            case Kind.PING:
                if frame.stream % 2 != self._parity:
                    self.wire.send_now(self.frames.ping(frame.stream))
            case Kind.GOAWAY:
                self.end()
            case _ if (stream := self._streams.get(frame.stream)) is not None:
                stream.handle(frame)

    def _begin(self, frame: Frame) -> None:
        """Take a stream that the other side opens."""
        if frame.stream <= self._last or frame.stream % 2 == self._parity:
            self.wire.send_now(self.frames.reset(frame.stream, PROTOCOL_ERROR))
            return
        self._last = frame.stream
        stream = self._streams[frame.stream] = SpdyStream(self, frame.stream, frame.headers, self._inboxes.new())
        if not self._accept(stream):
            stream.reset()
            return
        self.wire.send_now(self.frames.accept(frame.stream))
        if frame.is_last:
            stream.end()


class SpdyStream:
    """A stream.

    headers    those that it was opened with, by their names in lower case
    accepted   is set once the other side has accepted it, or broken it off
    is_closed  whether nothing is sent any more
    """

    def __init__(
        self, connection: SpdyConnection, number: int, headers: Mapping[str, str], inbox: asyncio.StreamReader
    ) -> None:
        self.number = number
        self.headers = headers
        self.accepted = asyncio.Event()
        self.is_closed = False
        self._connection = connection
        self._inbox = inbox
        self._is_ended = False

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        return await self._inbox.read(PORTION)

    async def write(self, data: bytes) -> None:
        """Send bytes, nothing if the stream is closed. Raises ConnectionResetError if the other side is gone."""
        if not self.is_closed and data:
            await self._connection.wire.send(self._connection.frames.data(self.number, data))

    def close(self) -> None:
        """Send no more."""
        if not self.is_closed:
            self.is_closed = True
            self._connection.wire.send_now(self._connection.frames.data(self.number, b"", is_last=True))
            self._forget_if_over()

    def reset(self) -> None:
        """Break off the stream."""
        if not self.is_closed:
            self._connection.wire.send_now(self._connection.frames.reset(self.number, CANCEL))
        self.break_off()

    def break_off(self) -> None:
        """Note that nothing more is sent in either direction."""
        self.is_closed = True
        self.accepted.set()
        self.end()

    def handle(self, frame: Frame) -> None:
        """Take a frame that has come."""
        match frame.kind:
            case Kind.RST_STREAM:
                self.break_off()
                return
            case Kind.SYN_REPLY:
                self.accepted.set()
            case Kind.DATA if frame.data and not self._is_ended:
                self._inbox.feed_data(frame.data)
        if frame.is_last:
            self.end()

    def end(self) -> None:
        """Note that nothing more comes."""
        if not self._is_ended:
            self._is_ended = True
            self._inbox.feed_eof()
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._is_ended and self.is_closed:
            self._connection.forget(self.number)
