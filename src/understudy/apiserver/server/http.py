"""The HTTP edge: turns aiohttp's requests into ours, and our responses into aiohttp's.

Nothing else knows of aiohttp but `watch_stream`, which sends watches, and `listener`, which listens.
"""

from __future__ import annotations

import gzip
import logging
import traceback
from collections.abc import Awaitable, Callable
from random import getrandbits
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDict

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.server.protocol import bad_request
from understudy.apiserver.server.watch_stream import Pumps, Whole, pump
from understudy.machinery.errors import internal_error, request_too_large
from understudy.machinery.options import MALFORMED, Query
from understudy.machinery.releases.version import Version

MAX_BODY = 3 * 1024 * 1024  # the real server's --max-request-body-bytes… limit for every kind of write
log = logging.getLogger("understudy")

Answering = Callable[[Request], Awaitable[Response | WatchResponse]]
REPEATED = ("Warning", "Vary")
# The real server's limits: bodies shorter than this many bytes are not compressed; the level is the fastest.
GZIP_FROM, GZIP_LEVEL = 128 * 1024, 1


def handler(
    answer: Answering, pumps: Pumps, release: Version
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return aiohttp's handler of one server, for every method and path."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        # aiohttp takes what CONNECT asks for as a host, never as a path.
        target = request.path_qs if request.method != "CONNECT" else request.raw_path
        path, _, query = target.partition("?")
        if path == "*":  # OPTIONS * asks about the server, not about a path; Go's `net/http` answers it as well
            return Whole()
        body = b""
        if request.body_exists:
            body = await _body(request)
        if "%" in path:
            if MALFORMED.search(path):
                return bad_request()
            path = unquote(path, errors="surrogateescape")
        received = Request(request.method, path, request.headers, body, Query(query), release)
        try:
            result = error_response(received, _TOO_LARGE) if len(body) > MAX_BODY else await answer(received)
        except Exception:
            log.error("%s %s failed\n%s", request.method, request.path_qs, traceback.format_exc())
            result = error_response(received, internal_error("the server met a bug of its own; its log tells more"))
        if isinstance(result, WatchResponse):
            response = await pump(request, result.source, _headers(result), pumps)
            log.debug("%s %s %s", request.method, request.path_qs, 200)
            return response
        log.debug("%s %s %s", request.method, request.path_qs, result.status)
        return _response(request, result)

    return handle


_TOO_LARGE = request_too_large(f"Request entity too large: limit is {MAX_BODY}")


async def _body(request: web.BaseRequest) -> bytes:
    """Return the body of a request, or more than MAX_BODY bytes of it."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # aiohttp counts this line as part of the answer
    parts, size = [], 0
    async for chunk in request.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            break
    return b"".join(parts)


def _response(request: web.BaseRequest, answer: Response) -> web.Response:
    headers, body = _headers(answer), answer.body
    if len(body) > GZIP_FROM and answer.compressible and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    return Whole(body=body if request.method != "HEAD" else b"", status=answer.status, headers=headers)


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
