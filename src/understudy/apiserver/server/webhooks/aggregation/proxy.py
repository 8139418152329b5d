"""Passes requests on to aggregated API servers. Upstream: `proxyHandler` of kube-aggregator.

An answer is passed on as it comes, so that watches need nothing special. Bodies of requests are read before.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from math import inf
from typing import NamedTuple
from urllib.parse import quote, quote_plus

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from understudy.admission.webhooks import Caller, CallError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import text_response
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.streamed import StreamedResponse
from understudy.apiserver.server.webhooks.aggregation.backends import Backend
from understudy.apiserver.server.webhooks.aggregation.headers import (
    AUDIT_ID,
    Headers,
    answered_headers,
    forwarded_headers,
    own_headers,
    upgrade_headers,
    user_headers,
)
from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade
from understudy.apiserver.server.webhooks.certificates import client_context
from understudy.apiserver.server.webhooks.exchange import Connections, failure_text, joined
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query

UNAVAILABLE = "service unavailable"
NO_CERTIFICATES = "unable to load root certificates: unable to parse bytes as PEM block"
PATH_CHARACTERS = "/:@&=+$,;~!*'()"  # that Go leaves as they are in a path
AGGREGATOR = User("system:kube-aggregator", [MASTERS])  # who asks whether a server is there
CHECK_SECONDS = 5.0
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")  # that aiohttp would add


class Identity(NamedTuple):
    """The front proxy's client certificate and its key (PEM), None without one."""

    certificate: bytes | None = None
    key: bytes | None = None


class _Place(NamedTuple):
    """The address of a server, the host that requests name, and the context of connections."""

    address: str
    port: int
    context: ssl.SSLContext

    @property
    def host(self) -> str:
        return joined(self.address, self.port)


