"""Calls of webhooks over HTTPS, with Go's texts for what goes wrong (net/http, net, crypto/tls).

The texts are part of the answers of kube-apiserver, which quotes them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from ipaddress import ip_address
from typing import TYPE_CHECKING
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType, Connection
from multidict import CIMultiDict
from yarl import URL

from understudy.admission.webhooks import Call, Caller, CallError, Reply, Target
from understudy.apiserver.server.http1.ends import LentSocket, end_connections
from understudy.apiserver.server.webhooks.certificates import CertificateCounts, load_client_context, verification_error
from understudy.apiserver.server.webhooks.egress.dialing import Dial, DialError, joined, os_reason, place
from understudy.apiserver.server.webhooks.exec_credentials import ExecCredentials
from understudy.apiserver.server.webhooks.http2_connections import ALPN, Http2Connections
from understudy.apiserver.server.webhooks.http2_errors import Http2Error, NotProcessedError
from understudy.apiserver.server.webhooks.services import Address, ServiceResolver
from understudy.machinery.auth.exec_credential import CredentialsError
from understudy.machinery.golang.text import go_quote
from understudy.machinery.golang.times import duration_text
from understudy.machinery.golang.x509.deprecated import Deprecated
from understudy.machinery.util.regex import regex

if TYPE_CHECKING:
    from understudy.apiserver.server.webhooks.http2 import Http2Response

_HEADERS = {"Accept": "application/json, */*", "Accept-Encoding": "gzip"}
_REDIRECTS = 10
_RETRIES = 10  # further calls after answers with Retry-After
_HTTPS = 443
_QUOTED_LINE = regex(r"b'(.*)'")  # in aiohttp's message about an answer that is no HTTP


class _ProxyConnector(aiohttp.BaseConnector):
    """Connections through a proxy."""

    def __init__(self, dial: Dial) -> None:
        super().__init__(limit=0)
        self._dial = dial

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: object, timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """Return a new connection for a request, as `TCPConnector` makes it. Raises aiohttp.ClientError."""
        host, context = req.url.host or "", req.ssl if isinstance(req.ssl, ssl.SSLContext) else None
        try:
            connected = await self._dial(host, req.url.port or _HTTPS)
            name = None if context is None else req.server_hostname or host
            _, made = await self._loop.create_connection(
                self._factory, sock=connected, ssl=context, server_hostname=name
            )
        except DialError as error:
            raise _NotDialledError(str(error)) from None
        except ssl.CertificateError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from None
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from None
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from None
        return made


class _NotDialledError(aiohttp.ClientConnectionError):
    """No connection through a proxy. The text is Go's."""


class _Request(aiohttp.ClientRequest):
    """A request in which DELETE without a body has no `Content-Length`, as Go sends it."""

    GET_METHODS = aiohttp.ClientRequest.GET_METHODS | {"DELETE"}


