"""The connections of HTTP/2 to webhooks of this machine, of which each serves many calls at once.

As in kube-apiserver other webhooks are not offered HTTP/2: many connections let a Service spread calls over its
endpoints.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from understudy.apiserver.server.http1.ends import EndingProtocol
from understudy.apiserver.server.webhooks.egress.dialing import Dial, place

if TYPE_CHECKING:
    from understudy.apiserver.server.webhooks.http2 import Http2Connection

ALPN = ("h2", "http/1.1")  # the preferred one first
_Server = tuple[str, int, ssl.SSLContext]


class Http2Connections:
    """Connections to the servers that agree to HTTP/2. They are kept, and so is which servers do not agree.

    made  all that are open, and some that are not

    A server is asked by a connection that is closed if it does not agree: aiohttp, which is used then, makes its own.
    """

    def __init__(self, dial: Dial | None = None) -> None:
        self._dial = dial
        self._connections: dict[_Server, list[Http2Connection]] = {}
        self._without: set[_Server] = set()
        self._turns: dict[_Server, asyncio.Lock] = {}
        self.made: WeakSet[_Negotiation | Http2Connection] = WeakSet()

    async def find(self, host: str, port: int, context: ssl.SSLContext) -> Http2Connection | None:
        """Return a connection with room for a request, a new one if need be; None to a server that speaks HTTP/1.1.

        Raises OSError for a server that cannot be reached.
        """
        server = host, port, context
        if server in self._without:
            return None
        async with self._turns.setdefault(server, asyncio.Lock()):
            usable = [connection for connection in self._connections.get(server, ()) if connection.is_open]
            self._connections[server] = usable
            for connection in usable:
                if connection.has_room:
                    return connection
            if server in self._without:
                return None
            new = await self._connect(server)
            if new is None:
                self._without.add(server)
            else:
                usable.append(new)
            return new

    async def _connect(self, server: _Server) -> Http2Connection | None:
        host, port, context = server
        loop = asyncio.get_running_loop()
        where = await place(self._dial, host, port)
        _, made = await loop.create_connection(_Negotiation, ssl=context, server_hostname=host, **where)
        self.made.add(made.agreed or made)
        return made.agreed


class _Negotiation(EndingProtocol):
    """A connection on which TLS has negotiated the protocol: it is left to HTTP/2 or closed."""

    transport: asyncio.Transport
    agreed: Http2Connection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != ALPN[0]:
            transport.close()
            return
        from understudy.apiserver.server.webhooks.http2 import Http2Connection  # and h2, which takes a while

        self.agreed = Http2Connection()
        transport.set_protocol(self.agreed)
        self.agreed.connection_made(transport)
