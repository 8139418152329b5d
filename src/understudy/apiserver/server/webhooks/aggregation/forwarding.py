"""Passes requests on to other servers, and their answers as they come. Upstream: `httputil.ReverseProxy`.

Answers are passed on as they come, so that watches need nothing special. Bodies of requests are read before.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from math import inf

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from understudy.admission.webhooks import CallError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.streamed import StreamedResponse
from understudy.apiserver.server.webhooks.aggregation.headers import Headers, answered_headers, own_headers
from understudy.apiserver.server.webhooks.egress.dialing import DIAL, NO_TLS, joined
from understudy.apiserver.server.webhooks.exchange import Connections, failure_text
from understudy.machinery.golang.x509.deprecated import Deprecated
from understudy.machinery.types import NamedTuple

Rewrite = Callable[[bytes], bytes]
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")  # that aiohttp would add


class Place(NamedTuple):
    """The address of a server, the context of connections, None without TLS, and the name in its certificate."""

    address: str
    port: int
    context: ssl.SSLContext | None
    name: str

    @property
    def host(self) -> str:
        """Return the host that requests name."""
        return joined(self.address, self.port)


class Received(NamedTuple):
    """An answer of which only the head has come, and the headers that are passed on."""

    response: aiohttp.ClientResponse
    headers: Headers
    is_gzipped: bool  # while the client has not asked for that

    @property
    def status(self) -> int:
        """Return the status."""
        return self.response.status

    def close(self) -> None:
        """Close the connection."""
        self.response.close()


async def send(
    connections: Connections, place: Place, method: str, target: str, headers: Headers, body: bytes
) -> aiohttp.ClientResponse:
    """Send a request and return the answer, its body yet to be read. Raises aiohttp.ClientError."""
    scheme = "http" if place.context is None else "https"
    return await connections.session.request(
        method,
        URL(f"{scheme}://{place.host}{target}", encoded=True),
        data=body or None,
        headers=headers,
        allow_redirects=False,
        ssl=place.context or False,
        server_hostname=None if place.context is None else place.name,
        skip_auto_headers=_OWN_HEADERS,
        timeout=aiohttp.ClientTimeout(sock_connect=DIAL),
    )


async def forward(connections: Connections, place: Place, request: Request, target: str, headers: Headers) -> Received:
    """Pass a request on and return the answer. Raises CallError, and BodyAwaitedError.

    Go's client asks for compression if the request that is passed on does not say anything about it.
    """
    decompresses = request.method != "HEAD" and "Accept-Encoding" not in headers and "Range" not in headers
    if decompresses:
        headers["Accept-Encoding"] = "gzip"
    try:
        response = await send(connections, place, request.method, target, headers, request.body)
    except aiohttp.ClientError as error:
        has_tls = not isinstance(error, aiohttp.ClientConnectorSSLError)
        server = place.address, place.port, place.name, connections.dial, place.context
        why = await failure_text(error, *server) if has_tls else NO_TLS
        if (way := connections.count_error(why)) is not None:
            _annotate(request, place, way)
        raise CallError(f"error trying to reach service: {why}") from None
    for way in connections.count_answer(response):
        _annotate(request, place, way)
    answered = answered_headers(response.headers)
    is_gzipped = decompresses and answered.get("Content-Encoding", "").lower() == "gzip"
    if is_gzipped:
        del answered["Content-Encoding"]
        answered.popall("Content-Length", None)
    return Received(response, answered, is_gzipped)


def _annotate(request: Request, place: Place, way: Deprecated) -> None:
    """Tell the audit log of a deprecated certificate."""
    if request.audit is not None:
        request.audit.annotate(*way.annotation(place.address))


def passed_on(request: Request, received: Received, audit_id: str, rewrite: Rewrite | None = None) -> Response:
    """Return the answer that passes on another one, after its whole body is rewritten if there is a function for it."""
    seconds = None if request.deadline == inf else request.seconds_left()
    headers = [*own_headers(request, audit_id), *received.headers.items()]
    response = received.response
    return StreamedResponse(response.status, response.content_type, headers, _Sender(received, seconds, rewrite))


class _Sender:
    """Sends an answer as it comes, within some seconds if it is no watch."""

    def __init__(self, received: Received, seconds: float | None, rewrite: Rewrite | None) -> None:
        self._received = received.response
        self._is_gzipped = received.is_gzipped
        self._seconds = seconds
        self._rewrite = rewrite

    async def __call__(self, exchange: Exchange, headers: CIMultiDict[str]) -> None:
        """Send the answer; reset the connection if it does not come to its end."""
        received = self._received
        try:
            async with asyncio.timeout(self._seconds):
                if self._rewrite is not None:
                    body = b"".join([part async for part in self._parts()])
                    await exchange.send(received.status, headers, [self._rewrite(body)])
                    return
                if exchange.method == "HEAD" or "Content-Length" in headers or received.status in (204, 304):
                    await exchange.send(received.status, headers, [await received.read()])
                    return
                await exchange.begin(received.status, headers)
                async for part in self._parts():
                    await exchange.send_chunk(part)
                await exchange.end()
        except (aiohttp.ClientError, TimeoutError, zlib.error):
            exchange.reset()
        finally:
            received.close()

    async def _parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        gzip = zlib.decompressobj(31) if self._is_gzipped else None
        async for part in self._received.content.iter_any():
            if part := part if gzip is None else gzip.decompress(part):
                yield part
