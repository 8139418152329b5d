"""Sends a watch to its client, in a chunked body or over a WebSocket, until it ends or the client goes away.

A client in the server's own process gets it by calls of a function.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from multidict import CIMultiDict

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.endpoints.negotiation import JSON, PROTOBUF
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.http.gzipped import compressed
from understudy.apiserver.server.http1 import websocket
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.target import InvalidTargetError, read_target
from understudy.machinery.errors import StatusError
from understudy.machinery.util import timers
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.deep_recursion import start_on_deep_stack
from understudy.machinery.util.regex import regex

_UPGRADE = regex(r"(^|,)\s*upgrade\s*($|,)", re.IGNORECASE)
log = logging.getLogger("understudy")
_LENGTH = 4  # bytes in front of a protobuf event, which a message does not need


class Pumps:
    """The open watches of one server, so that it can end them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._open: dict[WatchSource, Signal] = {}
        self._inside: set[asyncio.Task[None]] = set()  # that send to threads of this process
        self._calls: dict[WatchSource, Calls] = {}  # what they send
        self._stopped = False

    @property
    def sources(self) -> list[WatchSource]:
        """Return the watches that are open, those that began first in front."""
        return [*self._open]

    def add(self, source: WatchSource, woken: Signal) -> None:
        """Remember a watch that is being sent; end it now if the server is stopping."""
        self._open[source] = woken
        if self._stopped:
            source.close()

    def discard(self, source: WatchSource) -> None:
        """Forget a watch that has been sent."""
        self._calls.pop(source, None)
        self._open.pop(source, None)

    def send_inside(self, source: WatchSource, frames: Frames) -> Stop:
        """Begin to send a watch to a thread of this process; return what ends it, from any thread."""
        loop = asyncio.get_running_loop()
        calls = self._calls[source] = Calls(frames)
        task = asyncio.create_task(_send_inside(source, calls, self))
        self._inside.add(task)
        task.add_done_callback(self._inside.discard)

        def stop() -> None:
            with suppress(RuntimeError):  # the loop is closed, and the watch has ended with it
                loop.call_soon_threadsafe(self._end, source)

        return stop

    def close(self) -> None:
        """End every open watch, as if its time were up."""
        for source in list(self._open):
            self._end(source)

    async def stop(self) -> None:
        """End every open watch, and every one that begins from now on; wait for the ends of those in this process."""
        self._stopped = True
        self.close()
        if self._inside:
            await asyncio.wait(self._inside)

    def _end(self, source: WatchSource) -> None:
        """End a watch, if it is open."""
        if woken := self._open.get(source):
            source.close()
            woken.set()
        if calls := self._calls.get(source):
            calls.release()


class Chunks:
    """An answer whose body is the events of a watch, one behind the other; in chunks, which HTTP/1.0 does not know.

    Of a gzipped body the events that are sent together are a file of gzip, so that clients need not wait for others.
    """

    def __init__(self, exchange: Exchange, headers: CIMultiDict[str]) -> None:
        self._exchange = exchange
        self._headers = headers
        self._is_gzipped = headers.get("Content-Encoding") == "gzip"

    async def begin(self) -> None:
        """Send the head of the answer."""
        await self._exchange.begin(200, self._headers)

    def send(self, frames: Sequence[bytes]) -> Coroutine[Any, Any, None]:
        """Send encoded events."""
        if self._is_gzipped:
            frames = compressed(frames, flush=True)
        return self._exchange.send_chunk(frames[0] if len(frames) == 1 else b"".join(frames))

    async def end(self) -> None:
        """End the body."""
        await self._exchange.end()

    def abort(self) -> None:
        """Break off the answer."""
        self._exchange.reset()


class Messages:
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
        """Confirm that the connection is a WebSocket from now on."""
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
        """Reset the connection."""
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


class Calls:
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
        """Pass on encoded events; wait while too many are not read."""
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


