"""Listens on a socket, with aiohttp's low-level server: one handler, no router, no middleware, a parser of its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial

from aiohttp import web

from understudy.apiserver.server.director import Director
from understudy.apiserver.server.http import handler
from understudy.apiserver.server.http1.protocol import HTTPProtocol
from understudy.apiserver.server.watch_stream import Pumps

GRACE = 0.5  # seconds that requests get to finish when the server stops
BACKLOG = socket.SOMAXCONN  # connections that may wait to be accepted; Go asks for as many as the system allows


class Listener:
    """Serves a director on one listening socket."""

    def __init__(self, director: Director, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        self._director = director
        self._pumps = Pumps(director.clock)
        self._server = web.Server(
            handler(director, self._pumps, director.state.release.version),
            handler_cancellation=True,
        )
        self._sock = sock
        self._context = context
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Accept connections, in the running event loop."""
        loop = asyncio.get_running_loop()
        connect = partial(HTTPProtocol, self._server, loop=loop, access_log=None)
        # Without `backlog` the loop would let 100 connections wait, and the system drop others while it is busy.
        self._listener = await loop.create_server(connect, sock=self._sock, ssl=self._context, backlog=BACKLOG)

    def end_watches(self) -> None:
        """End the watches that are open, as if their time were up."""
        self._pumps.close()

    async def stop(self) -> None:
        """End watches, let requests finish and close every connection."""
        if self._listener is not None:
            self._listener.close()
        self._pumps.stop()
        await asyncio.sleep(0)
        await self._server.shutdown(GRACE)
        await self._director.finish()
