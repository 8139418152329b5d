"""The connections of a server: requests come in, are answered one after the other, and idle ones are closed.

HTTP libraries are not used here: they refuse requests that Go's server accepts, and importing one takes as long as a
third of the start of the whole server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import cast

from understudy.apiserver.server.http1.body import Body
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.head import Head, RefusedError, bad_request
from understudy.apiserver.server.http1.large_parts import LargeParts
from understudy.apiserver.server.http1.parser import NO_BODY, Received, RequestParser
from understudy.apiserver.server.http1.served import Handler, ServedProtocol, shut_down
from understudy.apiserver.storage.turns import Turns

log = logging.getLogger("understudy")

_LINGER = 0.5  # seconds that a client gets to read why it was refused in the middle of its request
_MOST_WAITING = 32  # requests that may wait behind the one that is answered; then the client must wait
_PART_OF_FRAMES = 16 * 1024  # bytes of another protocol that are read in one turn: 2,500 pings take 10 ms
_LAST_CHUNK = b"0\r\n\r\n"
_PAGE_HEADERS = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"

GiveUp = Callable[[Http1Exchange], None]


class HTTPServer:
    """All connections of a server, whose requests a handler answers.

    handle       answers requests
    connections  are those that are open
    give_up      answers, without waiting, a request that has no answer yet and whose client sends nothing more
    """

    def __init__(self, handle: Handler, give_up: GiveUp = lambda exchange: None) -> None:
        self.handle = handle
        self._give_up = give_up
        self.connections: set[HTTPProtocol] = set()
        self._large_parts = LargeParts()

    def connect(self) -> HTTPProtocol:
        """Return the protocol of a new connection, in the running event loop."""
        return HTTPProtocol(self.handle, self._give_up, self.connections, self._large_parts)

    async def shutdown(self, grace: float) -> None:
        """End all connections; requests that are being answered get some seconds to finish."""
        await shut_down(self.connections, grace)


class HTTPProtocol(ServedProtocol):
    """One connection. It is among the open `connections` of its server as long as it lasts."""

    part = 64 * 1024

    def __init__(
        self, handle: Handler, give_up: GiveUp, connections: set[HTTPProtocol], large_parts: LargeParts
    ) -> None:
        super().__init__(large_parts)
        self._handle = handle
        self._give_up = give_up
        self._connections = connections
        self._parser = RequestParser(self._loop, self._close_if_idle, self._regulate)
        self._receive = self._read_requests
        self._requests: deque[Received] = deque()
        self._arrived: asyncio.Future[None] | None = None  # the next request, while it is waited for
        self._current: Http1Exchange | None = None
        self._writable: asyncio.Future[None] | None = None  # while the client reads too slowly
        self._is_upgraded = False  # the client speaks another protocol
        self._is_held = False  # too much of that is not read yet
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None  # while requests are answered

    # --- called by the event loop -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to answer requests."""
        self.transport = cast("asyncio.Transport", transport)
        self._is_plain = transport.get_extra_info("ssl_object") is None
        self._connections.add(self)
        self._check_idle()
        self._task = self._loop.create_task(self._answer_requests())
        self._task.add_done_callback(self._forget_task)

    def connection_lost(self, error: Exception | None) -> None:
        """End the request that is being answered, since its client is gone, and free the connection.

        Nothing it has refers back to it then: Python's search for cycles may never look at it (see `program.py`).
        """
        super().connection_lost(error)
        self.transport = None
        self._connections.discard(self)
        self._parser.end()
        self._receive = _ignore
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        if self._task is not None:
            self._task.cancel()

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        """Free the task that has ended: its exception has frames that refer to the connection."""
        self._task = self._current = self._arrived = None
        self._requests.clear()

    def eof_received(self) -> bool:
        """Give up the requests that are not answered: the client sends nothing more, and may read on.

        Go's server cancels them then, and kube-apiserver answers that they took too long. An answer that has begun is
        sent to its end, but for a watch, which ends. True keeps the connection open for that; over TLS it cannot be.
        """
        current, (head, body) = self._current, self._requests[0] if self._requests else (None, NO_BODY)
        if current is None and isinstance(head, Head):
            current = Http1Exchange(self, head, body)
        goes_on = isinstance(head, RefusedError) if current is None else current.has_begun and not current.in_chunks
        if self._is_upgraded:
            return False
        if current is not None and current.in_chunks:
            self.write_now(_LAST_CHUNK)
        elif current is not None and not current.has_begun:
            self._give_up(current)
        elif self._parser.has_begun_head and not goes_on:
            refusal = bad_request()
            self.write_now(f"HTTP/1.1 {refusal}\r\n{_PAGE_HEADERS}\r\n{refusal.text}".encode())
        self._is_stopping = True
        if not goes_on and self._task is not None:
            self._task.cancel()
        return goes_on and self._is_plain

    def pause_writing(self) -> None:
        """Pause the senders: the client reads too slowly."""
        self._writable = self._loop.create_future()
        self._regulate()

    def resume_writing(self) -> None:
        """Resume the senders."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
            self._regulate()

    # --- requests ---------------------------------------------------------------------------------------------

    def _read_requests(self, data: bytes) -> None:
        self._enqueue(self._parser.feed(data))

    def _enqueue(self, requests: list[Received]) -> None:
        if requests:
            self._requests.extend(requests)
            if self._arrived is not None and not self._arrived.done():
                self._arrived.set_result(None)
        self._regulate()

    def _regulate(self) -> None:
        """Let the client wait as long as too much of what it has sent is not read yet.

        One that speaks another protocol waits while it reads too slowly itself: what it sends may be answered
        immediately.
        """
        is_full = self._waiting_parts > 0 or self._parser.is_full or len(self._requests) > _MOST_WAITING
        is_full = is_full or (self._is_upgraded and (self._is_held or self._writable is not None))
        if is_full != self._is_paused:
            self._pause_reading(is_full)

    async def _next(self) -> Received:
        """Return the next request; wait for it."""
        if not self._requests:
            self._idle_from = self._loop.time()
            self._arrived = self._loop.create_future()
            await self._arrived
            self._arrived = None
        received = self._requests.popleft()
        if self._is_paused:
            self._regulate()
        return received

    async def _answer_requests(self) -> None:
        """Answer requests until the connection closes. Others have their turn between many that came at once."""
        turns = Turns()
        try:
            with suppress(ConnectionError):  # the client went away
                while not self._is_stopping and await self._answer(*await self._next()):
                    if self._requests and turns.is_over:
                        await turns.next()
        except Exception:
            log.exception("an answer could not be sent")
        finally:
            if self.transport is not None:
                self.transport.close()

    async def _answer(self, head: Head | RefusedError, body: Body) -> bool:
        """Answer a request; report whether another one may follow."""
        if isinstance(head, RefusedError):
            log.debug("refused: %s", head)
            await self.write(f"HTTP/1.1 {head}\r\n{_PAGE_HEADERS}\r\n{head.text}".encode())
            await self.end_writing()
            return False
        self._current = exchange = Http1Exchange(self, head, body)
        await self._handle(exchange)
        self._current = None
        if not body.is_complete:
            await asyncio.sleep(_LINGER)
            if not self.has_unsent():
                self.end()  # to close a connection over TLS would be to read all that still comes
        if head.upgrades and not exchange.closes:
            self._enqueue(self._parser.resume())
        return body.is_complete and not exchange.closes

    # --- answers ----------------------------------------------------------------------------------------------

    async def write(self, *parts: bytes) -> None:
        """Send bytes, and wait while the client reads too slowly. Raises ConnectionResetError if it went away."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client went away")
        if len(parts) == 1:
            self.transport.write(parts[0])
        else:
            self.transport.writelines(parts)
        if self._writable is not None:
            await self._writable

    def write_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the client went away."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def write_if_ready(self, data: bytes) -> bool:
        """Send bytes if the client is there and does not read too slowly; report whether they are sent."""
        transport = self.transport
        if self._writable is not None or transport is None or transport.is_closing():
            return False
        transport.write(data)
        return True

    async def end_writing(self) -> None:
        """Tell the client that nothing follows, and give it the time to read: closing could drop what was sent."""
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()
        await asyncio.sleep(_LINGER)

    def upgrade(self, receive: Callable[[bytes], None]) -> None:
        """Give all that the client sends from now on to `receive`."""
        self._receive = receive
        self._is_upgraded = True
        self.part = _PART_OF_FRAMES
        if tail := self._parser.take_tail():
            receive(tail)
        self._regulate()

    def hold(self, is_full: bool) -> None:
        """Let a client that speaks another protocol wait, or go on: too much of what it has sent is not read yet."""
        self._is_held = is_full
        self._regulate()

    # --- the end ----------------------------------------------------------------------------------------------

    def _close_if_idle(self) -> None:
        """Close the connection, unless a request is being answered."""
        if self._current is None and self.transport is not None:
            self.transport.close()

    def _is_busy(self) -> bool:
        return self._arrived is None

    def answer_with(self, handle: Handler) -> None:
        """Let another handler answer the requests to come."""
        self._handle = handle

    @property
    def answering(self) -> AbstractSet[Exchange]:
        """Return the request that is being answered, unless it has become another protocol."""
        return set() if self._current is None or self._is_upgraded else {self._current}

    async def drain(self) -> None:
        """Accept no more requests, and close the connection when the one that is being answered has been."""
        self._is_stopping = True
        if (task := self._task) is None or self._is_upgraded:
            return
        if self._current is not None:
            self._current.closes = True
        else:
            task.cancel()
        await asyncio.wait([task])

    async def shutdown(self, grace: float) -> None:
        """Close the connection. A request that is being answered gets some seconds to finish."""
        self._is_stopping = True
        if (task := self._task) is None:
            return
        if self._current is not None:
            self._current.closes = True
            await asyncio.wait([task], timeout=grace)
        task.cancel()
        await asyncio.wait([task], timeout=grace)


def _ignore(data: bytes) -> None:
    """Do nothing about what comes when the connection has ended."""
