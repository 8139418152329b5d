"""Sends a watch to its client, in a chunked body or over a WebSocket, until it ends or the client goes away."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from understudy.apiserver.authentication.bearer_token import spoken_protocols
from understudy.apiserver.endpoints.negotiation import JSON
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.http1.protocol import RawPage
from understudy.machinery.clock import Clock
from understudy.machinery.errors import StatusError

_UPGRADE = re.compile(r"(^|,)\s*upgrade\s*($|,)", re.IGNORECASE)
_LENGTH = 4  # bytes in front of a protobuf event, which a message does not need


class Pumps:
    """The open watches of one server, so that it can end them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._open: dict[WatchSource, asyncio.Event] = {}
        self._stopped = False

    def add(self, source: WatchSource, woken: asyncio.Event) -> None:
        """Remember a watch that is being sent; end it at once if the server is stopping."""
        self._open[source] = woken
        if self._stopped:
            source.close()

    def discard(self, source: WatchSource) -> None:
        """Forget a watch that has been sent."""
        self._open.pop(source, None)

    def close(self) -> None:
        """End every open watch, as if its time were up."""
        for source, woken in self._open.items():
            source.close()
            woken.set()

    def stop(self) -> None:
        """End every open watch, and every one that begins from now on."""
        self._stopped = True
        self.close()


class Unsigned(web.StreamResponse):
    """A response without the Server header, which kube-apiserver does not send and aiohttp always adds."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


class Whole(Unsigned, web.Response):
    """A response whose body is sent at once: any but a watch."""


class Chunks(Unsigned):
    """A response whose body is the events of a watch, one behind the other; in chunks, which HTTP/1.0 does not know."""

    def __init__(self, request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
        super().__init__(headers=headers)
        if request.version >= HttpVersion11:
            self.enable_chunked_encoding()

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send encoded events."""
        await self.write(frames[0] if len(frames) == 1 else b"".join(frames))


class Messages(Unsigned, web.WebSocketResponse):
    """A WebSocket that sends each event as a message, in whatever subprotocol the client names."""

    def __init__(self, request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
        super().__init__(protocols=spoken_protocols(request.headers), compress=False)
        self._text = headers["Content-Type"] == JSON

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send each encoded event as a message: text for JSON, binary for protobuf (without its length)."""
        for frame in frames:
            await (self.send_str(frame.decode()) if self._text else self.send_bytes(frame[_LENGTH:]))

    async def until_closed(self, source: WatchSource) -> None:
        """Read and ignore what the client sends until it closes the WebSocket; then end the watch."""
        async for _ in self:
            pass
        source.close()
        source.wake()


class Alarm:
    """Calls `ring` at a time that can be set again and again.

    The time is mostly the same from event to event: setting it again to the same time costs nothing.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, at: float) -> None:
        """Let the alarm ring at a time, in seconds of `Clock.monotonic`, and at no other."""
        if self._timer is not None and self._at == at:
            return
        self.stop()
        self._at = at
        self._timer = asyncio.get_running_loop().call_later(max(at - self._clock.monotonic(), 0), self._rung)

    def stop(self) -> None:
        """Let the alarm not ring any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rung(self) -> None:
        self._timer = None  # a loop's clock may be early, then it is set again
        self._ring()


async def pump(
    request: web.BaseRequest, source: WatchSource, headers: CIMultiDict[str], pumps: Pumps
) -> web.StreamResponse:
    """Send a watch as the client wants it, and return the response."""
    try:
        if not _wants_websocket(request):
            chunks = Chunks(request, headers)
            await _pumped(request, source, chunks, pumps)
            return chunks
        if refusal := _handshake_refusal(request.headers):
            return RawPage(f"HTTP/1.1 {refusal}")
        return await _conversed(request, source, Messages(request, headers), pumps)
    finally:
        source.close()


async def _conversed(request: web.BaseRequest, source: WatchSource, messages: Messages, pumps: Pumps) -> Messages:
    await messages.prepare(request)
    reading = asyncio.create_task(messages.until_closed(source))
    try:
        await _pumped(request, source, messages, pumps)
        await messages.close()
    finally:
        reading.cancel()
    return messages


def _wants_websocket(request: web.BaseRequest) -> bool:
    headers = request.headers
    return headers.get("Upgrade", "").lower() == "websocket" and bool(_UPGRADE.search(headers.get("Connection", "")))


def _handshake_refusal(headers: Mapping[str, str]) -> str:
    """Return the status and page that refuse a WebSocket, "" if it may begin. Upstream: `websocket.Server`."""
    if not headers.get("Sec-WebSocket-Key"):
        return "400 Bad Request\r\n\r\nmismatch challenge/response"
    if headers.get("Sec-WebSocket-Version") != "13":
        return "400 Bad Request\r\nSec-WebSocket-Version: 13\r\n\r\nmissing or bad WebSocket Version"
    if "Origin" not in headers:
        return "403 Forbidden\r\n\r\n"
    return "400 Bad Request\r\n\r\n" if len(spoken_protocols(headers)) > 1 else ""


async def _load(source: WatchSource) -> None:
    """Prepare the next frame of a watch. One that cannot be prepared ends the watch, as in the real server."""
    try:
        await asyncio.to_thread(source.load)
    except StatusError:
        source.close()


async def _pumped(request: web.BaseRequest, source: WatchSource, response: Chunks | Messages, pumps: Pumps) -> None:
    """Send a watch until it ends or the client goes away."""
    woken = asyncio.Event()
    source.wake = woken.set
    alarm = Alarm(pumps.clock, woken.set)
    pumps.add(source, woken)
    try:
        await response.prepare(request)
        while True:
            woken.clear()
            if frames := source.take():
                await response.send(frames)
            elif source.ended:
                break
            elif source.must_load:
                await _load(source)
            else:
                alarm.set(source.due)
                await woken.wait()
        if isinstance(response, Chunks):
            await response.write_eof()
    except ConnectionError:
        pass  # the client went away, which is how most watches end
    finally:
        alarm.stop()
        pumps.discard(source)
