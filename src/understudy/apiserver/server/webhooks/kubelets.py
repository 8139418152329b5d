"""Asks kubelets for logs, relays connections of commands and ports, and proxies requests to pods, services and nodes.

Upstream: `LocationStreamer`, `UpgradeAwareHandler`, and the `Transport` of proxied pages.

A server that asks none imports no HTTP client.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from understudy.admission.webhooks import Caller, CallError, text_of_code
from understudy.apiserver.endpoints.kubelets import Location
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.streamed import StreamedResponse
from understudy.apiserver.server.webhooks.aggregation.headers import (
    add_source,
    audit_id_of,
    canonical_name,
    end_hop,
    own_headers,
)
from understudy.apiserver.server.webhooks.certificates import client_context
from understudy.apiserver.server.webhooks.egress.dialing import DIAL, Dial
from understudy.machinery import errors
from understudy.machinery.types import NamedTuple, Obj

if TYPE_CHECKING:
    import aiohttp

    from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade
    from understudy.apiserver.server.webhooks.exchange import Connections

_LONGEST_ERROR = 50_000  # bytes of an answer that an error quotes
_AGENT = "Go-http-client/1.1"
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class KubeletTLS(NamedTuple):
    """The client certificate and its key that kubelets are shown, and the authorities of theirs (PEM)."""

    certificate: bytes | None = None
    key: bytes | None = None
    authorities: bytes | None = None


class Kubelets:
    """Asks kubelets over HTTPS, and what listens at nodes, pods and services. See `KubeletClient`.

    dial  connects to them through a proxy, None to connect to them directly
    """

    def __init__(
        self,
        tls: KubeletTLS,
        address_types: Sequence[str],
        service_addresses: Mapping[str, tuple[str, int]],
        dial: Dial | None = None,
    ) -> None:
        self.address_types = address_types
        self.service_addresses = service_addresses
        self._tls = tls
        self._dial_through = dial
        self._connections: Connections | None = None
        self._forwarding: Connections | None = None

    async def close(self) -> None:
        """End all connections to kubelets."""
        kept = self._connections, self._forwarding
        self._connections = self._forwarding = None
        for connections in filter(None, kept):
            await connections.close()

    def _context(self, location: Location, *, insecure: bool = False) -> ssl.SSLContext | None:
        """Return the context of connections, None without TLS."""
        if location.scheme == "http":
            return None
        host, (certificate, key, authorities) = location.host, self._tls if location.is_kubelet else KubeletTLS()
        verifies = authorities is not None and not insecure
        bundle = base64.b64encode(authorities).decode() if authorities is not None and verifies else ""
        caller = Caller("", insecure=not verifies, certificate=certificate, key=key)
        return client_context(bundle, host, ("http/1.1",), caller)

    async def log(self, location: Location, request: Request, *, insecure: bool) -> Response:
        received = await self._get(location, insecure=insecure)
        if not 200 <= received.status <= 206:
            raise await _refusal(received, request.info.name)
        headers = [*own_headers(request, audit_id_of(request)), ("Content-Type", "text/plain")]
        return StreamedResponse(200, "text/plain", headers, _LogSender(received))

    async def _get(self, location: Location, *, insecure: bool) -> aiohttp.ClientResponse:
        """Return the answer of a kubelet to a GET, its body yet to be read. Raises CallError."""
        import aiohttp
        from yarl import URL

        from understudy.apiserver.server.webhooks.exchange import Connections, failure_text

        if self._connections is None:
            self._connections = Connections(dial=self._dial_through)
        try:
            received = await self._connections.session.get(
                URL(location.url, encoded=True),
                headers={"User-Agent": _AGENT, "Accept-Encoding": "gzip"},
                allow_redirects=False,
                ssl=self._context(location, insecure=insecure) or False,
                server_hostname=location.host,
                skip_auto_headers=("Accept",),
                timeout=aiohttp.ClientTimeout(sock_connect=DIAL),
            )
        except aiohttp.ClientError as error:
            why = await failure_text(error, location.host, location.port, location.host, self._dial_through)
            raise CallError(f'Get "{location.url}": {why}') from None
        if 300 <= received.status <= 399 and (target := received.headers.get("Location")):
            received.close()
            raise CallError(f'Get "{target}": redirects forbidden')
        return received

    async def connect(self, location: Location, request: Request) -> Response:
        return await (await self._dial(location)).ask(request.method, location.target, _passed_on(request))

    async def _dial(self, location: Location) -> Upgrade:
        """Return a new connection, on which another protocol is asked for. Raises CallError."""
        from understudy.apiserver.server.webhooks.aggregation.upgrade import Upgrade

        server = location.host, location.port, location.host, self._context(location)
        return await Upgrade.dial(*server, self._dial_through)

    async def translate(self, location: Location, request: Request, options: Obj) -> Response:
        from understudy.apiserver.server.webhooks.aggregation.websockets import Translation
        from understudy.apiserver.server.webhooks.streams.remotecommand import StreamOptions

        asked_for = StreamOptions(*(bool(options.get(name)) for name in StreamOptions._fields))
        send = Translation(partial(self._dial, location), location, asked_for, _AGENT, request.release)
        return StreamedResponse(101, "", [], send)

    async def tunnel(self, location: Location, request: Request) -> Response:
        from understudy.apiserver.server.webhooks.aggregation.websockets import Tunnel, tunneled_headers

        headers = tunneled_headers(_passed_on(request))
        return await (await self._dial(location)).ask("POST", location.target, headers, Tunnel)

    async def forward(self, location: Location, request: Request, prefix: str) -> Response:
        from understudy.apiserver.server.webhooks.aggregation.forwarding import Place, forward, passed_on
        from understudy.apiserver.server.webhooks.exchange import Connections
        from understudy.apiserver.server.webhooks.links import Links, rewrite_page

        if self._forwarding is None:
            self._forwarding = Connections(decompresses=False, dial=self._dial_through)
        headers = _passed_on(request)
        if "User-Agent" not in request.headers:
            del headers["User-Agent"]
        path = location.target.partition("?")[0]
        end_hop(headers, f"{prefix}{path}")
        for name in ("Content-Length", "Expect"):
            headers.popall(name, None)
        place = Place(location.host, location.port, self._context(location), location.host)
        received = await forward(self._forwarding, place, request, location.target, headers)
        links = Links(prefix, {place.host, headers.get("Host", "")})
        if redirect := received.headers.get("Location"):
            received.headers["Location"] = links.rewrite(redirect)
            return passed_on(request, received, audit_id_of(request))
        encoding = received.headers.get("Content-Encoding", "")
        is_page = received.response.content_type == "text/html" and encoding in ("", "gzip", "deflate")
        rewrite = partial(rewrite_page, links, encoding) if is_page else None
        return passed_on(request, received, audit_id_of(request), rewrite)


def _passed_on(request: Request) -> CIMultiDict[str]:
    """Return the headers of a request that a kubelet gets: all but the credentials, with the address it came from."""
    headers = CIMultiDict((canonical_name(name), value) for name, value in request.headers_to_pass_on())
    headers.setdefault("User-Agent", _AGENT)
    add_source(headers, request)
    return headers


async def _refusal(received: aiohttp.ClientResponse, name: str) -> errors.StatusError:
    """Return the error for what a kubelet answers instead of a log (`GenericHttpResponseChecker`)."""
    text = (await received.content.read(_LONGEST_ERROR)).decode("utf-8", "replace")
    received.close()
    match received.status:
        case 500:
            return errors.internal_error(text)
        case 400:
            return errors.bad_request(text)
        case status:
            message = f"{text_of_code(status, text)} ( pods/log {name})"
            reason = _REASONS.get(status, "InternalError" if status > 500 else "")
            return errors.StatusError(status, reason, message, {"name": name, "kind": "pods/log"})


class _LogSender:
    """Sends a log as it comes."""

    def __init__(self, received: aiohttp.ClientResponse) -> None:
        self._received = received

    async def __call__(self, exchange: Exchange, headers: CIMultiDict[str]) -> None:
        """Send the log; one that breaks off ends like any other."""
        import aiohttp

        try:
            await exchange.begin(200, headers)
            with suppress(aiohttp.ClientError):
                async for part in self._received.content.iter_any():
                    await exchange.send_chunk(part)
            await exchange.end()
        finally:
            self._received.close()
