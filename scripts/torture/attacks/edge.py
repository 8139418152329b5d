"""Attacks of `attack` on connections, heads and bodies: by clients without a token as far as possible."""

from __future__ import annotations

import base64
import os
import socket
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

from scripts.torture.attacks.case import Case, Target, read_to_end, status_of

MAPS = "/api/v1/namespaces/default/configmaps"
MIB = 1 << 20
FRAMES = 1_000_000


def _post(target: Target, length: str, *, token: bool) -> bytes:
    authorization = target.authorization if token else ""
    return (
        f"POST {MAPS} HTTP/1.1\r\nHost: a\r\n{authorization}Content-Type: application/json\r\n{length}\r\n\r\n".encode()
    )


def _unfinished_bodies(target: Target, *, token: bool) -> str:
    """Send a hundred bodies of 3 MiB but for the last byte, and wait for the answers."""
    head = _post(target, f"Content-Length: {3 * MIB}", token=token)
    statuses: Counter[int] = Counter()
    began = time.monotonic()
    with target.connections(100) as connections:
        for connection in connections:
            connection.settimeout(0.5)
            with suppress(OSError):
                connection.sendall(head + b" " * (3 * MIB - 1))
        for connection in connections:
            connection.settimeout(max(100 - (time.monotonic() - began), 0.1))
            statuses[status_of(read_to_end(connection))] += 1
    return f"{dict(statuses)} after {time.monotonic() - began:.1f} s"


def _tiny_chunks(target: Target, chunk: bytes) -> str:
    """Send 3 MiB in chunks of one byte."""
    with target.connect() as connection, suppress(OSError):
        connection.sendall(_post(target, "Transfer-Encoding: chunked", token=True))
        for _ in range(3 * MIB // 4096):
            connection.sendall(chunk * 4096)
        connection.sendall(b"0\r\n\r\n")
        return str(status_of(connection.recv(1 << 16)))
    return "reset"


def _heads(target: Target, head: bytes) -> str:
    """Send ten heads at once."""
    with target.connections(10) as connections:
        for connection in connections:
            with suppress(OSError):
                connection.sendall(head)
        return str(dict(Counter(status_of(connection.recv(1 << 16)) for connection in connections)))


def _many_lines(target: Target) -> str:
    lines = b"".join(b"a:\r\n" for _ in range(200_000))
    return _heads(target, b"GET /api HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")


def _many_parameters(target: Target) -> str:
    return _heads(target, b"GET /api?" + b"a=&" * 300_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")


def _many_parameters_with_token(target: Target) -> str:
    query = b"GET " + MAPS.encode() + b"?" + b"a=&" * 300_000
    return _heads(target, query + b" HTTP/1.1\r\nHost: a\r\n" + target.authorization.encode() + b"\r\n")


def _unread_pings(target: Target) -> str:
    """Send pings on a WebSocket, and read no answer."""
    key = base64.b64encode(os.urandom(16)).decode()
    with target.connect() as connection:
        connection.sendall(
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\n{target.authorization}Connection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nOrigin: http://127.0.0.1\r\n\r\n".encode()
        )
        status = status_of(connection.recv(1 << 16))
        connection.settimeout(5)
        sent = 0
        with suppress(OSError):
            while sent < FRAMES:
                connection.sendall(b"\x89\x80\0\0\0\0" * 1000)
                sent += 1000
        time.sleep(3)
    return f"{status}, {sent} pings taken"


def _one_byte_of_tls(target: Target) -> str:
    """Open a thousand connections that send the first byte of a handshake; then leave."""
    with target.connections(1000, plain=True) as connections:
        for connection in connections:
            connection.sendall(b"\x16")
        time.sleep(5)
    return "waited 5 s"


def _slow_head(target: Target) -> str:
    """Send a byte of a head every second, and say when the server has enough."""
    began = time.monotonic()
    with target.connect() as connection, suppress(OSError):
        connection.settimeout(1)
        for byte in b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 60:
            connection.send(bytes((byte,)))
            try:
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
    return f"closed after {time.monotonic() - began:.0f} s"


def _silent(target: Target) -> str:
    """Connect, say nothing, and say when the server has enough."""
    parts = urlsplit(target.url)
    began = time.monotonic()
    with socket.create_connection((parts.hostname, parts.port), timeout=110) as connection, suppress(OSError):
        connection.recv(1)
    return f"closed after {time.monotonic() - began:.0f} s"


CASES = (
    Case("bodies without a token", lambda target: _unfinished_bodies(target, token=False)),
    Case("bodies with a token", lambda target: _unfinished_bodies(target, token=True)),
    Case("chunks of one byte", lambda target: _tiny_chunks(target, b"1\r\n \r\n")),
    Case("chunks with an extension", lambda target: _tiny_chunks(target, b"1;\r\n \r\n")),
    Case("heads of many lines", _many_lines),
    Case("heads of many parameters", _many_parameters),
    Case("parameters with a token", _many_parameters_with_token),
    Case("pings that are not read", _unread_pings),
    Case("one byte of TLS", _one_byte_of_tls),
    Case("a head that trickles", _slow_head),
    Case("silence", _silent),
)
