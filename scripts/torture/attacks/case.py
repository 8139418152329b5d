"""What a case of `attack` is: an attack on a server, and what may come of it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 120.0  # seconds that an answer may take


@dataclass(frozen=True)
class Target:
    """The server that is attacked.

    token   an administrator's
    user    the token of a user without rights, where rights are asked for
    folder  has the files that the case has prepared
    """

    url: str
    token: str
    user: str = ""
    folder: Path = Path()

    @property
    def authorization(self) -> str:
        """Return the header of an administrator."""
        return f"Authorization: Bearer {self.token}\r\n"

    def request(
        self, method: str, path: str, body: bytes = b"", media: str = "application/json", *, token: str = ""
    ) -> bytes:
        """Return a request of the administrator, or with another token, after which the connection stays open."""
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token or self.token}\r\n"
        return f"{head}Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def connect(self, *, plain: bool = False, protocol: str = "") -> socket.socket:
        """Return a new connection: TLS if the server speaks it, unless `plain`, with a protocol that is agreed upon."""
        parts = urlsplit(self.url)
        connection = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https" and not plain:
            context = ssl._create_unverified_context()
            context.set_alpn_protocols([protocol] if protocol else [])
            return context.wrap_socket(connection)
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

    def send_all(self, requests: Sequence[bytes], *, connections: int = 8, ahead: int = 32) -> dict[int, int]:
        """Send requests over some connections at once, `ahead` of them before their answers are read.

        Returns how many were answered with each status, 0 for those that were not, since the server has ended their
        connection. Answers have a Content-Length.
        """
        statuses: Counter[int] = Counter()

        def send(chosen: Sequence[bytes]) -> None:
            with suppress(OSError), self.connect() as connection, connection.makefile("rb") as answers:
                for first in range(0, len(chosen), ahead):
                    part = chosen[first : first + ahead]
                    connection.sendall(b"".join(part))
                    statuses.update(filter(None, (_next_status(answers) for _ in part)))

        run_at_once([lambda n=n: send(requests[n::connections]) for n in range(connections)])  # type: ignore[misc]
        missing = len(requests) - statuses.total()
        return dict(statuses) | ({0: missing} if missing else {})


def _next_status(answers: BufferedIOBase) -> int:
    """Read an answer from a connection that stays open; return its status."""
    status, length = status_of(answers.readline()), 0
    while (line := answers.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    answers.read(length)
    return status


def run_at_once(functions: Sequence[Callable[[], object]]) -> None:
    """Call functions, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_to_end(connection: socket.socket) -> bytes:
    """Return all that comes until the server closes the connection, or resets it."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except OSError:  # TLS that is cut off is no ConnectionError
        pass
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    """Return the status of an answer, 0 if there is none."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else 0


def nothing_prepared(folder: Path) -> AbstractContextManager[Sequence[str]]:
    """Prepare nothing in a folder."""
    return nullcontext(())


@dataclass(frozen=True)
class Case:
    """An attack.

    attack   sends it, in a process of its own; what it returns is printed
    flags    of the server, beside those that every case has
    own      flags that understudy alone knows
    prepare  makes files in a folder, or starts others that the server asks, and yields flags for them
    keeps    says that what it leaves in the server stays: how much memory that takes is no failure
    missing  why another server is not attacked so, "" if it is
    seconds  that it may take
    """

    name: str
    attack: Callable[[Target], str]
    flags: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    prepare: Callable[[Path], AbstractContextManager[Sequence[str]]] = nothing_prepared
    keeps: bool = False
    missing: str = ""
    seconds: float = 180.0
