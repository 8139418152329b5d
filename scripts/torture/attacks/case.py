"""What a case of `attack` is: an attack on a server, and what may come of it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 120.0  # seconds that an answer may take


@dataclass(frozen=True)
class Target:
    """The server that is attacked. `token` is an administrator's."""

    url: str
    token: str

    @property
    def authorization(self) -> str:
        """Return the header of an administrator."""
        return f"Authorization: Bearer {self.token}\r\n"

    def connect(self, *, plain: bool = False) -> socket.socket:
        """Return a new connection: TLS if the server speaks it, unless `plain`."""
        parts = urlsplit(self.url)
        connection = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https" and not plain:
            return ssl._create_unverified_context().wrap_socket(connection)
        return connection

    @contextmanager
    def connections(self, count: int, *, plain: bool = False) -> Iterator[list[socket.socket]]:
        """Open many connections, which are closed at the end."""
        opened = [self.connect(plain=plain) for _ in range(count)]
        try:
            yield opened
        finally:
            for connection in opened:
                connection.close()

    def send(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> tuple[int, bytes]:
        """Send a request as the administrator; return status and body of the answer."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\n{self.authorization}Connection: close\r\n"
            f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with self.connect() as connection:
            connection.sendall(head.encode() + body)
            answer = read_to_end(connection)
        return status_of(answer), answer.partition(b"\r\n\r\n")[2]


def read_to_end(connection: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection, or resets it."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except (ConnectionError, TimeoutError):
        pass
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    """Return the status of an answer, 0 if there is none."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0


@dataclass(frozen=True)
class Case:
    """An attack.

    attack   sends it, in a process of its own; what it returns is printed
    flags    of the server, beside those that every case has
    seconds  that it may take
    """

    name: str
    attack: Callable[[Target], str]
    flags: tuple[str, ...] = ()
    seconds: float = 180.0
