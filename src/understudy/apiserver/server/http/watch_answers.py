"""The answers in which a client gets the events of a watch: a body in chunks, a WebSocket, or calls of a function."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

from multidict import CIMultiDict

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.client.watching import Frames
from understudy.apiserver.endpoints.negotiation import JSON, PROTOBUF
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.http.gzipped import compressed
from understudy.apiserver.server.http1 import websocket
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange

_LENGTH = 4  # bytes in front of a protobuf event, which a message does not need


class Answer(ABC):
    """The answer in which a client gets the events of a watch."""

    @abstractmethod
    async def begin(self) -> None:
        """Send what comes before the events."""

    @abstractmethod
    async def send(self, frames: Sequence[bytes]) -> None:
        """Send encoded events; wait while the client has no room for more. Raises ConnectionError if it went away."""

    def send_now(self, frames: Sequence[bytes]) -> bool:
        """Send encoded events if the client has room for them, and this need not wait; report whether they are sent."""
        return False

    @abstractmethod
    async def end(self) -> None:
        """Send what comes behind the last event."""

    @abstractmethod
    def abort(self) -> None:
        """Break off the answer."""


class Chunks(Answer):
    """An answer whose body is the events of a watch, one behind the other; in chunks, which HTTP/1.0 does not know.

    Of a gzipped body the events that are sent together are a file of gzip, so that clients need not wait for others.
    """

    def __init__(self, exchange: Exchange, headers: CIMultiDict[str]) -> None:
        self._exchange = exchange
        self._headers = headers
        self._is_gzipped = headers.get("Content-Encoding") == "gzip"

    async def begin(self) -> None:
        await self._exchange.begin(200, self._headers)

    async def send(self, frames: Sequence[bytes]) -> None:
        if self._is_gzipped:
            frames = compressed(frames, flush=True)
        await self._exchange.send_chunk(b"".join(frames))

    def send_now(self, frames: Sequence[bytes]) -> bool:
        return not self._is_gzipped and self._exchange.send_chunk_now(b"".join(frames))

    async def end(self) -> None:
        await self._exchange.end()

    def abort(self) -> None:
        self._exchange.reset()


class Messages(Answer):
    """A WebSocket that sends each event as a message, in whatever subprotocol the client names."""

    def __init__(self, exchange: Http1Exchange, headers: CIMultiDict[str], source: WatchSource) -> None:
        self._exchange = exchange
        self._is_text = headers["Content-Type"] == JSON
        self._before = _LENGTH if headers["Content-Type"].startswith(PROTOBUF) else 0
        self._source = source
        self._frames = websocket.FrameReader()
        self._is_ending = False
        self._last_frames = b""  # in front of the one that ends the WebSocket

    async def begin(self) -> None:
        protocol = next(iter(spoken_protocols(self._exchange.headers)), "")
        headers = websocket.handshake(self._exchange.headers["Sec-WebSocket-Key"], protocol)
        await self._exchange.upgrade(headers, self._receive)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send each encoded event as a message: text for JSON, binary for protobuf (without its length) and CBOR."""
        for frame in frames:
            if self._is_text:
                await self._exchange.send_raw(websocket.frame(websocket.TEXT, frame))
            else:
                await self._exchange.send_raw(websocket.frame(websocket.BINARY, frame[self._before :]))

    async def end(self) -> None:
        """End the WebSocket. The client need not confirm that: Go's server does not wait for it."""
        await self._exchange.send_raw(self._last_frames + websocket.close_frame(websocket.NORMAL_CLOSURE))

    def abort(self) -> None:
        self._exchange.reset()

    def _receive(self, data: bytes) -> None:
        """Look at what the client sends: answer pings, and end the watch when it closes the WebSocket."""
        if self._is_ending:
            return
        pongs = []
        try:
            for opcode, payload in self._frames.read(data):
                if opcode == websocket.CLOSE:
                    self._end_watch()
                    break
                if opcode == websocket.PING:
                    pongs.append(websocket.frame(websocket.PONG, payload))
        except websocket.FrameError as error:
            self._last_frames = websocket.close_frame(error.code)
            self._end_watch()
        if pongs:
            self._exchange.send_raw_now(b"".join(pongs))

    def _end_watch(self) -> None:
        self._is_ending = True
        self._source.close()
        self._source.wake()


class Calls(Answer):
    """Events for a thread of this process, which has to read them before too many more come."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._room = asyncio.Event()
        self._released = False
        loop = asyncio.get_running_loop()

        def on_room() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._room.set)

        frames.on_room = on_room

    async def begin(self) -> None:
        """Do nothing: there is no head."""

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._room.clear()
            if self._frames.put(frame) and not self._released:
                await self._room.wait()
        await asyncio.sleep(0)  # others have their turn between two portions

    async def end(self) -> None:
        """Do nothing: the thread is told in any case, see `finish`."""

    def abort(self) -> None:
        """Do nothing: there is no connection."""

    def finish(self) -> None:
        """Tell the thread that nothing follows."""
        self._frames.put(None)

    def release(self) -> None:
        """Wait for the thread no longer."""
        self._released = True
        self._room.set()
