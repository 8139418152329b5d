"""Answers a request of an aiohttp application: the server's own handler does, in the event loop of the server's thread.

Answers are aiohttp's, so that middlewares see them. WebSockets, and answers that a fault slows down or cuts off, are
written to the connection directly, as by the server's own port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar, cast

from aiohttp import web
from multidict import CIMultiDict

from understudy.apiserver.endpoints.request import Delivery
from understudy.apiserver.server.http1.body import Body
from understudy.apiserver.server.http1.connection import reset
from understudy.apiserver.server.http1.exchange import PHRASES, Exchange, Http1Exchange
from understudy.apiserver.server.http1.head import Head, RefusedError, new_head
from understudy.apiserver.server.http1.parser import NO_BODY

T = TypeVar("T")
_LOOK_AGAIN = 0.5  # seconds between two looks whether the client is still there: aiohttp does not tell handlers
_LINGER = 0.5  # seconds that a client gets to read an answer behind which the connection closes


class Answering(Protocol):
    """A server in a thread of its own."""

    @property
    def is_running(self) -> bool:
        """Report whether it runs, and is not about to stop."""

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine in the thread."""

    async def handle(self, exchange: Exchange) -> None:
        """Answer a request, in the thread."""


async def respond(server: Answering, request: web.Request, target: str) -> web.StreamResponse:
    """Let a server answer a request, whose target (path and query) is without the prefix of the application.

    The connection is reset if the server stops before it has answered.
    """
    version = request.version.major, request.version.minor
    try:
        head = new_head(request.method, target, version, CIMultiDict(request.headers))
    except RefusedError as refusal:
        return _page(refusal)
    incoming = _Incoming(request, head, server)
    if request.content.is_eof():  # all has come, or a middleware has read it
        incoming.body.feed(await request.read(), complete=True)
    exchange = AiohttpExchange(request, head, incoming.body if head.length else NO_BODY)
    answering = asyncio.wrap_future(server.begin(server.handle(exchange)))
    receiving = asyncio.create_task(incoming.receive())
    try:
        while not answering.done():
            await asyncio.wait([answering], timeout=_LOOK_AGAIN)
            if request.transport is None:
                return _Sent()
            if not (answering.done() or server.is_running):
                exchange.reset()
                return _Sent()
        answering.result()
    finally:
        if server.is_running:
            answering.cancel()
        receiving.cancel()
        with suppress(asyncio.CancelledError):
            await receiving
    return exchange.response


