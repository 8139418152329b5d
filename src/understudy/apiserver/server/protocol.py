"""Answers requests that aiohttp's HTTP parser refuses.

aiohttp's parser refuses methods that it does not know, while kube-apiserver answers any method, with 405 for instance.
Such a request is read again here and answered like every other one, if its head came in one piece; the connection is
closed after it. Everything else that the parser refuses gets the page that Go's `net/http` sends.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from http.client import HTTPException, parse_headers
from io import BytesIO
from typing import Any

from aiohttp import HttpVersion11, web
from aiohttp.hdrs import METH_ALL
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, LineTooLong
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from understudy.apiserver.server.watch_stream import Whole

log = logging.getLogger("understudy")

# A method (a token of RFC 9110), then a path, in the first line of a request whose headers are complete.
_HEAD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (/[!-~]*) HTTP/1\.1\r\n(?s:(.*?\r\n)\r\n)")


class HTTPProtocol(web.RequestHandler):
    """The HTTP protocol of one connection."""

    def __init__(self, server: web.Server, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._answer = server.request_handler
        self._received = b""  # what came last, and what the parser refuses if it refuses anything

    def data_received(self, data: bytes) -> None:
        """Parse data from the client, and start to answer the requests that are in it."""
        self._received = data
        super().data_received(data)

    def _make_error_handler(self, error: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        """Return the handler that answers what the parser refused with `error.exc`.

        aiohttp calls it with an empty request, which stands for the connection.
        """

        async def handle(connection: web.BaseRequest) -> web.StreamResponse:
            log.debug("refused by the parser: %s", error.message)
            head = _read_head(self._received) if isinstance(error.exc, BadHttpMethod) else None
            request = _request(head or _UNREADABLE, connection)
            response = await self._answer(request) if head else _refusal(error.exc)
            await response.prepare(request)  # with its HTTP version, which the connection does not know
            return response

        return handle


def bad_request() -> Whole:
    """Return the page for a request that breaks the rules of HTTP."""
    return _page(400, "Bad Request")


def _refusal(error: BaseException) -> Whole:
    """Return the page for what the parser refused with `error`."""
    return _page(431, "Request Header Fields Too Large") if isinstance(error, LineTooLong) else bad_request()


def _page(status: int, reason: str) -> Whole:
    return Whole(status=status, text=f"{status} {reason}", headers={"Connection": "close"})


def _read_head(data: bytes) -> RawRequestMessage | None:
    """Return the head of the request that data begins with; None if it is incomplete or its method a known one."""
    match = _HEAD.match(data)
    if match is None:
        return None
    method, path, lines = match.groups()
    if method.decode() in METH_ALL:  # then the parser has refused something behind this request
        return None
    try:
        headers = parse_headers(BytesIO(lines + b"\r\n"))
    except HTTPException:
        return None
    return _message(method.decode(), path.decode(), CIMultiDict(headers.items())) if "Host" in headers else None


def _message(method: str, path: str, headers: CIMultiDict[str]) -> RawRequestMessage:
    url = URL(path, encoded=True)
    return RawRequestMessage(method, path, HttpVersion11, CIMultiDictProxy(headers), (), True, None, False, False, url)


_UNREADABLE = _message("GET", "/", CIMultiDict())


def _request(message: RawRequestMessage, connection: web.BaseRequest) -> web.BaseRequest:
    """Return a request that is answered on a connection."""
    assert connection.task is not None
    return web.BaseRequest(
        message, connection.content, connection.protocol, connection.writer, connection.task, asyncio.get_running_loop()
    )
