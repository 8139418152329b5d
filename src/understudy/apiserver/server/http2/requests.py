"""The requests of one connection of HTTP/2: those that are answered, wait for their turn, or have been given up."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Set as AbstractSet
from contextlib import suppress

from h2 import events
from h2.errors import ErrorCodes
from multidict import CIMultiDict

from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.served import Handler
from understudy.apiserver.server.http2.head import MalformedRequestError, Refusal, read_head
from understudy.apiserver.server.http2.stream import Carrier, Http2Exchange, Stream, StreamBody
from understudy.machinery.releases.version import Version

log = logging.getLogger("understudy")

_QUEUED = 4  # requests that may wait for those that were given up and still run, for each that may run at once


class _Request:
    """A request that has begun."""

    __slots__ = ("exchange", "refusal", "stream", "task")

    def __init__(self, stream: Stream, exchange: Http2Exchange, refusal: Refusal | None) -> None:
        self.stream = stream
        self.exchange = exchange
        self.refusal = refusal
        self.task: asyncio.Task[None] | None = None


class Requests:
    """The requests of a connection whose streams are not closed.

    handle   answers one
    version  the release that is emulated
    most     streams that may be open at once
    newest   number of the newest stream that is not refused
    """

    def __init__(self, connection: Carrier, handle: Handler, version: Version, most: int) -> None:
        self._connection = connection
        self.handle = handle
        self._version = version
        self._most = most
        self._open: dict[int, _Request] = {}
        self._running = 0  # tasks, those of streams that are closed already included
        self._queue: deque[_Request] = deque()  # wait for these
        self.newest = 0

    def __bool__(self) -> bool:
        """Report whether a stream is open."""
        return bool(self._open)

    # --- what comes ---------------------------------------------------------------------------------------------

    def begin(self, event: events.RequestReceived, *, knows_limit: bool) -> None:
        """Begin to answer a request, or refuse its stream.

        knows_limit  whether the client knows how many streams may be open
        """
        number = self.newest = event.stream_id or 0
        http2 = self._connection.http2
        if len(self._open) >= self._most:
            return http2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR if knows_limit else ErrorCodes.REFUSED_STREAM)
        ends = event.stream_ended is not None
        try:
            head, refusal = read_head(event.headers or (), self._version, ends=ends)
        except MalformedRequestError as error:
            log.debug("HTTP/2: %s", error)
            return http2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
        stream = Stream(self._connection, number, self.break_off)
        body = StreamBody(lambda size: self._make_room(number, size), head.length)
        body.is_complete = ends
        request = self._open[number] = _Request(stream, Http2Exchange(stream, head, body), refusal)
        if self._running < self._most:
            self._start(request)
        elif len(self._queue) <= _QUEUED * self._most:
            self._queue.append(request)
        else:  # many that were given up at once
            self._connection.fail(ErrorCodes.ENHANCE_YOUR_CALM)
        return None

    def add(self, event: events.DataReceived) -> None:
        """Add a part to the body of a request; padding, and what nobody reads, makes room for more at once."""
        number, data, size = event.stream_id or 0, event.data or b"", event.flow_controlled_length or 0
        if request := self._open.get(number):
            request.exchange.body.feed(data)
            size -= len(data)
        if size:
            self._connection.http2.acknowledge_received_data(size, number)

    def complete(self, number: int) -> None:
        """Note that the body of a request has come to its end."""
        if request := self._open.get(number):
            request.exchange.body.feed(b"", complete=True)

    def wake(self, number: int) -> None:
        """Let an answer go on: the client has more room, for this one or for all (0)."""
        for request in [self._open.get(number)] if number else self._open.values():
            if request is not None:
                request.stream.wake()

    def _make_room(self, number: int, size: int) -> None:
        """Let the client send as much of a body as was read of it."""
        if not self._connection.is_over:
            self._connection.http2.acknowledge_received_data(size, number)
            self._connection.flush()

    # --- answers ------------------------------------------------------------------------------------------------

    def _start(self, request: _Request) -> None:
        self._running += 1
        request.task = asyncio.get_running_loop().create_task(self._answer(request))
        request.task.add_done_callback(lambda task: self._finish(request))

    async def _answer(self, request: _Request) -> None:
        """Answer a request."""
        exchange, refusal = request.exchange, request.refusal
        try:
            with suppress(ConnectionError):  # the client went away, or gave the request up
                if refusal is None:
                    await self.handle(exchange)
                else:
                    await exchange.send(refusal.status, CIMultiDict(refusal.headers), [refusal.text.encode()])
        except Exception:
            log.exception("an answer could not be sent")

    def _finish(self, request: _Request) -> None:
        """End the stream of a request that has been answered, and begin with one that waits."""
        self._running -= 1
        request.task = None
        if request.stream.is_open:
            self.break_off(request.stream)
        elif request.stream.number in self._open:
            self._close(request, None if request.exchange.body.is_complete else ErrorCodes.NO_ERROR)
        while self._queue and self._running < self._most:
            if (waiting := self._queue.popleft()).stream.is_open:
                self._start(waiting)

    # --- the end ------------------------------------------------------------------------------------------------

    def break_off(self, stream: Stream) -> None:
        """End a stream whose answer does not come to its end. Upstream: `handlerPanicRST`."""
        self._close(self._open[stream.number], ErrorCodes.INTERNAL_ERROR)

    def cancel(self, number: int) -> None:
        """End a request that the client has given up."""
        if request := self._open.get(number):
            self._close(request, None)
            if request.task is not None:
                request.task.cancel()

    def cancel_all(self) -> None:
        """End all requests."""
        for number in list(self._open):
            self.cancel(number)

    @property
    def answering(self) -> AbstractSet[Exchange]:
        """Return the requests that are being answered."""
        return {request.exchange for request in self._open.values()}

    async def finish(self, grace: float | None) -> None:
        """Give those that are being answered some seconds to finish, None for any number, and end them."""
        tasks = [request.task for request in self._open.values() if request.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()

    def _close(self, request: _Request, code: ErrorCodes | None) -> None:
        """Forget a stream; tell the client with a code unless it knows."""
        stream = request.stream
        del self._open[stream.number]
        stream.is_open = False
        stream.wake()
        if code is not None and not self._connection.is_over:
            self._connection.http2.reset_stream(stream.number, code)
        request.exchange.body.take()
        if not self._open:
            self._connection.rest()
        self._connection.flush()
