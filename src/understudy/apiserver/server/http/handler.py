"""The HTTP edge: turns the requests of a connection into ours, and sends our responses.

Nothing else knows of connections but `http1`, `watch_stream`, which sends watches, and `listener`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from multidict import CIMultiDict, istr

from understudy.apiserver.endpoints.request import Delivery, Request, Response, WatchResponse
from understudy.apiserver.endpoints.responsewriters.writers import error_response
from understudy.apiserver.server.filters.request_deadline import timed_out
from understudy.apiserver.server.http.beginnings import Beginnings
from understudy.apiserver.server.http.gzipped import compressed
from understudy.apiserver.server.http.watch_stream import Pumps, pump
from understudy.apiserver.server.http1.exchange import Exchange, Http1Exchange
from understudy.apiserver.server.http1.head import HTTP_1_1, HTTP_2
from understudy.apiserver.server.http1.parser import NO_BODY
from understudy.apiserver.server.http1.request_bodies import HeldBodies, Reception
from understudy.apiserver.server.http1.served import Handler
from understudy.apiserver.server.http1.streamed import StreamedResponse
from understudy.machinery.errors import RequestAbortedError, internal_error
from understudy.machinery.options import parse_query
from understudy.machinery.releases.version import Version
from understudy.machinery.util.regex import regex
from understudy.machinery.validation.generated_names import new_uid

_CONTINUE = regex(r"(?:^|[ ,\t])100-continue(?:$|[ ,\t])", re.IGNORECASE)
LONG_QUERY = 64 * 1024  # characters of a query string that is read in a thread, one by one: it may take 0.3 s
log = logging.getLogger("understudy")

Answering = Callable[[Request], Awaitable[Response | WatchResponse]]
REPEATED = ("Warning", "Vary")
GZIP_FROM = 128 * 1024  # the real server's limit: bodies shorter than this many bytes are not compressed
GZIP_ON_LOOP = 512 * 1024  # bytes of a body that is compressed at once, in some 5 ms; others in a thread, one by one


def handler(
    answer: Answering,
    pumps: Pumps,
    version: Version,
    headers_of_all: Sequence[tuple[str, str]] = (),
    *,
    asks_for_certificates: bool = False,
) -> Handler:
    """Return the handler of the requests of one server, for every method and path.

    headers_of_all         headers that every answer has besides its own
    asks_for_certificates  whether clients may have shown certificates
    """

    beginnings, bodies, long_queries, compressing = Beginnings(), HeldBodies(), asyncio.Lock(), asyncio.Lock()

    async def handle(exchange: Exchange) -> None:
        if beginnings.must_wait():
            await beginnings.wait()
        headers, body = exchange.headers, exchange.body
        expectation = headers.get("Expect")
        if expectation and not _CONTINUE.search(expectation):
            exchange.closes = True
            return await exchange.send(417, CIMultiDict(Connection="close"))
        path, _, query = exchange.target.partition("?")
        if path == "*" and exchange.method == "OPTIONS":  # asks about the server; Go's `net/http` answers it as well
            return await exchange.send(200, CIMultiDict())
        if "%" in path:
            path = unquote(path, errors="surrogateescape")
        if len(query) > LONG_QUERY:
            async with long_queries:
                parameters = await asyncio.to_thread(parse_query, query)
        else:
            parameters = parse_query(query)
        awaits_continue = bool(expectation) and exchange.version >= HTTP_1_1
        reception = None if body is NO_BODY else Reception(exchange, bodies, awaits_continue=awaits_continue)
        request = Request(
            exchange.method,
            path,
            headers,
            b"" if reception is None else await reception.begin(),
            parameters,
            version,
            _certificates(exchange) if asks_for_certificates else (),
            None if reception is None else reception.receive,
            source=exchange.peer,
        )
        try:
            result = await answer(request)
        except RequestAbortedError:
            log.debug("%s %s aborted", exchange.method, exchange.target)
            exchange.closes = True
            return None
        except Exception:
            log.error("%s %s failed\n%s", exchange.method, exchange.target, traceback.format_exc())
            result = error_response(request, internal_error("the server met a bug of its own; its log tells more"))
        finally:
            if reception is not None:
                reception.release()
        if headers_of_all:
            result.headers += headers_of_all
        if request.is_last and exchange.version == HTTP_2:
            result.headers.append(("Connection", "close"))
        if result.delivery is not None:
            exchange.impair(_within(result.delivery, result))
        if isinstance(result, WatchResponse):
            head = _headers(exchange, result)
            if result.compressible:
                _compress(exchange, head)
            try:
                await pump(exchange, result.source, head, pumps)
            finally:
                result.on_end()
            log.debug("%s %s %s", exchange.method, exchange.target, 200)
            return None
        log.debug("%s %s %s", exchange.method, exchange.target, result.status)
        if reception is not None and not await reception.is_read(request.content):
            exchange.closes = True
        if isinstance(result, StreamedResponse):
            return await result.deliver(exchange)
        await _send(exchange, result, compressing)
        return None

    return handle


def _within(delivery: Delivery, answer: Response | WatchResponse) -> Delivery:
    """Return the way an answer is sent: one that is to be cut off loses at least its last byte."""
    if delivery.body_bytes is None or isinstance(answer, WatchResponse):
        return delivery
    answer.compressible = False
    return replace(delivery, body_bytes=min(delivery.body_bytes, sum(map(len, answer.parts)) - 1))


def give_up(exchange: Http1Exchange) -> None:
    """Answer a request whose client sends nothing more that it took too long, without waiting."""
    answer = timed_out()
    exchange.send_now(answer.status, _headers(exchange, answer), b"".join(answer.parts))


def _certificates(exchange: Exchange) -> tuple[bytes, ...]:
    """Return the certificates that the client of a request has shown, in DER, its own first."""
    tls = None if exchange.transport is None else exchange.transport.get_extra_info("ssl_object")
    return () if tls is None else tuple(tls.peer)


async def _send(exchange: Exchange, answer: Response, compressing: asyncio.Lock) -> None:
    headers, parts = _headers(exchange, answer), answer.parts
    size = sum(map(len, parts))
    if size > GZIP_FROM and answer.compressible and _compress(exchange, headers):
        if size > GZIP_ON_LOOP:
            async with compressing:
                parts = await asyncio.to_thread(compressed, parts)
        else:
            parts = compressed(parts)
    await exchange.send(answer.status, headers, parts)


def _headers(exchange: Exchange, answer: Response | WatchResponse) -> CIMultiDict[str]:
    """Return the headers of an answer, with the audit id that the client has sent, or a new one (`WithAuditInit`)."""
    headers = CIMultiDict([(_AUDIT_ID, exchange.headers.get(_AUDIT_ID) or new_uid()), _UNCACHED])
    if answer.content_type:  # a 304 has none, and clients keep what it says
        headers[_CONTENT_TYPE] = answer.content_type
    for name, value in answer.headers:
        if name in REPEATED:
            headers.add(name, value)
        else:
            headers[name] = value
    return headers


_AUDIT_ID, _CONTENT_TYPE = istr("Audit-Id"), istr("Content-Type")
_UNCACHED = (istr("Cache-Control"), "no-cache, private")


def _compress(exchange: Exchange, headers: CIMultiDict[str]) -> bool:
    """Report whether a client accepts gzip, and note in the headers of the answer that it is gzipped if so."""
    accepted = [token.strip() for token in exchange.headers.get("Accept-Encoding", "").split(",")]
    if "gzip" not in accepted:
        return False
    headers["Content-Encoding"] = "gzip"
    if "Accept-Encoding" not in headers.getall("Vary", ()):
        headers.add("Vary", "Accept-Encoding")
    return True
