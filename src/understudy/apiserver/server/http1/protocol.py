"""The HTTP protocol of a connection: aiohttp's, with a parser and refusals as Go's `net/http` has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from understudy.apiserver.server.http1.parser import RequestParser

log = logging.getLogger("understudy")

IDLE_TIMEOUT = 90.0  # seconds after which an unused connection is closed: kube-apiserver's `IdleTimeout`
_PAGE_HEADERS = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
_LINGER = 0.5  # seconds that a client gets to read why it was refused in the middle of its request


class HTTPProtocol(web.RequestHandler):
    """The HTTP protocol of one connection."""

    def __init__(self, server: web.Server, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(server, loop=loop, keepalive_timeout=IDLE_TIMEOUT, lingering_time=_LINGER, **settings)
        self._parser: Any = RequestParser(self, loop, self.close_if_idle)

    def close_if_idle(self) -> None:
        """Close the connection, unless a request is being answered."""
        if self._current_request is None:
            self.force_close()

    def _make_error_handler(self, error: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Return the handler that answers what the parser refused with `error.exc`."""

        async def handle(connection: web.BaseRequest) -> web.StreamResponse:
            log.debug("refused: %s", error.message)
            return RawPage(f"HTTP/1.1 {error.exc}\r\n{_PAGE_HEADERS}\r\n{error.exc.text}")

        return handle


class RawPage(web.StreamResponse):
    """A response of bytes that are sent as they are. It closes the connection."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.force_close()
        self._page = page.encode()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send the page."""
        transport = request.transport
        if transport is None:
            return
        transport.write(self._page)
        if transport.can_write_eof():
            transport.write_eof()
        await asyncio.sleep(_LINGER)  # closing at once would reset the connection, and the page be lost

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: all was sent."""