class Signal:
    """Wakes the one task that waits for it; like `asyncio.Event`, and at less cost for each of many watches.

    is_set  whether it was set since the task has cleared it
    """

    __slots__ = ("_waiter", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the task, or let it not wait."""
        self.is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def next(self) -> asyncio.Future[None]:
        """Return a future for the task to await, which is done when it is set the next time."""
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter


class Alarm:
    """Calls `ring` at a time that can be set again and again.

    The time is mostly the same from event to event: setting it again to the same time costs nothing.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: timers.Alarm | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Let the alarm ring at a time, in seconds of `Clock.monotonic`, and at no other."""
        if self._timer is not None and self._at == at:
            return
        self.stop()
        self._at = at
        self._timer = timers.call_later(self._clock, max(at - self._clock.monotonic(), 0), self._rung)

    def stop(self) -> None:
        """Let the alarm not ring any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rung(self) -> None:
        self._timer = None  # a loop's clock may be early, then it is set again
        self._ring()


async def pump(exchange: Exchange, source: WatchSource, headers: CIMultiDict[str], pumps: Pumps) -> None:
    """Send a watch as the client wants it."""
    try:
        if not isinstance(exchange, Http1Exchange) or not _wants_websocket(exchange.headers):
            await _pumped(source, Chunks(exchange, headers), pumps)
        elif refusal := _handshake_refusal(exchange.headers):
            await exchange.send_page(f"HTTP/1.1 {refusal}")
        else:
            await _pumped(source, Messages(exchange, headers, source), pumps)
    finally:
        source.close()


def _wants_websocket(headers: Mapping[str, str]) -> bool:
    return headers.get("Upgrade", "").lower() == "websocket" and bool(_UPGRADE.search(headers.get("Connection", "")))


def _handshake_refusal(headers: Mapping[str, str]) -> str:
    """Return the status and page that refuse a WebSocket, "" if it may begin. Upstream: `websocket.Server`."""
    if refusal := websocket.handshake_refusal(headers):
        return refusal
    if not _is_origin(headers.get("Origin", "")):
        return "403 Forbidden\r\n\r\n"
    return "400 Bad Request\r\n\r\n" if len(spoken_protocols(headers)) > 1 else ""


async def _send_inside(source: WatchSource, calls: Calls, pumps: Pumps) -> None:
    """Send a watch to a thread of this process; tell it of the end, whatever that is."""
    try:
        await _pumped(source, calls, pumps)
    finally:
        source.close()
        calls.finish()


def _is_origin(text: str) -> bool:
    """Report whether a text is a URL, as Go reads it (`url.ParseRequestURI`)."""
    try:
        read_target("GET", text)
    except InvalidTargetError:
        return False
    return True


def _load(source: WatchSource, woken: Signal) -> None:
    """Let a watch prepare its next frame in its own thread, since that may wait for a webhook.

    A frame that cannot be prepared ends the watch, as in the real server.
    """

    def done(loading: asyncio.Future[None]) -> None:
        if error := loading.exception():
            source.close()
            if not isinstance(error, StatusError):
                log.error("a watch cannot go on", exc_info=error)
        woken.set()

    asyncio.wrap_future(start_on_deep_stack(source.begin_load())).add_done_callback(done)


async def _pumped(source: WatchSource, answer: Chunks | Messages | Calls, pumps: Pumps) -> None:
    """Send a watch until it ends or the client goes away."""
    woken = Signal()
    source.wake = woken.set
    alarm = Alarm(pumps.clock, woken.set)
    pumps.add(source, woken)
    has_sent = False
    try:
        await answer.begin()
        while True:
            woken.is_set = False
            if frames := source.take():
                await answer.send(frames)
            elif source.ended:
                break
            if source.must_load:
                _load(source, woken)
            due = source.due
            if source.ended or woken.is_set or not due:  # there is more to take
                if has_sent:
                    await asyncio.sleep(0)  # others have their turn, however fast the client reads
                has_sent = True
                continue
            alarm.set(due)
            await woken.next()
            has_sent = False
        await answer.end()
    except ConnectionError:  # the client went away, which is how most watches end; or a fault cuts this one
        answer.abort()
    finally:
        alarm.stop()
        pumps.discard(source)