class Fetched(NamedTuple):
    """The answer to a request of the server itself."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Proxy:
    """Asks aggregated servers. `tells_uid` is whether they learn the uid of a user."""

    def __init__(self, services: ServiceResolver, identity: Identity, *, tells_uid: bool) -> None:
        self._services = services
        self._identity = identity
        self._tells_uid = tells_uid
        self._connections = Connections(decompresses=False)

    async def close(self) -> None:
        """End all connections to aggregated servers."""
        await self._connections.close()

    async def answer(self, backend: Backend, request: Request) -> Response:
        """Return the answer of the server behind an APIService. Raises BodyAwaitedError."""
        if not backend.is_available:
            return _error(503, UNAVAILABLE)
        try:
            place = self._place(backend, insecure=backend.insecure)
        except CallError:
            return _error(503, UNAVAILABLE)
        except ssl.SSLError:
            return _error(500, NO_CERTIFICATES)
        path = quote(request.path, PATH_CHARACTERS, errors="surrogateescape")
        target = f"{path}?{_encoded(request.query)}" if request.query else path
        try:
            if request.is_upgrade:
                connection = await Upgrade.dial(place.address, place.port, backend.service.host, place.context)
                headers = upgrade_headers(request, place.host, tells_uid=self._tells_uid)
                return await connection.ask(request.method, target, headers)
            headers = forwarded_headers(request, path, place.host, tells_uid=self._tells_uid)
            return await self._asked(backend, place, request, target, headers)
        except CallError as error:
            return _error(503, str(error))

    def _place(self, backend: Backend, *, insecure: bool) -> _Place:
        """Return the place of a server. Raises CallError, ssl.SSLError for authorities that are none."""
        address, port = self._services.resolve(backend.service)
        caller = Caller("", insecure=insecure, certificate=self._identity.certificate, key=self._identity.key)
        bundle = "" if insecure else backend.ca_bundle
        return _Place(address, port, client_context(bundle, backend.service.host, ("http/1.1",), caller))

    async def _asked(
        self, backend: Backend, place: _Place, request: Request, target: str, headers: Headers
    ) -> Response:
        """Return the answer to a request that is passed on. Raises CallError."""
        decompresses = request.method != "HEAD" and "Accept-Encoding" not in headers and "Range" not in headers
        if decompresses:
            headers["Accept-Encoding"] = "gzip"
        try:
            received = await self._send(backend, place, request.method, target, headers, request.body)
        except aiohttp.ClientError as error:
            why = await failure_text(error, place.address, place.port, backend.service.host)
            raise CallError(f"error trying to reach service: {why}") from None
        if 300 <= received.status <= 399 and received.headers.get("Location"):
            received.close()
            text = b"the backend attempted to redirect this request, which is not permitted"
            return Response(502, text, "text/plain; charset=utf-8")
        return _answer(request, received, headers[AUDIT_ID], decompresses=decompresses)

    async def _send(
        self, backend: Backend, place: _Place, method: str, target: str, headers: Headers, body: bytes
    ) -> aiohttp.ClientResponse:
        return await self._connections.session.request(
            method,
            URL(f"https://{place.host}{target}", encoded=True),
            data=body or None,
            headers=headers,
            allow_redirects=False,
            ssl=place.context,
            server_hostname=backend.service.host,
            skip_auto_headers=_OWN_HEADERS,
        )

    async def fetch(self, backend: Backend, path: str, user: User, more: Mapping[str, str]) -> Fetched:
        """Return the answer of a server to a GET of a user of this server, with more headers. Raises CallError."""
        try:
            place = self._place(backend, insecure=backend.insecure)
        except ssl.SSLError:
            raise CallError(NO_CERTIFICATES) from None
        headers = Headers([("Host", place.host), *more.items(), *user_headers(user, tells_uid=False)])
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                received = await self._send(backend, place, "GET", path, headers, b"")
                return Fetched(received.status, received.headers, await received.read())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise CallError(f"error trying to reach service: {error or type(error).__name__}") from None

    async def check(self, backend: Backend, path: str, *, verifies: bool) -> str:
        """Return the reason that a server does not answer at the path of its group-version, "" for one that does.

        verifies  whether its certificate counts
        """
        try:
            place = self._place(backend, insecure=backend.insecure or not verifies)
        except CallError as error:
            return str(error)
        url = f"https://{place.host}{path}"
        headers = Headers([("Host", place.host), ("User-Agent", "Go-http-client/1.1"), ("Accept-Encoding", "gzip")])
        headers.extend(user_headers(AGGREGATOR, tells_uid=False))
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                received = await self._send(backend, place, "GET", path, headers, b"")
        except TimeoutError:
            text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            why = f"Get {go_quote(url)}: {text}"
        except aiohttp.ClientError as error:
            text = await failure_text(error, place.address, place.port, backend.service.host)
            why = f"Get {go_quote(url)}: {text}"
        else:
            received.release()
            if 200 <= received.status < 300:
                return ""
            why = f"bad status from {url}: {received.status}"
        return f"failing or missing response from {url}: {why}"


def _error(status: int, text: str) -> Response:
    return text_response(status, f"{text}\n")


def _encoded(query: Query) -> str:
    """Return a query in the order of its names, as Go writes it (`url.Values.Encode`)."""
    pairs = ((name, value) for name in sorted(query) for value in query.all(name))
    return "&".join(f"{_escaped(name)}={_escaped(value)}" for name, value in pairs)


def _escaped(text: str) -> str:
    return quote_plus(text, errors="surrogateescape")


def _answer(request: Request, received: aiohttp.ClientResponse, audit_id: str, *, decompresses: bool) -> Response:
    """Return the answer that passes on another one, of which only the head has come."""
    headers = answered_headers(received.headers)
    is_gzipped = decompresses and headers.get("Content-Encoding", "").lower() == "gzip"
    if is_gzipped:
        del headers["Content-Encoding"]
        headers.popall("Content-Length", None)
    seconds = None if request.deadline == inf else request.seconds_left()
    sender = _Sender(received, is_gzipped=is_gzipped, seconds=seconds)
    return StreamedResponse(
        received.status, received.content_type, [*own_headers(request, audit_id), *headers.items()], sender
    )


class _Sender:
    """Sends an answer as it comes from an aggregated server, within some seconds if it is no watch."""

    def __init__(self, received: aiohttp.ClientResponse, *, is_gzipped: bool, seconds: float | None) -> None:
        self._received = received
        self._is_gzipped = is_gzipped
        self._seconds = seconds

    async def __call__(self, exchange: Exchange, headers: CIMultiDict[str]) -> None:
        """Send the answer; reset the connection if it does not come to its end."""
        received = self._received
        try:
            async with asyncio.timeout(self._seconds):
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
