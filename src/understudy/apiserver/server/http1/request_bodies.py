"""Receives the bodies of requests when they are asked for: for a while, and not too many large ones at once."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial

from understudy.apiserver.endpoints.request import BodyAwaitedError, MakeError
from understudy.apiserver.server.http1.body import BUFFER, Body
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.head import CHUNKED, HTTP_2
from understudy.machinery.errors import request_too_large, unknown_error

MAX_BODY = 3 * 1024 * 1024  # the real server's --max-request-body-bytes… limit for every kind of write
MAX_UNREAD = 256 * 1024  # bytes of a body that are read for nothing, to keep the connection: `maxPostHandlerReadBytes`
MAX_HELD = 48 * 1024 * 1024  # bytes of large bodies that a server holds at once
UNREAD_TIMEOUT = 32.0  # seconds that a body may take that is read for nothing


class HeldBodies:
    """The memory for the large bodies of one server: who finds it taken waits for a turn."""

    def __init__(self, limit: int = MAX_HELD) -> None:
        """Make room for some bytes."""
        self._left = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, size: int) -> None:
        """Take some bytes, at most as many as the limit; wait until they are free, and for those who came before."""
        if not self._waiting and size <= self._left:
            self._left -= size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.release(0 if turn.cancelled() else size)  # those behind it may need less
            raise

    def release(self, size: int) -> None:
        """Give bytes back."""
        self._left += size
        while self._waiting and (self._waiting[0][1].cancelled() or self._waiting[0][0] <= self._left):
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self._left -= size
                turn.set_result(None)


class Reception:
    """Receives the body of one request.

    awaits_continue  whether the client waits to be told to send it (`Expect: 100-continue`)
    """

    def __init__(self, exchange: Exchange, bodies: HeldBodies, *, awaits_continue: bool) -> None:
        self._exchange = exchange
        self._body = exchange.body
        self._bodies = bodies
        self._awaits_continue = awaits_continue
        self._held = 0

    async def begin(self) -> bytes | MakeError:
        """Return the body if it has come with its head, or its error; BodyAwaitedError if it has to be waited for."""
        if self._awaits_continue or not self._body.is_complete:
            return BodyAwaitedError
        return await _received(self._body)

    async def receive(self) -> bytes | MakeError:
        """Wait for the body and return it, or the error for one that is too large or malformed."""
        if self._awaits_continue:
            self._awaits_continue = False
            await self._exchange.send_continue()
        await self._hold()
        return await _received(self._body)

    async def _hold(self) -> None:
        """Wait until there is memory for a large body."""
        length = MAX_BODY + MAX_UNREAD
        size = length if self._body.length == CHUNKED else min(self._body.length, length)
        if size > BUFFER:
            await self._bodies.acquire(size)
            self._held = size

    def release(self) -> None:
        """Give back the memory of the body."""
        held, self._held = self._held, 0
        if held:
            self._bodies.release(held)

    async def is_read(self, content: bytes | MakeError) -> bool:
        """Report whether the body was read to its end, so that another request may follow.

        content  what is known of it once the request is answered; a body that no handler has asked for is read now
        """
        if content is BodyAwaitedError:
            return await self._pass_over()
        return isinstance(content, bytes) or (self._body.is_complete and not self._body.error)

    async def _pass_over(self) -> bool:
        """Read a body for nothing, unless it is too long or comes too slowly. Upstream: `cw.writeHeader`.

        Over HTTP/2 nothing that follows has to wait for it.
        """
        if self._awaits_continue or self._body.length > MAX_UNREAD or self._exchange.version == HTTP_2:
            return False
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(UNREAD_TIMEOUT):
                while size <= MAX_UNREAD and (part := await self._body.read()):
                    size += len(part)
        return self._body.is_complete and not self._body.error


async def _received(body: Body) -> bytes | MakeError:
    """Return a body, or the error for one that is too large or malformed.

    A body that is too large is read to its end if little is left, so that the connection can be kept.
    """
    parts, size = [], 0
    while part := await body.read():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY + MAX_UNREAD:
            break
    if size > MAX_BODY:
        return partial(request_too_large, f"Request entity too large: limit is {MAX_BODY}")
    return partial(unknown_error, body.error) if body.error else b"".join(parts)