class AiohttpExchange(Http1Exchange):
    """A request to an aiohttp application. Its methods are called in the event loop of the server.

    response  what the application returns; it is sent already if it comes in chunks or is not aiohttp's
    """

    def __init__(self, request: web.Request, head: Head, body: Body) -> None:
        """Take a request, in the event loop of the application."""
        super().__init__(_Connection(request), head, body)
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._is_direct = False
        self.response: web.StreamResponse = _Sent()

    @property
    def transport(self) -> None:
        """Return None: certificates that clients have shown to the application count for nothing."""

    async def _in_application(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def send(self, status: int, headers: CIMultiDict[str], parts: Sequence[bytes] = (b"",)) -> None:
        """Make the answer. One to HEAD has no body, which aiohttp leaves out itself."""
        if self._is_direct:
            return await self._in_application(super().send(status, headers, parts))
        self.has_begun = True
        body = None if self.method == "HEAD" else b"".join(parts)
        self.response = web.Response(status=status, reason=PHRASES.get(status, ""), headers=headers, body=body)
        self._close_behind()
        return None

    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        """Send the head of an answer whose body comes in chunks."""
        if self._is_direct:
            return await self._in_application(super().begin(status, headers))
        self.has_begun = self.in_chunks = True
        self.response = web.StreamResponse(status=status, reason=PHRASES.get(status, ""), headers=headers)
        self._close_behind()
        await self._in_application(self.response.prepare(self._request))
        return None

    async def send_chunk(self, data: bytes) -> None:
        """Send the next bytes of a body."""
        await self._in_application(super().send_chunk(data) if self._is_direct else self.response.write(data))

    async def end(self) -> None:
        """End a body in chunks. Those of aiohttp are ended when the application returns the response."""
        if self._is_direct:
            await self._in_application(super().end())
        self.in_chunks = False

    async def send_continue(self) -> None:
        """Tell the client to send its body."""
        await self._in_application(super().send_continue())

    async def send_page(self, page: str) -> None:
        """Send an answer that is written already."""
        self._is_direct = True
        await self._in_application(super().send_page(page))

    async def upgrade(self, headers: Mapping[str, str], receive: Callable[[bytes], None]) -> None:
        """Switch to another protocol: `receive` gets what the client sends, `send_raw` sends."""
        loop = asyncio.get_running_loop()

        def pass_on(data: bytes) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has been stopped
                loop.call_soon_threadsafe(receive, data)

        self._is_direct = self.has_begun = True
        self.response.set_status(101)
        await self._in_application(super().upgrade(headers, pass_on))

    async def send_raw(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        await self._in_application(super().send_raw(data))

    def send_raw_now(self, data: bytes) -> None:
        """Send bytes of another protocol without waiting."""
        self._loop.call_soon_threadsafe(super().send_raw_now, data)

    def hold(self, is_full: bool) -> None:
        """Let a client that speaks another protocol wait, or go on."""
        self._loop.call_soon_threadsafe(super().hold, is_full)

    def impair(self, delivery: Delivery) -> None:
        """Let the answer be sent slowly, or only in part."""
        self._is_direct = self.closes = True
        super().impair(delivery)

    def reset(self) -> None:
        """Reset the connection, without a word about its end."""
        self.closes = True
        self._loop.call_soon_threadsafe(reset, self._request.transport)

    def _close_behind(self) -> None:
        """Let aiohttp close the connection behind the answer, if it is to be."""
        if self.closes:
            self.response.force_close()


class _Sent(web.StreamResponse):
    """An answer that aiohttp does not send: all of it has been written, or the connection closes without one."""

    def __init__(self) -> None:
        super().__init__()
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send no head."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send no end."""


class _Connection:
    """The connection below a request to an aiohttp application, as long as that does not write there itself."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""
        return self._request.transport

    async def write(self, *parts: bytes) -> None:
        """Send bytes, and wait while the client reads too slowly. Raises ConnectionResetError if it went away."""
        transport = self.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client went away")
        transport.writelines(parts)
        await self._request.writer.drain()

    def write_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the client went away."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    def write_if_ready(self, data: bytes) -> bool:
        """Send nothing: the application has an event loop of its own."""
        return False

    async def end_writing(self) -> None:
        """Tell the client that nothing follows, and give it the time to read what was sent."""
        transport = self.transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()
        await asyncio.sleep(_LINGER)

    def upgrade(self, receive: Callable[[bytes], None]) -> None:
        """Give all that the client sends from now on to `receive`."""
        self._request.protocol.set_parser(cast("Any", _Upgraded(receive)))

    def hold(self, is_full: bool) -> None:
        """Let a client that speaks another protocol wait, or go on: too much of what it has sent is not read yet."""
        if is_full:
            self._request.protocol.pause_reading()
        else:
            self._request.protocol.resume_reading()


class _Upgraded:
    """Takes what the client of an upgraded connection sends, as aiohttp's reader of WebSockets does."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Pass on bytes; report that more may come, and that none are left over."""
        self._receive(data)
        return False, b""

    def feed_eof(self) -> None:
        """Do nothing: `respond` sees that the client is gone."""


class _Incoming:
    """Passes the body of a request on to the server, as fast as it is read there."""

    def __init__(self, request: web.Request, head: Head, server: Answering) -> None:
        self._request = request
        self._server = server
        self._room = asyncio.Event()  # of the server's event loop
        self.body = Body(self._room.set, head.length)

    async def receive(self) -> None:
        """Pass on all that comes, if there is a body that has not come yet."""
        if self.body.is_complete:
            return
        async for part in self._parts():
            await self._put(part)
        await self._put(b"", complete=True)

    async def _parts(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._request.content.iter_any():
                yield part
        except web.RequestPayloadError as error:
            self.body.error = str(error)

    async def _put(self, part: bytes, *, complete: bool = False) -> None:
        await asyncio.wrap_future(self._server.begin(self._feed(part, complete)))

    async def _feed(self, part: bytes, complete: bool) -> None:
        """Add bytes to the body; wait while too many are not read. It runs in the server's thread."""
        self._room.clear()
        self.body.feed(part, complete)
        if self.body.is_full and not complete:
            await self._room.wait()


def _page(refusal: RefusedError) -> web.Response:
    """Return the page that refuses a request which breaks the rules of HTTP."""
    status, _, reason = str(refusal).partition(" ")
    response = web.Response(status=int(status), reason=reason, text=refusal.text)
    response.force_close()
    return response
