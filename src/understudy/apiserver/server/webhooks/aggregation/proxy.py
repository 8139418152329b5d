"""Passes requests on to aggregated API servers. Upstream: `proxyHandler` of kube-aggregator.

An answer is passed on as it comes, so that watches need nothing special. Bodies of requests are read before.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

import aiohttp
from multidict import CIMultiDictProxy

from understudy.admission.webhooks import Caller, CallError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import text_response
from understudy.apiserver.server.webhooks.aggregation.backends import UNAVAILABLE, Backend
from understudy.apiserver.server.webhooks.aggregation.forwarding import Place, forward, passed_on, send
from understudy.apiserver.server.webhooks.aggregation.headers import (
    AUDIT_ID,
    Headers,
    forwarded_headers,
    upgrade_headers,
    user_headers,
)
from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade
from understudy.apiserver.server.webhooks.certificates import client_context
from understudy.apiserver.server.webhooks.exchange import Connections, failure_text
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.auth.users import MASTERS, User
from understudy.machinery.golang.text import go_quote
from understudy.machinery.options import Query
from understudy.machinery.types import NamedTuple

NO_CERTIFICATES = "unable to load root certificates: unable to parse bytes as PEM block"
PATH_CHARACTERS = "/:@&=+$,;~!*'()"  # that Go leaves as they are in a path
AGGREGATOR = User("system:kube-aggregator", [MASTERS])  # who asks whether a server is there
CHECK_SECONDS = 5.0


class Identity(NamedTuple):
    """The front proxy's client certificate and its key (PEM), None without one."""

    certificate: bytes | None = None
    key: bytes | None = None


class Fetched(NamedTuple):
    """The answer to a request of the server itself."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Proxy:
    """Asks aggregated servers. `tells_uid` is whether they learn the uid of a user."""

    def __init__(
        self, services: ServiceResolver, identity: Identity, connections: Connections, *, tells_uid: bool
    ) -> None:
        self._services = services
        self._identity = identity
        self._tells_uid = tells_uid
        self._connections = connections

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
                server = place.address, place.port, backend.service.host, place.context
                connection = await Upgrade.dial(*server, self._connections.dial)
                headers = upgrade_headers(request, place.host, tells_uid=self._tells_uid)
                return await connection.ask(request.method, target, headers)
            headers = forwarded_headers(request, path, place.host, tells_uid=self._tells_uid)
            return await self._asked(place, request, target, headers)
        except CallError as error:
            return _error(503, str(error))

    def _place(self, backend: Backend, *, insecure: bool) -> Place:
        """Return the place of a server. Raises CallError, ssl.SSLError for authorities that are none."""
        address, port = self._services.resolve(backend.service)
        caller = Caller("", insecure=insecure, certificate=self._identity.certificate, key=self._identity.key)
        bundle = "" if insecure else backend.ca_bundle
        context = client_context(bundle, backend.service.host, ("http/1.1",), caller)
        return Place(address, port, context, backend.service.host)

    async def _asked(self, place: Place, request: Request, target: str, headers: Headers) -> Response:
        """Return the answer to a request that is passed on. Raises CallError."""
        received = await forward(self._connections, place, request, target, headers)
        if 300 <= received.status <= 399 and received.headers.get("Location"):
            received.close()
            text = b"the backend attempted to redirect this request, which is not permitted"
            return Response(502, text, "text/plain; charset=utf-8")
        return passed_on(request, received, headers[AUDIT_ID])

    async def fetch(
        self, backend: Backend, path: str, user: User, more: Mapping[str, str], seconds: float = CHECK_SECONDS
    ) -> Fetched:
        """Return the answer of a server to a GET of a user of this server, with more headers. Raises CallError."""
        try:
            place = self._place(backend, insecure=backend.insecure)
        except ssl.SSLError:
            raise CallError(NO_CERTIFICATES) from None
        headers = Headers([("Host", place.host), *more.items(), *user_headers(user, tells_uid=False)])
        try:
            async with asyncio.timeout(seconds):
                received = await send(self._connections, place, "GET", path, headers, b"")
                self._connections.count_answer(received)
                return Fetched(received.status, received.headers, await received.read())
        except aiohttp.ClientConnectorCertificateError as error:
            server = place.address, place.port, place.name, self._connections.dial, place.context
            why = await failure_text(error, *server)
            self._connections.count_error(why)
            raise CallError(f"error trying to reach service: {why}") from None
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
                received = await send(self._connections, place, "GET", path, headers, b"")
        except TimeoutError:
            text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            why = f"Get {go_quote(url)}: {text}"
        except aiohttp.ClientError as error:
            server = place.address, place.port, backend.service.host, self._connections.dial
            text = await failure_text(error, *server)
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
