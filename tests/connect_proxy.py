"""A proxy that is asked for connections by CONNECT, at a Unix socket or over TCP, with or without TLS."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ConnectProxy:
    """Answers CONNECT, and remembers what it was asked for.

    asked   the addresses
    answer  what it says; connections that it does not establish are closed
    target  where all connections lead to, a port of this machine
    """

    def __init__(self, target: int = 0) -> None:
        self.asked: list[str] = []
        self.answer = CONNECTED
        self.target = target
        self.address = ""

    def handle(self, client: socket.socket) -> None:
        """Serve one connection until it ends."""
        head = b""
        while b"\r\n\r\n" not in head:
            if not (part := client.recv(4096)):
                return
            head += part
        self.asked.append(head.split()[1].decode())
        client.sendall(self.answer)
        if self.answer == CONNECTED:
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                relay(client, server)

    @contextmanager
    def running(self, path: Path | None = None, context: ssl.SSLContext | None = None) -> Iterator[ConnectProxy]:
        """Serve at a Unix socket, or at a free port, until the block ends."""
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    if context is None:
                        proxy.handle(self.request)
                        return
                    with context.wrap_socket(self.request, server_side=True) as secured:
                        proxy.handle(secured)

        server: socketserver.BaseServer
        if path is None:
            server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
            self.address = f"127.0.0.1:{server.server_address[1]}"
        else:
            server, self.address = socketserver.ThreadingUnixStreamServer(str(path), Handler), str(path)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def relay(one: socket.socket, other: socket.socket) -> None:
    """Pass on what comes on one connection to the other, both ways, until one of them ends."""
    pairs = {one: other, other: one}
    while True:
        decrypted = [each for each in pairs if isinstance(each, ssl.SSLSocket) and each.pending()]
        for ready in decrypted or select.select(pairs, [], [])[0]:
            if not (data := ready.recv(65536)):
                return
            pairs[ready].sendall(data)
