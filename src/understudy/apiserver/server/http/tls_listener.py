"""Sockets that listen, and connections over TLS that are looked at before the handshake.

Who speaks plain HTTP there is told so, as Go's server does.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

log = logging.getLogger("understudy")
# Returns the TLS context of a connection, by the address at which its client has reached the server.
Contexts = Callable[[str], ssl.SSLContext]

# The first bytes of a connection that speaks plain HTTP (crypto/tls: `tlsRecordHeaderLooksLikeHTTP`), and Go's answer.
HTTP_STARTS = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
HTTP_TO_HTTPS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
HANDSHAKE = 32.0  # seconds that a client may take until the handshake is done
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RETRY = 0.005  # seconds before the next connection is accepted after one that could not be; Go begins with as many
BACKLOG = socket.SOMAXCONN  # connections that may wait to be accepted; Go asks for as many as the system allows


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


class TLSListener:
    """Accepts the connections of a `listening_socket` in the running event loop, and shakes hands over TLS.

    contexts  chooses the context of each connection
    failed    is called for each connection on which that fails
    """

    def __init__(
        self,
        sock: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        contexts: Contexts,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._sock = sock
        self._connect = connect
        self._contexts = contexts
        self._failed = failed
        self._loop = asyncio.get_running_loop()
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
        speaks_http = False
        try:
            async with asyncio.timeout(HANDSHAKE):
                start = await self._first_bytes(connection)
                speaks_http = start in HTTP_STARTS
                if len(start) == len(HTTP_STARTS[0]) and not speaks_http:
                    address = connection.getsockname()[0].removeprefix("::ffff:")  # of IPv4 on a socket of IPv6
                    context = self._contexts(address)
                    await self._loop.connect_accepted_socket(self._connect, connection, ssl=context)
                    return
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            log.debug("no TLS connection: %s", error)
        self._failed()
        if speaks_http:
            await self._refuse_http(connection)
        connection.close()

    async def _refuse_http(self, connection: socket.socket) -> None:
        """Tell a client that TLS is expected, and wait until it has read that."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                await self._loop.sock_sendall(connection, HTTP_TO_HTTPS)
                connection.shutdown(socket.SHUT_WR)
                while await self._loop.sock_recv(connection, 1 << 16):  # unread bytes would reset the connection
                    pass

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
