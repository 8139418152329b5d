"""Clients that shut down their side of the connection and read on: the answers are those of kube-apiserver 1.32.

It answers a request that it has done before it notices; a request of which it notices in the middle is given up.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.http import send
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
TIMED_OUT = (
    '{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",'
    '"reason":"Timeout","details":{},"code":504}\n'
)


@pytest.fixture
def client(apiserver: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A connection to an empty server, which waits long for a version that it has not reached yet."""
    monkeypatch.setattr(apiserver.state.registry, "wait_seconds", 60.0)
    address = urlsplit(apiserver.url)
    with closing(socket.create_connection((address.hostname, address.port), timeout=60)) as connection:
        yield connection


def read_to_end(connection: socket.socket) -> str:
    """Return all that comes until the server closes the connection."""
    parts = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.parametrize(
    "request_text",
    [
        f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{",
        f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n",
        f"DELETE {MAPS}/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{",
        f"GET {MAPS}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["body", "chunks", "delete", "waiting"],
)
def test_request_that_is_not_done_is_given_up(client: socket.socket, request_text: str) -> None:
    """A request whose body is cut short, or that waits, is answered that it took too long."""
    client.sendall(request_text.encode())
    client.shutdown(socket.SHUT_WR)
    head, _, body = read_to_end(client).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 504 Gateway Timeout\r\n")
    assert "Content-Type: text/plain; charset=utf-8" in head
    assert body == TIMED_OUT


def test_head_that_is_cut_short_is_refused(client: socket.socket) -> None:
    """A part of a head is no request; nothing at all needs no answer."""
    client.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n")
    client.shutdown(socket.SHUT_WR)
    head, _, body = read_to_end(client).partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400 Bad Request\r\n")
    assert body == "400 Bad Request"


def test_watch_ends(client: socket.socket) -> None:
    """A watch whose client sends nothing more ends after what it has sent, with its last chunk."""
    client.sendall(
        b"GET /api/v1/namespaces?watch=1&fieldSelector=metadata.name=default HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    first = client.recv(1 << 16)
    client.shutdown(socket.SHUT_WR)
    text = first.decode() + read_to_end(client)
    assert text.count('"type":"ADDED"') == 1
    assert text.endswith("\n\r\n0\r\n\r\n")


def test_answer_that_has_begun_is_sent_to_its_end(apiserver: Server, client: socket.socket) -> None:
    """The rest of a large answer comes, too."""
    for number in range(12):
        sent = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 900_000}}
        assert send(apiserver, "POST", MAPS, sent).status == 201
    client.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    first = client.recv(100)
    client.shutdown(socket.SHUT_WR)
    _, _, body = (first.decode() + read_to_end(client)).partition("\r\n\r\n")
    assert body.endswith("}]}\n")
