"""Listens on a socket and serves HTTP on every connection: one handler, no router, no middleware.

Over TLS, connections are looked at before the handshake: who speaks plain HTTP is told so, as Go's server does. Who
agrees to HTTP/2 there speaks that, all others speak HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.http.handler import give_up, handler
from understudy.apiserver.server.http.watch_stream import Pumps
from understudy.apiserver.server.http1.protocol import HTTPServer

if TYPE_CHECKING:
    from understudy.apiserver.server.http.tracing.tracing import Tracing
    from understudy.apiserver.server.http2.connection import Http2Server

log = logging.getLogger("understudy")

# The first bytes of a connection that speaks plain HTTP (crypto/tls: `tlsRecordHeaderLooksLikeHTTP`), and Go's answer.
HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
HTTP_TO_HTTPS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
HTTP2 = "h2"  # its name in a handshake (ALPN)
HANDSHAKE = 32.0  # seconds that a client may take until the handshake is done
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RETRY = 0.005  # seconds before the next connection is accepted after one that could not be; Go begins with as many
GRACE = 0.5  # seconds that requests get to finish when the server stops
BACKLOG = socket.SOMAXCONN  # connections that may wait to be accepted; Go asks for as many as the system allows


class Listener:
    """Serves a director on one listening socket.

    asks_for_certificates  whether the connections of `context` ask clients for certificates
    most_streams           requests at once on a connection of HTTP/2, to which clients of `context` may agree
    tracing                tells of requests, if anybody wants to know
    goaway_chance          the share of requests there behind which the client is to connect anew
    handle                 answers a request, on whatever connection it came
    """

    def __init__(
        self,
        director: Director,
        sock: socket.socket,
        context: ssl.SSLContext | None,
        *,
        asks_for_certificates: bool = False,
        most_streams: int = 0,
        goaway_chance: float = 0.0,
        tracing: Tracing | None = None,
    ) -> None:
        self._director = director
        self._pumps = Pumps(director.clock)
        self._version = director.state.release.version
        answer = director if tracing is None else tracing.directed(director)
        handle = handler(answer, self._pumps, self._version, asks_for_certificates=asks_for_certificates)
        self.handle = handle if tracing is None else tracing.around(handle)
        self._server = HTTPServer(self.handle, give_up)
        self._most_streams = most_streams
        self._goaway_chance = goaway_chance
        self._http2: Http2Server | None = None  # until a client speaks it
        self._sock = sock
        self._context = context
        self._listener: asyncio.Server | _TLSListener | None = None

    async def start(self) -> None:
        """Accept connections, in the running event loop."""
        loop = asyncio.get_running_loop()
        if self._context is not None:
            self._listener = _TLSListener(self._sock, lambda: _Negotiated(self._connect), self._context)
            return
        # Without `backlog` the loop would let 100 connections wait, and the system drop others while it is busy.
        self._listener = await loop.create_server(self._server.connect, sock=self._sock, backlog=BACKLOG)

    def _connect(self, protocol: str | None) -> asyncio.Protocol:
        """Return the protocol of a connection on which TLS has negotiated one."""
        if protocol != HTTP2:
            return self._server.connect()
        if self._http2 is None:
            from understudy.apiserver.server.http2.connection import Http2Server  # and h2, which takes a while

            self._http2 = Http2Server(self.handle, self._version, self._most_streams, self._goaway_chance)
        return self._http2.connect()

    def send_watch(self, source: WatchSource, frames: Frames) -> Stop:
        """Begin to send a watch to a thread of this process; return what ends it, from any thread."""
        return self._pumps.send_inside(source, frames)

    @property
    def watches(self) -> list[WatchSource]:
        """Return the watches that are open."""
        return self._pumps.sources

    def end_watches(self) -> None:
        """End the watches that are open, as if their time were up."""
        self._pumps.close()

    async def stop(self) -> None:
        """End watches, let requests finish and close every connection."""
        if self._listener is not None:
            self._listener.close()
        await self._pumps.stop()
        await asyncio.sleep(0)
        ends = [self._server.shutdown(GRACE)]
        if self._http2 is not None:
            ends.append(self._http2.shutdown(GRACE))
        await asyncio.gather(*ends)

    async def finish(self) -> None:
        """Wait until no request is answered any more outside the event loop."""
        await self._director.finish()


def listening_socket(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError, whose text names the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections have it from here, as Go's have
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError as why:
        sock.close()
        raise OSError(f"cannot listen on {address}:{port}: {why.strerror}") from None
    sock.setblocking(False)
    return sock


class _Negotiated(asyncio.Protocol):
    """A connection whose handshake is done, and which is left to the protocol that it has negotiated."""

    def __init__(self, connect: Callable[[str | None], asyncio.Protocol]) -> None:
        self._connect = connect

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = self._connect(transport.get_extra_info("ssl_object").selected_alpn_protocol())
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)


class _TLSListener:
    """Accepts connections in the running event loop, and shakes hands with those that speak TLS."""

    def __init__(self, sock: socket.socket, connect: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._sock = sock
        self._connect = connect
        self._context = context
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._accepting = asyncio.create_task(self._accept())
        self._greeting: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop listening. Connections whose handshake is not done are closed."""
        for task in (self._accepting, *self._greeting):
            task.cancel()
        self._sock.close()

    async def _accept(self) -> None:
        while True:
            await _readable(self._loop, self._sock)  # `sock_accept` would lose a connection if it were cancelled late
            try:
                connection, _ = self._sock.accept()
            except BlockingIOError:
                continue
            except OSError as error:  # a client that has left already (ECONNABORTED), for example
                log.warning("cannot accept connections: %s", error)
                await asyncio.sleep(1 if error.errno in OUT_OF_RESOURCES else RETRY)
                continue
            greeting = asyncio.create_task(self._greet(connection))
            self._greeting.add(greeting)
            greeting.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: socket.socket, greeting: asyncio.Task[None]) -> None:
        """Forget a greeting that is done, and close its connection if it was cancelled, perhaps before it began."""
        self._greeting.discard(greeting)
        if greeting.cancelled():
            connection.close()

    async def _greet(self, connection: socket.socket) -> None:
        """Shake hands with a client, or tell one that speaks plain HTTP that TLS is expected."""
        connection.setblocking(False)
        try:
            async with asyncio.timeout(HANDSHAKE):
                start = await self._first_bytes(connection)
                if len(start) < len(HTTP_STARTS[0]):
                    connection.close()
                    return
                if start not in HTTP_STARTS:
                    await self._loop.connect_accepted_socket(self._connect, connection, ssl=self._context)
                    return
                await self._loop.sock_sendall(connection, HTTP_TO_HTTPS)
                connection.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(connection, 1 << 16):  # unread bytes would reset the connection
                    pass
            connection.close()
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            log.debug("no TLS connection: %s", error)
            connection.close()

    async def _first_bytes(self, connection: socket.socket) -> bytes:
        """Return the first bytes of a connection without taking them; fewer if the client has closed it before."""
        length = len(HTTP_STARTS[0])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, length)  # fewer bytes wake no reader
        await _readable(self._loop, connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        return connection.recv(length, socket.MSG_PEEK)


async def _readable(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
    """Wait until a connection has as many bytes to read as it is to have (`SO_RCVLOWAT`), or its end."""
    readable = loop.create_future()
    loop.add_reader(connection, lambda: None if readable.done() else readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(connection)
