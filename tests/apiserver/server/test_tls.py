"""Connections to a server that speaks TLS: those that do not are answered as Go's server answers them."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from understudy import Server
from understudy.apiserver.server.http import tls_listener
from understudy.apiserver.server.worker import loop_thread

TO_HTTPS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "asyncio":
            patch.setattr(loop_thread, "new_loop", asyncio.new_event_loop)
        with Server(tls=True) as running:
            yield running


def connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((str(address.hostname), address.port or 0), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(4096):
        received += chunk
    return received


def version_over_tls(server: Server) -> bytes:
    context = ssl._create_unverified_context()
    with connect(server) as plain, context.wrap_socket(plain) as connection:
        connection.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return read_all(connection)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ((b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n",), TO_HTTPS),
        ((b"POST /api/v1/namespaces HTTP/1.1\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000,), TO_HTTPS),
        ((b"OPTIONS * HTTP/1.1\r\n\r\n",), TO_HTTPS),
        ((b"GE", b"T /", b" HTTP/1.1\r\n\r\n"), TO_HTTPS),
        ((b"nonsense that is neither\r\n\r\n",), b""),
    ],
    ids=["GET", "POST", "OPTIONS", "in pieces", "nonsense"],
)
def test_plain_http(server: Server, sent: tuple[bytes, ...], answer: bytes) -> None:
    """Plain HTTP is answered with Go's 400, anything else that is no TLS is closed; TLS works before and after."""
    with connect(server) as connection:
        for piece in sent:
            connection.sendall(piece)
        received = read_all(connection)
        assert received == answer if answer else not received.startswith(b"HTTP")
    assert b'"gitVersion"' in version_over_tls(server)


def test_silent_clients_hold_nobody_up(server: Server) -> None:
    """Clients that connect and send nothing, or only the beginning of something, do not keep others from service."""
    silent = [connect(server) for _ in range(50)]
    for connection in silent[::2]:
        connection.sendall(b"GE")
    assert b'"gitVersion"' in version_over_tls(server)
    for connection in silent:
        connection.close()
    assert b'"gitVersion"' in version_over_tls(server)


def test_stop_with_silent_clients() -> None:
    """A server stops at once though clients have not begun the handshake, and their connections are closed."""
    with Server(tls=True) as server:
        silent = connect(server)
        version_over_tls(server)
    with silent:
        assert silent.recv(1) == b""


def test_client_that_leaves_before_the_handshake(server: Server) -> None:
    """A client that sends less than a handshake and leaves is left as well, long before its time is up."""
    with connect(server) as connection:
        connection.settimeout(tls_listener.HANDSHAKE / 2)
        connection.sendall(b"G")
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):  # the byte was not read
            assert read_all(connection) == b""


def test_connection_that_cannot_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is gone before it is accepted does not end the listener."""
    failures = [ConnectionAbortedError(errno.ECONNABORTED, "Software caused connection abort"), BlockingIOError()]

    class Listening(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            if failures:
                raise failures.pop()
            return super().accept()

    def listening_socket(address: str, port: int) -> socket.socket:
        return Listening(fileno=tls_listener.listening_socket(address, port).detach())

    monkeypatch.setattr("understudy.apiserver.server.lifecycle.listening_socket", listening_socket)
    with Server(tls=True) as running:
        assert b'"gitVersion"' in version_over_tls(running)
    assert not failures


@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
@pytest.mark.filterwarnings("always::ResourceWarning")
def test_listener_that_closes_when_it_has_accepted(
    new_loop: Callable[[], asyncio.AbstractEventLoop], recwarn: pytest.WarningsRecorder
) -> None:
    """A connection whose greeting is cancelled before it begins is closed, not left to the collection of garbage."""

    async def accept_and_close() -> None:
        sock = tls_listener.listening_socket("127.0.0.1", 0)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        listening = tls_listener.TLSListener(sock, asyncio.Protocol, lambda _: context)
        with socket.create_connection(sock.getsockname(), timeout=10) as client:
            while not listening._greeting:
                await asyncio.sleep(0)
            listening.close()
            while listening._greeting:
                await asyncio.sleep(0)
            assert client.recv(1) == b""

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(accept_and_close())
    gc.collect()
    assert not recwarn.list
