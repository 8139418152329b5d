"""Listens on a socket and serves HTTP on every connection: one handler, no router, no middleware.

Who agrees to HTTP/2 over TLS speaks that, all others speak HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from understudy.apiserver.client.watching import Frames, Stop
from understudy.apiserver.endpoints.request import WatchSource
from understudy.apiserver.server.director import Director
from understudy.apiserver.server.http.handler import give_up, handler
from understudy.apiserver.server.http.retry_after import refusing
from understudy.apiserver.server.http.shutdown import Termination
from understudy.apiserver.server.http.tls_listener import BACKLOG, Contexts, TLSListener
from understudy.apiserver.server.http.watch_stream import Pumps
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.apiserver.server.http1.served import ServedProtocol
from understudy.apiserver.server.worker.loading import is_loaded, load

if TYPE_CHECKING:
    from understudy.apiserver.server.http.tracing.tracing import Tracing
    from understudy.apiserver.server.http2.connection import Http2Server

HTTP2 = "h2"  # its name in a handshake (ALPN)
_HTTP2_CONNECTION = "understudy.apiserver.server.http2.connection"
_LOOK = 0.02  # seconds between two looks at the requests that are answered
GRACE = 0.5  # seconds that requests get to finish when the server stops


class Listener:
    """Serves a director on one listening socket.

    contexts               chooses the TLS context of each connection, None for plain HTTP
    asks_for_certificates  whether such connections ask clients for certificates
    most_streams           requests at once on a connection of HTTP/2, to which their clients may agree
    tracing                tells of requests, if anybody wants to know
    goaway_chance          the share of requests there behind which the client is to connect anew
    headers_of_all         headers that every answer has besides its own
    handle                 answers a request, on whatever connection it came
    """

    def __init__(
        self,
        director: Director,
        sock: socket.socket,
        contexts: Contexts | None,
        *,
        asks_for_certificates: bool = False,
        most_streams: int = 0,
        goaway_chance: float = 0.0,
        headers_of_all: Sequence[tuple[str, str]] = (),
        tracing: Tracing | None = None,
    ) -> None:
        self._director = director
        self._pumps = Pumps(director.clock)
        self._version = director.state.release.version
        answer = director if tracing is None else tracing.directed(director)
        handle = handler(
            answer, self._pumps, self._version, headers_of_all, asks_for_certificates=asks_for_certificates
        )
        self.handle = handle if tracing is None else tracing.around(handle)
        self._server = HTTPServer(self.handle, give_up)
        self._most_streams = most_streams
        self._goaway_chance = goaway_chance
        self._http2: Http2Server | None = None  # until a client speaks it
        self._sock = sock
        self._contexts = contexts
        self._listener: asyncio.Server | TLSListener | None = None

    async def start(self) -> None:
        """Accept connections, in the running event loop."""
        loop = asyncio.get_running_loop()
        if self._contexts is not None:
            failed = self._director.count_tls_error
            self._listener = TLSListener(self._sock, lambda: _Negotiated(self._connect), self._contexts, failed)
            return
        # Without `backlog` the loop would let 100 connections wait, and the system drop others while it is busy.
        self._listener = await loop.create_server(self._server.connect, sock=self._sock, backlog=BACKLOG)

    def _connect(self, protocol: str | None) -> asyncio.Protocol:
        """Return the protocol of a connection on which TLS has negotiated one."""
        if protocol != HTTP2:
            return self._server.connect()
        if self._http2 is None:
            from understudy.apiserver.server.http2.connection import Http2Server

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

    async def drain(self, termination: Termination, seconds: float) -> None:
        """End watches and let requests finish, in some seconds at most; accept or answer no others.

        Requests that have become another protocol, such as those of `kubectl exec`, go on.
        """
        if termination.sends_retry_after:
            self._refuse()
        elif self._listener is not None:
            self._listener.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pumps.drain(termination.watch_grace)
                if termination.sends_retry_after:
                    await self._answer_the_last()
                else:
                    await asyncio.gather(*[connection.drain() for connection in self._connections])

    @property
    def _connections(self) -> list[ServedProtocol]:
        """Return the connections that are open."""
        return [*self._server.connections, *(() if self._http2 is None else self._http2.connections)]

    def _refuse(self) -> None:
        """Refuse the requests to come."""
        self.handle = self._server.handle = refuse = refusing(self.handle)
        if self._http2 is not None:
            self._http2.handle = refuse
        for connection in self._connections:
            connection.answer_with(refuse)

    async def _answer_the_last(self) -> None:
        """Wait until the requests that are being answered have been."""
        last = {exchange for connection in self._connections for exchange in connection.answering}
        while last:
            await asyncio.sleep(_LOOK)
            last &= {exchange for connection in self._connections for exchange in connection.answering}

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


class _Negotiated(asyncio.Protocol):
    """A connection whose handshake is done, and which is left to the protocol that it has negotiated.

    The first one that speaks HTTP/2 is read once the modules for it are imported.
    """

    _loading: asyncio.Task[None]

    def __init__(self, connect: Callable[[str | None], asyncio.Protocol]) -> None:
        self._connect = connect

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protocol = transport.get_extra_info("ssl_object").selected_alpn_protocol()
        leave = partial(self._leave, cast("asyncio.Transport", transport), protocol)
        if protocol == HTTP2 and not is_loaded(_HTTP2_CONNECTION):
            cast("asyncio.Transport", transport).pause_reading()
            self._loading = asyncio.create_task(load(_HTTP2_CONNECTION))
            self._loading.add_done_callback(leave)
        else:
            leave()

    def _leave(self, transport: asyncio.Transport, protocol: str | None, *_: object) -> None:
        """Leave the connection to a protocol, unless the client has gone meanwhile."""
        if not transport.is_closing():
            served = self._connect(protocol)
            transport.set_protocol(served)
            served.connection_made(transport)
            transport.resume_reading()