class _Response(aiohttp.ClientResponse):
    """An answer that knows the connection of TLS it came over.

    tls  None without TLS
    """

    tls: ssl.SSLObject | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Receive the head of the answer."""
        if connection.transport is not None:
            self.tls = connection.transport.get_extra_info("ssl_object")
        return await super().start(connection)


class Connections:
    """Connections to other servers, which are kept. There are no limits, neither of time nor of number.

    decompresses  whether bodies over HTTP/1.1 are read without their compression
    dial          connects to servers through a proxy, None to connect to them directly
    certificates  count those that are deprecated, None where nobody wants to know
    """

    def __init__(
        self,
        *,
        decompresses: bool = True,
        dial: Dial | None = None,
        certificates: CertificateCounts | None = None,
    ) -> None:
        self._sockets = WeakSet[LentSocket]()
        self.certificates = certificates
        self.dial = dial
        self.http2 = Http2Connections(dial)
        self.session = aiohttp.ClientSession(
            connector=self._new_connector() if dial is None else _ProxyConnector(dial),
            timeout=aiohttp.ClientTimeout(),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=_Request,
            response_class=_Response,
            auto_decompress=decompresses,
        )

    def _new_connector(self) -> aiohttp.BaseConnector:
        return aiohttp.TCPConnector(limit=0, socket_factory=self._new_socket)

    def _new_socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = LentSocket(family, kind, protocol)
        self._sockets.add(made)
        return made

    def count_error(self, error: str) -> Deprecated | None:
        """Count a certificate that is deprecated, from Go's words for why it could not be verified; return how it is
        deprecated."""
        return None if self.certificates is None else self.certificates.count_error(error)

    def count_answer(self, answer: aiohttp.ClientResponse) -> list[Deprecated]:
        """Count a certificate that is deprecated and was not verified; return how it is deprecated."""
        if self.certificates is None or not isinstance(answer, _Response):
            return []
        return self.certificates.count_answer(answer.tls)

    async def close(self) -> None:
        """Close all connections for good."""
        await self.session.close()
        await end_connections([*self._sockets, *self.http2.made])


class OutgoingCall:
    """One call: its requests, which are several after redirects and after answers with Retry-After.

    credentials  those that a command prints, for a caller who has no others
    """

    def __init__(
        self,
        connections: Connections,
        services: ServiceResolver,
        call: Call,
        credentials: ExecCredentials | None = None,
    ) -> None:
        self._connections = connections
        self._services = services
        self._call = call
        self._credentials = credentials
        self._url = self._first = URL(call.target.url).with_query(timeout=duration_text(round(call.announced * 1e9)))
        self._may_be_http2 = is_on_this_machine(call.target)

    def error(self, text: str) -> CallError:
        """Return the error of a request that has no answer (`url.Error`)."""
        return CallError(f"Post {go_quote(self._url_text())}: {text}")

    def _url_text(self) -> str:
        """Return the URL as it was written: a default port is kept."""
        url = self._url
        return f"{url.scheme}://{joined(url.host or '', url.explicit_port)}{url.raw_path_qs}"

    async def run(self) -> Reply:
        """Return the final answer. Raises CallError."""
        for _ in range(_RETRIES):
            reply, retry_after = await self._follow()
            if retry_after is None:
                return reply
            await asyncio.sleep(retry_after)
        return (await self._follow())[0]

    async def _follow(self) -> tuple[Reply, int | None]:
        """Return the answer behind redirects, and the seconds after which to ask again, None to be content with it.

        After 301, 302 and 303 the other place is asked by a GET without a body, as Go's client does.
        """
        self._url, method, referer = self._first, "POST", ""
        for _ in range(_REDIRECTS):
            async with await self._send(method, referer) as response:
                location = response.headers.get("Location")
                if response.status not in (301, 302, 303, 307, 308) or not location:
                    return await _read(response), _retry_after(response)
                if response.status in (301, 302, 303):
                    method = "GET"
            referer, self._url = self._url_text(), self._url.join(URL(location))
        raise self.error("stopped after 10 redirects")

    async def _send(self, method: str, referer: str) -> aiohttp.ClientResponse | Http2Response:
        """Send a request as its caller, and return the answer, its body yet to be read. Raises CallError."""
        if self._credentials is None:
            return await self._send_as(self._call.caller, method, referer)
        try:
            shown = await self._credentials.get()
        except CredentialsError as error:
            raise self.error(f"getting credentials: {error}") from None
        token, certificate, key, _ = shown
        caller = self._call.caller._replace(token=token, certificate=certificate, key=key)
        answer = await self._send_as(caller, method, referer)
        if answer.status == 401:
            await self._credentials.refresh(shown)
        return answer

    async def _send_as(self, caller: Caller, method: str, referer: str) -> aiohttp.ClientResponse | Http2Response:
        """Send a request with the credentials of a caller. Raises CallError."""
        host = joined(self._url.host or "", self._url.explicit_port)
        agent = caller.agent or "Go-http-client/1.1"
        headers = CIMultiDict({**_HEADERS, "User-Agent": agent, "Host": host})
        if caller.token:
            headers["Authorization"] = f"Bearer {caller.token}"
        if caller.password:
            headers["Authorization"] = f"Basic {b64encode(caller.password.encode()).decode()}"
        headers.extend(caller.impersonation)
        headers.extend(self._call.headers)
        body = b""
        if method == "POST":
            headers["Content-Type"], body = "application/json", self._call.body
        if referer:
            headers["Referer"] = referer
        if self._may_be_http2 and self._url.scheme == "https":
            try:
                answer = await self._send_http2(caller, method, headers, body)
            except Http2Error as error:
                raise self.error(str(error)) from None
            if answer is not None:
                return answer
        return await self._send_http1(caller, method, headers, body)

    async def _send_http2(
        self, caller: Caller, method: str, headers: CIMultiDict[str], body: bytes
    ) -> Http2Response | None:
        """Send a request over HTTP/2 and return the answer; None if the server does not speak it. Raises Http2Error.

        What the server did not look at is sent again: immediately on another connection, and on the same one
        immediately and then after 1, 2, 4… seconds (`http2.Transport.RoundTripOpt`).
        """
        host, last, wait = self._url.host or "", None, 0.0
        headers = headers.copy()
        headers["User-Agent"] = caller.agent or "Go-http-client/2.0"
        context = await self._context(host, ALPN, caller)
        while True:
            try:
                connection = await self._connections.http2.find(host, self._url.port or _HTTPS, context)
            except DialError as error:
                raise self.error(str(error)) from None
            except OSError:
                return None  # HTTP/1.1 tells why
            if connection is None:
                return None
            if connection is not last:
                last, wait = connection, 0.5
            try:
                answer = await connection.request(method, headers["Host"] + self._url.raw_path_qs, headers, body)
            except NotProcessedError:
                await asyncio.sleep(int(wait))
                wait *= 2
            else:
                if self._connections.certificates is not None:
                    self._connections.certificates.count_answer(connection.tls)
                return answer

    async def _send_http1(
        self, caller: Caller, method: str, headers: CIMultiDict[str], body: bytes
    ) -> aiohttp.ClientResponse:
        """Send a request over HTTP/1.1 and return the answer. Raises CallError."""
        host, port = self._url.host or "", self._url.port or _HTTPS
        address, address_port = self._address(host, port)
        context = await self._context(host, ("http/1.1",), caller)
        try:
            answer = await self._connections.session.request(
                method,
                self._url.with_host(address).with_port(address_port),
                data=body or None,
                headers=headers,
                allow_redirects=False,
                ssl=context,
                server_hostname=host,
            )
        except aiohttp.ClientError as error:
            why = await failure_text(error, address, address_port, host, self._connections.dial, context)
            self._connections.count_error(why)
            raise self.error(why) from None
        self._connections.count_answer(answer)
        return answer

    async def _context(self, host: str, protocols: tuple[str, ...], caller: Caller) -> ssl.SSLContext:
        """Return the context of connections to a host: the same one for all callers that show the same certificate."""
        shown = Caller("", insecure=caller.insecure, certificate=caller.certificate, key=caller.key)
        return await load_client_context(self._call.target.ca_bundle, host, protocols, shown)

    def _address(self, host: str, port: int) -> Address:
        """Return the address to dial for a host. Raises CallError for a Service without one."""
        service = self._call.target.service
        if service is None or (host, port) != (service.host, service.port):
            return host, port
        try:
            return self._services.resolve(service)
        except CallError as error:
            raise self.error(str(error)) from None


async def failure_text(
    error: aiohttp.ClientError,
    address: str,
    port: int,
    name: str,
    dial: Dial | None = None,
    context: ssl.SSLContext | None = None,
) -> str:
    """Return Go's words for a request over HTTP/1.1 to an address that failed.

    name     of the server
    context  that of the connection, None without TLS
    """
    match error:
        case _NotDialledError():
            return str(error)
        case aiohttp.ClientConnectorCertificateError():
            why = await verification_error(await place(dial, address, port), name, context)
            return f"tls: failed to verify certificate: x509: {why}"
        case aiohttp.ConnectionTimeoutError():
            return f"dial tcp {joined(address, port)}: i/o timeout"
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {address}: no such host"
        case aiohttp.ClientConnectorSSLError():
            return "http: server gave HTTP response to HTTPS client"
        case aiohttp.ClientConnectorError():
            return f"dial tcp {joined(address, port)}: connect: {os_reason(error.os_error)}"
        case aiohttp.ClientResponseError():
            line = _QUOTED_LINE.search(error.message)
            response = go_quote(line[1] if line else error.message)
            return f"net/http: HTTP/1.x transport connection broken: malformed HTTP response {response}"
        case aiohttp.ClientOSError():
            return f"read tcp {joined(address, port)}: read: {os_reason(error)}"
        case _:
            return "EOF"


async def _read(response: aiohttp.ClientResponse | Http2Response) -> Reply:
    try:
        body = await response.read()
    except (aiohttp.ClientError, Http2Error) as error:
        why, begin = "unexpected EOF", "unexpected error when reading response body."
        if isinstance(error, Http2Error):
            why = str(error)
            if why.startswith("stream error"):
                begin = "stream error when reading response body, may be caused by closed connection."
        raise CallError(f"{begin} Please retry. Original error: {why}") from None
    return Reply(response.status, response.headers.get("Content-Type", ""), body)


def _retry_after(response: aiohttp.ClientResponse | Http2Response) -> int | None:
    """Return the seconds after which an overloaded or broken server wants to be asked again, None if it does not."""
    seconds = response.headers.get("Retry-After", "")
    busy = response.status == 429 or response.status >= 500
    return int(seconds) if busy and seconds.isascii() and seconds.isdigit() else None


def is_on_this_machine(target: Target) -> bool:
    """Report whether a webhook is asked at an address of this machine, and by no Service. Upstream: `isLocalHost`."""
    host = URL(target.url).host or ""
    if target.service is not None:
        return False
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
