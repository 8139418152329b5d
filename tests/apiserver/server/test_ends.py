"""Connections end for good: when what was sent on them is written, or when the other side has had its time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from understudy import Server
from understudy.apiserver.server.http1 import ends
from understudy.apiserver.server.http1.ends import EndingProtocol, end_connections

MANY = 64 << 20  # bytes that no buffers of a connection hold


class Pipe(asyncio.Transport):
    """A connection whose other side has read all after some looks at what is unsent."""

    def __init__(self, reads_after: int) -> None:
        super().__init__()
        self.protocol = EndingProtocol()
        self.protocol.transport = self
        self.unread_looks = reads_after

    def get_write_buffer_size(self) -> int:
        self.unread_looks -= 1
        return max(self.unread_looks, 0)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


async def test_connection_ends_when_all_is_written() -> None:
    pipes = [Pipe(0), Pipe(5)]
    await end_connections([pipe.protocol for pipe in pipes])
    assert [(pipe.protocol.is_closed, pipe.unread_looks <= 0) for pipe in pipes] == [(True, True)] * 2


async def test_client_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "_PATIENCE", 0.1)
    pipe = Pipe(1_000_000)
    await end_connections([pipe.protocol])
    assert pipe.protocol.is_closed


@pytest.mark.parametrize("protocols", [["h2"], ["http/1.1"]], ids=str)
def test_server_does_not_wait_for_clients(protocols: Sequence[str], caplog: pytest.LogCaptureFixture) -> None:
    """A client over TLS that never says goodbye loses its connection with the server."""
    with Server(tls=True) as server:
        address = urlsplit(server.url)
        context = ssl._create_unverified_context()
        context.set_alpn_protocols([*protocols])
        client = context.wrap_socket(socket.create_connection((address.hostname, address.port)))
        client.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" if protocols == ["h2"] else b"GET / HTTP/1.1\r\n"
        )
        if protocols == ["h2"]:
            client.recv(1)
    plain = socket.socket(fileno=client.detach())
    plain.settimeout(20)
    with plain:
        try:
            while plain.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
    assert not caplog.records


@pytest.mark.parametrize("tls", [False, True])
def test_server_reads_no_more_of_a_body_than_its_buffers(tls: bool, tmp_path: Path) -> None:
    """A client that goes on with a body behind the answer to it loses its connection before it has sent much."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("token,ann,ann\n")
    with Server(tls=tls, token_auth_file=tokens) as server:
        address, sent = urlsplit(server.url), 0
        client = socket.create_connection((address.hostname, address.port), timeout=10)
        if tls:
            client = ssl._create_unverified_context().wrap_socket(client)
        with client:
            client.sendall(f"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
            answer = client.recv(1 << 16)
            with suppress(ConnectionError, ssl.SSLError):
                while sent < MANY:
                    client.sendall(b" " * (1 << 16))
                    sent += 1 << 16
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert sent < MANY
