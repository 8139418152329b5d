"""The connections of HTTP/2: many requests at once on each, which the same handler answers as those of HTTP/1.1.

The rules of the protocol are `h2`'s. Here are the bytes of a connection, the tasks that answer its requests, and the
limits of Go's server with kube-apiserver's settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import cast

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from hpack import HPACKError, OversizedHeaderListError
from multidict import CIMultiDict

from understudy.apiserver.server.http1.large_parts import LargeParts, PacedProtocol
from understudy.apiserver.server.http1.protocol import IDLE_TIMEOUT, Handler
from understudy.apiserver.server.http2.frames import go_away_frame
from understudy.apiserver.server.http2.head import MalformedRequestError, Refusal, read_head
from understudy.apiserver.server.http2.reader import BrokenRuleError, FrameReader, WrongPrefaceError
from understudy.apiserver.server.http2.rules import LargeBlockError, Rules
from understudy.apiserver.server.http2.stream import Http2Exchange, Stream, StreamBody

log = logging.getLogger("understudy")

_GREETING = 10.0  # seconds that the first bytes of a client may take: `prefaceTimeout`
_GOODBYE = 1.0  # seconds between a GOAWAY and the end of the connection: `goAwayTimeout`
_LAST_TURNS = 3  # of the event loop, in which the last bytes are written: TLS waits for the client to say goodbye, too
_MOST_UNREAD = 512 * 1024  # bytes that may wait for a client: frames that it asks for again and again (PING, SETTINGS)
_QUEUED = 4  # requests that may wait for those that were given up and still run, for each that may run at once


class Http2Server:
    """All connections of a server that speak HTTP/2, whose requests a handler answers.

    most_streams   requests that a client may send at once on a connection
    goaway_chance  the share of requests behind which the client is to connect anew
    """

    def __init__(self, handle: Handler, most_streams: int, goaway_chance: float = 0.0) -> None:
        self.handle = handle
        self.most_streams = most_streams
        self.goaway_chance = goaway_chance
        self.large_parts = LargeParts()
        self.connections: set[Http2Connection] = set()

    def connect(self) -> Http2Connection:
        """Return the protocol of a new connection, in the running event loop."""
        return Http2Connection(self)

    async def shutdown(self, grace: float) -> None:
        """End all connections; requests that are being answered get some seconds to finish."""
        await asyncio.gather(*[connection.shutdown(grace) for connection in self.connections])


class _Request:
    """A request that has begun."""

    __slots__ = ("exchange", "refusal", "stream", "task")

    def __init__(self, stream: Stream, exchange: Http2Exchange, refusal: Refusal | None) -> None:
        self.stream = stream
        self.exchange = exchange
        self.refusal = refusal
        self.task: asyncio.Task[None] | None = None


class Http2Connection(PacedProtocol):
    """One connection. It is among the open ones of its server as long as it lasts."""

    part = 8 * 1024  # frames of no use take 25 µs each

    def __init__(self, server: Http2Server) -> None:
        super().__init__(server.large_parts)
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.http2 = Rules(server.most_streams)
        self.goaway_chance = server.goaway_chance
        self.is_full = False  # the client reads too slowly
        self._reader = FrameReader(self.http2)
        self._knows_limit = False  # the client does, of streams
        self._requests: dict[int, _Request] = {}  # of streams that are not closed
        self._running = 0  # tasks, those of streams that are closed already included
        self._queue: deque[_Request] = deque()  # wait for these
        self._last = 0  # number of the newest stream
        self._is_going_away = False
        self._is_over = False  # nothing more is read
        self._decoding: asyncio.Task[None] | None = None  # reads large headers; nothing else is read meanwhile
        self._idle_from = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # --- called by the event loop -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to answer requests."""
        self.transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._timer = self._loop.call_later(_GREETING, self._check_greeting)
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """End the requests that are being answered, since their client is gone, and free the connection."""
        self.transport = None
        self._is_over = True
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        for number in list(self._requests):
            self._cancel(number)

    def _regulate(self) -> None:
        """Let the client wait as long as something of what it has sent is not read yet."""
        is_full = self._waiting_parts > 0 or self._decoding is not None
        if is_full != self._is_paused:
            self._pause_reading(is_full)

    def pause_writing(self) -> None:
        """Pause the senders: the client reads too slowly."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Resume the senders."""
        self.is_full = False
        self._wake_all()

    # --- what comes ---------------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._reader.add(data)
        except WrongPrefaceError:
            self._is_over = True
            self._disconnect()
        if self._decoding is None:
            self._handle(self._reader.read())

    def _handle(self, received: Iterator[events.Event]) -> None:
        """Do what the client wants."""
        try:
            for event in received:
                self._on_event(event)
                if self._is_over:
                    return None
        except BrokenRuleError as error:
            self._last = max(self._last, error.stream)
            return self._fail(error.code)
        except LargeBlockError as large:
            self._decoding = self._loop.create_task(self._decode(large.block))
        except ProtocolError as error:
            log.debug("HTTP/2: %s", error)
            return self._hang_up()
        self.flush()
        if self.is_full and self.transport is not None and self.transport.get_write_buffer_size() > _MOST_UNREAD:
            self.transport.abort()
        return self._regulate()

    async def _decode(self, block: bytes) -> None:
        """Read large headers in a thread; then go on with what has come meanwhile."""
        try:
            await asyncio.to_thread(self.http2.decoder.decode_large, block)
        except OversizedHeaderListError:
            return self._fail(ErrorCodes.ENHANCE_YOUR_CALM)
        except (HPACKError, IndexError):
            return self._fail(ErrorCodes.COMPRESSION_ERROR)
        self._decoding = None
        if not self._is_over:
            self._handle(self._reader.reread())
        return None

    def _on_event(self, event: events.Event) -> None:
        match event:
            case events.RequestReceived():
                self._begin(event)
            case events.DataReceived():
                self._add(event)
            case events.StreamEnded(stream_id=number):
                if request := self._requests.get(number or 0):
                    request.exchange.body.feed(b"", complete=True)
            case events.StreamReset(stream_id=number):
                self._cancel(number or 0)
            case events.WindowUpdated(stream_id=number) if number:
                if request := self._requests.get(number):
                    request.stream.wake()
            case events.WindowUpdated():
                self._wake_all()
            case events.SettingsAcknowledged():
                self._knows_limit = True
            case events.RemoteSettingsChanged():
                self._wake_all()
            case events.ConnectionTerminated():
                self.go_away()

    def _begin(self, event: events.RequestReceived) -> None:
        """Begin to answer a request, or refuse its stream."""
        number = event.stream_id or 0
        if self._is_going_away:  # the client sends it again on another connection
            return self.http2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
        self._last = number
        if len(self._requests) >= self._server.most_streams:
            code = ErrorCodes.PROTOCOL_ERROR if self._knows_limit else ErrorCodes.REFUSED_STREAM
            return self.http2.reset_stream(number, code)
        ends = event.stream_ended is not None
        try:
            head, refusal = read_head(event.headers or (), ends=ends)
        except MalformedRequestError as error:
            log.debug("HTTP/2: %s", error)
            return self.http2.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
        stream = Stream(self, number)
        body = StreamBody(lambda size: self._make_room(number, size), head.length)
        body.is_complete = ends
        request = self._requests[number] = _Request(stream, Http2Exchange(stream, head, body), refusal)
        if self._running < self._server.most_streams:
            self._start(request)
        elif len(self._queue) <= _QUEUED * self._server.most_streams:
            self._queue.append(request)
        else:  # many that were given up at once
            self._fail(ErrorCodes.ENHANCE_YOUR_CALM)
        return None

    def _add(self, event: events.DataReceived) -> None:
        """Add a part to the body of a request; padding, and what nobody reads, makes room for more at once."""
        number, data, size = event.stream_id or 0, event.data or b"", event.flow_controlled_length or 0
        if request := self._requests.get(number):
            request.exchange.body.feed(data)
            size -= len(data)
        if size:
            self.http2.acknowledge_received_data(size, number)

    def _make_room(self, number: int, size: int) -> None:
        """Let the client send as much of a body as was read of it."""
        if not self._is_over:
            self.http2.acknowledge_received_data(size, number)
            self.flush()

    def _wake_all(self) -> None:
        for request in self._requests.values():
            request.stream.wake()

    # --- answers ------------------------------------------------------------------------------------------------

    def _start(self, request: _Request) -> None:
        self._running += 1
        request.task = self._loop.create_task(self._answer(request))
        request.task.add_done_callback(lambda task: self._finish(request))

    async def _answer(self, request: _Request) -> None:
        """Answer a request."""
        exchange, refusal = request.exchange, request.refusal
        try:
            with suppress(ConnectionError):  # the client went away, or gave the request up
                if refusal is None:
                    await self._server.handle(exchange)
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
        elif request.stream.number in self._requests:
            self._close(request, None if request.exchange.body.is_complete else ErrorCodes.NO_ERROR)
        while self._queue and self._running < self._server.most_streams:
            if (waiting := self._queue.popleft()).stream.is_open:
                self._start(waiting)

    def break_off(self, stream: Stream) -> None:
        """End a stream whose answer does not come to its end. Upstream: `handlerPanicRST`."""
        self._close(self._requests[stream.number], ErrorCodes.INTERNAL_ERROR)

    def _cancel(self, number: int) -> None:
        """End a request that the client has given up."""
        if request := self._requests.get(number):
            self._close(request, None)
            if request.task is not None:
                request.task.cancel()

    def _close(self, request: _Request, code: ErrorCodes | None) -> None:
        """Forget a stream; tell the client with a code unless it knows."""
        stream = request.stream
        del self._requests[stream.number]
        stream.is_open = False
        stream.wake()
        if code is not None and not self._is_over:
            self.http2.reset_stream(stream.number, code)
        request.exchange.body.take()
        if not self._requests:
            self._idle_from = self._loop.time()
            if self._is_going_away:
                self._say_goodbye()
        self.flush()

    def flush(self) -> None:
        """Send the frames that have been made."""
        if self.transport is not None and (data := self.http2.data_to_send()):
            self.transport.write(data)

    # --- the end ------------------------------------------------------------------------------------------------

    def go_away(self) -> None:
        """Let no more requests come, and close the connection behind those that have come."""
        if self._is_going_away or self.transport is None:
            return
        self._is_going_away = True
        self.flush()
        self.transport.write(go_away_frame(self._last, ErrorCodes.NO_ERROR))
        if not self._requests:
            self._say_goodbye()

    def _fail(self, code: ErrorCodes) -> None:
        """End the connection for an error of the client."""
        self.http2.close_connection(code, last_stream_id=self._last)
        self._hang_up()

    def _hang_up(self) -> None:
        """Send the last frames, end all requests, and read nothing more."""
        self.flush()
        self._is_over = True
        for number in list(self._requests):
            self._cancel(number)
        self._say_goodbye()

    def _say_goodbye(self) -> None:
        """Close the connection when the client has had the time to read why."""
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self._timer = self._loop.call_later(_GOODBYE, self._disconnect)

    def _disconnect(self) -> None:
        """Close the connection."""
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def _check_greeting(self) -> None:
        """Close the connection of a client that has not said what it wants."""
        if not self._reader.has_settings:
            self._disconnect()
        else:
            self._check_idle()

    def _check_idle(self) -> None:
        """Close the connection if no request has come for a while; else look again later."""
        left = IDLE_TIMEOUT if self._requests else self._idle_from + IDLE_TIMEOUT - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
        else:
            self.go_away()

    async def shutdown(self, grace: float) -> None:
        """Close the connection. Requests that are being answered get some seconds to finish."""
        self.go_away()
        tasks = [request.task for request in self._requests.values() if request.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
        self._disconnect()
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        if self.transport is not None:
            self.transport.abort()
