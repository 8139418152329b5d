"""Connections to other servers through proxies that are asked by CONNECT.

    server ── Unix socket, TCP or TLS ── proxy ── another server
    └─ a pair of sockets, on whose end TLS to the other server is spoken like on a connection that was dialled

Upstream: `EgressSelector`, `tunnelHTTPConnect` (k8s.io/apiserver/pkg/server/egressselector), with their error texts.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from understudy.admission.webhooks import Caller
from understudy.apiserver.authentication.oidc.downloads import Connect
from understudy.apiserver.server.http1.ends import LentSocket, end_connections
from understudy.apiserver.server.webhooks.certificates import load_client_context, verification_error
from understudy.apiserver.server.webhooks.egress.dialing import (
    CLUSTER,
    CONTROL_PLANE,
    NO_TLS,
    Dial,
    DialError,
    Proxy,
    ProxyTLS,
    joined,
    os_reason,
)
from understudy.apiserver.server.webhooks.egress.metrics import PROXY, DialMetrics
from understudy.apiserver.server.webhooks.streams.stream import close_writer
from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.regex import regex

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PORTION = 64 * 1024  # bytes that are passed on at once
_LONGEST_HEAD = 1 << 20  # bytes
_STATUS = regex(r"HTTP/\d\.\d ((\d{3})( .*)?)")


class Egress:
    """The connections of a server to others, by networks: through proxies, or none.

    metrics  count them
    """

    def __init__(self, proxies: Mapping[str, Proxy | None]) -> None:
        self.metrics = DialMetrics()
        reached = ((network, proxy) for network, proxy in proxies.items() if proxy is not None)
        self._tunnels = {network: Tunnels(proxy, self.metrics) for network, proxy in reached}

    @property
    def cluster(self) -> Dial | None:
        """Return the way to kubelets, pods, and servers behind Services, None without a proxy."""
        return self._tunnels.get(CLUSTER)

    @property
    def control_plane(self) -> Dial | None:
        """Return the way to servers that are named by URLs, None without a proxy."""
        return self._tunnels.get(CONTROL_PLANE)

    def of_threads(self, network: str) -> Connect | None:
        """Return the way to servers of a network for threads, None without a proxy."""
        tunnels = self._tunnels.get(network)
        return None if tunnels is None else tunnels.connect

    def open(self) -> None:
        """Let threads connect by the running event loop."""
        for tunnels in self._tunnels.values():
            tunnels.loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """End all connections."""
        for tunnels in self._tunnels.values():
            await tunnels.close()


class Tunnels:
    """Connections through one proxy. See `Dial`.

    loop  makes the connections of threads
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self, proxy: Proxy, metrics: DialMetrics) -> None:
        self._proxy = proxy
        self._metrics = metrics
        self._relays: set[asyncio.Task[None]] = set()
        self._sockets = WeakSet[LentSocket]()

    async def __call__(self, host: str, port: int) -> socket.socket:
        outer = await self._dial(joined(host, port))
        try:
            own, given = map(self._lent, socket.socketpair())
            inner = await asyncio.open_connection(sock=own)
        except BaseException:
            await close_writer(outer[1])
            raise
        relay = asyncio.create_task(_relay(outer, inner))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)
        return given

    async def _dial(self, address: str) -> Streams:
        """Return a connection to the proxy that it passes on to an address. Raises DialError."""
        count = self._metrics.start(self._proxy)
        try:
            outer = await self._connect()
            count.stage = PROXY
            try:
                await self._ask(outer, address)
            except BaseException:
                await close_writer(outer[1])
                raise
        except BaseException:
            count.fail()
            raise
        count.succeed()
        return outer

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        """Return a connection to a host and a port, in a thread. Raises OSError."""
        dialled = asyncio.run_coroutine_threadsafe(self(host, port), self.loop)
        try:
            connected = socket.socket(fileno=dialled.result(seconds).detach())
        except CancelledError:
            raise DialError("the server ends") from None
        finally:
            dialled.cancel()
        connected.settimeout(seconds)
        return connected

    async def close(self) -> None:
        """End all connections."""
        relays = [*self._relays]
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)
        await end_connections([*self._sockets])

    def _lent(self, made: socket.socket) -> LentSocket:
        """Return a socket for the event loop, which is ended with the others."""
        lent = LentSocket(made.family, made.type, made.proto, made.detach())
        lent.setblocking(False)
        self._sockets.add(lent)
        return lent

    async def _connected(self) -> LentSocket:
        """Return a socket that is connected to the proxy. Raises OSError."""
        loop, proxy = asyncio.get_running_loop(), self._proxy
        if proxy.path:
            places: list[Any] = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", proxy.path)]
        else:
            places = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        *others, last = places
        for place in others:
            with suppress(OSError):
                return await self._connected_to(place)
        return await self._connected_to(last)

    async def _connected_to(self, place: tuple[Any, ...]) -> LentSocket:
        """Return a socket that is connected to a place, as `getaddrinfo` returns it. Raises OSError."""
        family, kind, protocol, _, address = place
        made = self._lent(socket.socket(family, kind, protocol))
        try:
            await asyncio.get_running_loop().sock_connect(made, address)
        except BaseException:
            made.close()
            raise
        return made

    async def _connect(self) -> Streams:
        """Return a connection to the proxy. Raises DialError."""
        proxy = self._proxy
        if not (proxy.path or proxy.port):
            raise DialError(f"dial tcp: address {proxy.address}: missing port in address")
        name = None if proxy.tls is None else proxy.tls.name
        try:
            context = None if proxy.tls is None else await _context(proxy.tls)
            made = await self._connected()
            return await asyncio.open_connection(limit=_LONGEST_HEAD, sock=made, ssl=context, server_hostname=name)
        except ssl.SSLCertVerificationError:
            why = await verification_error({"host": proxy.host, "port": proxy.port}, name or "")
            raise DialError(f"tls: failed to verify certificate: x509: {why}") from None
        except ssl.SSLError:
            raise DialError(NO_TLS) from None
        except socket.gaierror:
            raise DialError(f"dial tcp: lookup {proxy.host}: no such host") from None
        except OSError as error:
            network = f"unix {proxy.path}" if proxy.path else f"tcp {proxy.address}"
            raise DialError(f"dial {network}: connect: {os_reason(error)}") from None

    async def _ask(self, streams: Streams, address: str) -> None:
        """Ask the proxy for a connection to an address. Raises DialError (`tunnelHTTPConnect`)."""
        reader, writer = streams
        writer.write(f"CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        try:
            line = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0].decode("latin-1")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            raise self._no_answer(address, "unexpected EOF") from None
        status = _STATUS.fullmatch(line)
        if status is None:
            raise self._no_answer(address, f"malformed HTTP response {go_quote(line)}")
        if status[2] != "200":
            why = f"code {status[2]}: {status[1]}"
            raise DialError(f"proxy error from {self._proxy.name} while dialing {address}, {why}")

    def _no_answer(self, address: str, why: str) -> DialError:
        via = f"CONNECT to {address} via proxy {self._proxy.name}"
        return DialError(f"reading HTTP response from {via} failed: {why}")


async def _context(tls: ProxyTLS) -> ssl.SSLContext:
    """Return the context of connections to a proxy."""
    bundle = "" if tls.authorities is None else base64.b64encode(tls.authorities).decode()
    return await load_client_context(bundle, tls.name, (), Caller("", certificate=tls.certificate, key=tls.key))


async def _relay(one: Streams, other: Streams) -> None:
    """Pass on what comes on one connection to the other, both ways, until one of them ends."""
    pumps = [asyncio.create_task(_pump(one[0], other[1])), asyncio.create_task(_pump(other[0], one[1]))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await close_writer(one[1])
        await close_writer(other[1])


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PORTION):
        writer.write(data)
        await writer.drain()
