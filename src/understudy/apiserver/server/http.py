"""The HTTP edge: turns aiohttp's requests into ours, and our responses into aiohttp's.

Nothing else knows of aiohttp but `http1`, which reads requests, `watch_stream`, which sends watches, and `listener`.
"""

from __future__ import annotations

import gzip
import logging
import re
import traceback
from collections.abc import Awaitable, Callable
from random import getrandbits
from urllib.parse import unquote

from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.server.http1.body import Body
from understudy.apiserver.server.watch_stream import Pumps, Whole, pump
from understudy.machinery.errors import StatusError, internal_error, request_too_large, unknown_error
from understudy.machinery.options import Query
from understudy.machinery.releases.version import Version

MAX_UNREAD = 256 * 1024  # bytes of a body that are read for nothing, to keep the connection: `maxPostHandlerReadBytes`
_CONTINUE = re.compile(r"(?:^|[ ,\t])100-continue(?:$|[ ,\t])", re.IGNORECASE)
MAX_BODY = 3 * 1024 * 1024  # the real server's --max-request-body-bytes… limit for every kind of write
log = logging.getLogger("understudy")

Answering = Callable[[Request], Awaitable[Response | WatchResponse]]
REPEATED = ("Warning", "Vary")
# The real server's limits: bodies shorter than this many bytes are not compressed; the level is the fastest.
GZIP_FROM, GZIP_LEVEL = 128 * 1024, 1
# Phrases of Go's `http.StatusText` that Python words anew from 3.13 on.
_REASONS = {413: "Request Entity Too Large", 422: "Unprocessable Entity"}


def handler(
    answer: Answering, pumps: Pumps, release: Version
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return aiohttp's handler of one server, for every method and path."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        expectation = request.headers.get("Expect")
        if expectation and not _CONTINUE.search(expectation):
            return closing(Whole(status=417, headers={"Connection": "close"}))
        path, _, query = request.raw_path.partition("?")
        if path == "*" and request.method == "OPTIONS":  # asks about the server; Go's `net/http` answers it as well
            return Whole()
        if "%" in path:
            path = unquote(path, errors="surrogateescape")
        content: bytes | Exception = b""
        if request.body_exists:
            waits = expectation and request.version >= HttpVersion11
            content = BodyAwaitedError() if waits else await _received_body(request)
        received = Request(request.method, path, request.headers, content, Query(query), release)
        try:
            try:
                result = await answer(received)
            except BodyAwaitedError:
                await _send_continue(request)
                content = await _received_body(request)
                result = await answer(Request(request.method, path, request.headers, content, Query(query), release))
        except Exception:
            log.error("%s %s failed\n%s", request.method, request.raw_path, traceback.format_exc())
            result = error_response(received, internal_error("the server met a bug of its own; its log tells more"))
        if isinstance(result, WatchResponse):
            response = await pump(request, result.source, _headers(result), pumps)
            log.debug("%s %s %s", request.method, request.raw_path, 200)
            return response
        log.debug("%s %s %s", request.method, request.raw_path, result.status)
        answered = _response(request, result)
        if request.method == "CONNECT":  # aiohttp would send no body; to Go's server it is a method like any other
            await answered.prepare(request.clone(method="GET"))
        return answered if _is_read(request, content) else closing(answered)

    return handle


class BodyAwaitedError(Exception):
    """The body is asked for, and its client waits to be told to send it (`Expect: 100-continue`)."""


async def _send_continue(request: web.BaseRequest) -> None:
    """Tell a client to send its body."""
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # aiohttp counts this line as part of the answer


async def _received_body(request: web.BaseRequest) -> bytes | StatusError:
    """Return the body of a request, or the error for one that is too large or malformed.

    A body that is too large is read to its end if little is left, so that the connection can be kept.
    """
    parts, size = [], 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY + MAX_UNREAD:
            break
    if size > MAX_BODY:
        return request_too_large(f"Request entity too large: limit is {MAX_BODY}")
    error = body_error(request)
    return unknown_error(error) if error else b"".join(parts)


def _is_read(request: web.BaseRequest, content: bytes | Exception) -> bool:
    """Report whether the body was read to its end, so that another request may follow."""
    if isinstance(content, bytes):
        return True
    return not isinstance(content, BodyAwaitedError) and request.content.is_eof() and not body_error(request)


def body_error(request: web.BaseRequest) -> str:
    """Return why the body of a request cannot be read to its end, "" if it can."""
    return request.content.error if isinstance(request.content, Body) else ""


def closing(response: web.Response) -> web.Response:
    """Return a response, behind which the connection closes."""
    response.force_close()
    return response


def _response(request: web.BaseRequest, answer: Response) -> web.Response:
    headers, body = _headers(answer), answer.body
    if len(body) > GZIP_FROM and answer.compressible and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    reason = _REASONS.get(answer.status)
    return Whole(body=body if request.method != "HEAD" else b"", status=answer.status, reason=reason, headers=headers)


def _headers(answer: Response | WatchResponse) -> CIMultiDict[str]:
    headers = CIMultiDict([("Audit-Id", _audit_id()), _UNCACHED])
    if answer.content_type:  # a 304 has none, and clients keep what it says
        headers["Content-Type"] = answer.content_type
    for name, value in answer.headers:
        if name in REPEATED:
            headers.add(name, value)
        else:
            headers[name] = value
    return headers


_UNCACHED = ("Cache-Control", "no-cache, private")


def _accepts_gzip(accept_encoding: str) -> bool:
    return "gzip" in [token.strip() for token in accept_encoding.split(",")]


def _audit_id() -> str:
    """Return a text that looks like a random UUID, ten times as fast as `uuid.uuid4`."""
    text = f"{getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
