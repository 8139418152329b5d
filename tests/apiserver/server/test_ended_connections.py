"""Connections that have ended: nothing is left of them, whether or not Python searches for cycles."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.server.http1.protocol import HTTPProtocol

WATCH = "GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: a\r\n"
WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: http://localhost\r\n"
)
SENT = {
    "nothing": "",
    "half a head": "GET / HTTP/1.1\r\nHost:",
    "refused": "oh\r\n\r\n",
    "answered": "GET /version HTTP/1.1\r\nHost: a\r\n\r\n",
    "half a body": "POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{",
    "watch": f"{WATCH}\r\n",
    "WebSocket": f"{WATCH}{WEBSOCKET}\r\n",
}
ABORT = struct.pack("ii", 1, 0)  # `SO_LINGER`: close with RST


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "TLS"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(tls=request.param, accept_hosts=["a"]) as running:
        yield running


@pytest.fixture
def without_garbage_collection(little_garbage: None) -> Iterator[None]:
    """Free objects only when nothing refers to them: cycles stay."""
    gc.disable()
    yield
    gc.enable()


def connections() -> set[int]:
    """Return the ids of all connections of servers that are in memory."""
    return {id(each) for each in gc.get_objects() if isinstance(each, HTTPProtocol)}


@pytest.mark.usefixtures("without_garbage_collection")
@pytest.mark.parametrize("is_aborted", [False, True], ids=["closed", "aborted"])
@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_ended_connection_is_freed(server: Server, sent: str, is_aborted: bool) -> None:
    """A connection that has ended is freed at once: a server with many objects does not search for cycles."""
    others = connections()
    address = urlsplit(server.url)
    plain = socket.create_connection((address.hostname, address.port))
    context = ssl._create_unverified_context()
    client = context.wrap_socket(plain) if address.scheme == "https" else plain
    client.sendall(sent.encode())
    if sent.endswith("\r\n\r\n"):
        client.recv(1)
    wait_until(lambda: connections() - others or sent == SENT["refused"])
    if is_aborted:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
    client.close()
    wait_until(lambda: not connections() - others)
