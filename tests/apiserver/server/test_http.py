"""HTTP itself: headers, compression, versions of the protocol, and long requests."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.http import TIMEOUT, send, watch
from tests.releases import RELEASES
from understudy import Server
from understudy.apiserver.server.http import handler
from understudy.apiserver.server.http.handler import LONG_QUERY
from understudy.apiserver.server.http1 import exchange, served
from understudy.machinery.options import Query, parse_query

MAPS = "/api/v1/namespaces/default/configmaps"
END = b"\r\n\r\n"  # of the headers
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param), accept_hosts=["a"]) as running:
        big = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"a": "x" * 128 * 1024}}
        running.apply(big)
        yield running


def spoken(server: Server, text: str) -> bytes:
    """Send a raw request; return all bytes until the server closes the connection."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("path", [MAPS, f"{MAPS}/nobody", "/version", "/nothing", f"{MAPS}?watch=1&timeoutSeconds=-1"])
def test_headers_of_every_response(server: Server, path: str) -> None:
    """Every response has the audit id of its request or a new one, a date, no caching, and no name of its server."""
    headers = send(server, "GET", path).headers
    assert len(headers["Audit-Id"]) == 36
    assert send(server, "GET", path, headers={"Audit-ID": "my  own"}).headers.get_all("Audit-Id") == ["my  own"]
    assert headers["Cache-Control"] == "no-cache, private"
    assert "Date" in headers
    assert "Server" not in headers


@pytest.mark.parametrize(
    ("path", "accepted", "compressed"),
    [
        (f"{MAPS}/big", "deflate, gzip", True),
        (MAPS, "gzip", True),
        (MAPS, "gzip;q=0.5", False),
        (MAPS, "", False),
        ("/api/v1", "gzip", False),
        ("/openapi/v2", "gzip", True),
        ("/openapi/v3/api/v1", "gzip", False),
    ],
)
def test_large_responses_are_compressed(server: Server, path: str, accepted: str, compressed: bool) -> None:
    """A response of 128 KiB or more is gzipped for clients that accept gzip without a quality, except OpenAPI v3."""
    plain = send(server, "GET", path)
    answer = send(server, "GET", path, headers={"Accept-Encoding": accepted})
    assert (answer.headers["Content-Encoding"] == "gzip") == compressed
    assert ("Accept-Encoding" in (answer.headers.get_all("Vary") or [])) == (compressed or path == "/openapi/v2")
    assert (gzip.decompress(answer.body) if compressed else answer.body) == plain.body


@pytest.mark.parametrize(
    ("accepted", "bookmarks", "gate", "compressed"),
    [("deflate, gzip", 1, True, True), ("gzip", 0, True, False), ("", 1, True, False), ("gzip", 1, False, False)],
)
def test_streaming_lists_are_compressed(accepted: str, bookmarks: int, gate: bool, compressed: bool) -> None:
    """Since 1.37 each portion of a watch that begins with a list is a file of gzip; other watches are plain."""
    with Server(emulated_version="1.37", feature_gates={"WatchListCompression": gate}) as newest:
        path = f"/api/v1/namespaces?watch=1&timeoutSeconds=-1&allowWatchBookmarks={bookmarks}"
        answer = send(newest, "GET", path, headers={"Accept-Encoding": accepted})
    assert (answer.headers["Content-Encoding"] == "gzip") == compressed
    assert ("Accept-Encoding" in (answer.headers.get_all("Vary") or [])) == compressed
    body = gzip.decompress(answer.body) if compressed else answer.body
    assert body.startswith(b'{"type":"ADDED"')
    if compressed:  # a client has it all without the last block, which is two bytes before the checksum and the length
        assert zlib.decompressobj(wbits=31).decompress(answer.body[:-10]) == body


def test_http_1_0_watch_is_not_chunked(server: Server) -> None:
    """A watch over HTTP/1.0 sends its events without chunks until the connection closes."""
    head, _, body = spoken(server, f"GET {MAPS}?watch=1&timeoutSeconds=-1 HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert b"Transfer-Encoding" not in head
    assert body.startswith(b'{"type":"ADDED"')


def test_expect_continue(server: Server) -> None:
    """A request with `Expect: 100-continue` is told to send its body."""
    request = (
        f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    )
    first, _, answer = spoken(server, request + "{}").partition(b"\r\n\r\n")
    assert first == b"HTTP/1.1 100 Continue"
    assert answer.startswith(b"HTTP/1.1 422 ")


def test_long_request_line_is_accepted(server: Server) -> None:
    """The request line may be as long as its selectors make it."""
    labels = ",".join(f"label{i}=value{i}" for i in range(2000))
    assert send(server, "GET", f"{MAPS}?labelSelector={labels}").status == 200


def test_long_query_is_read_beside_the_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of hundreds of thousands of parameters is read in a thread, any other at once."""
    threads: list[str] = []

    def read(text: str) -> Query:
        threads.append(threading.current_thread().name)
        return parse_query(text)

    monkeypatch.setattr(handler, "parse_query", read)
    for length in (10, LONG_QUERY // 3 + 1):
        assert send(server, "GET", f"/api?{'a=&' * length}").status == 200
    assert threads[0] == "understudy"
    assert threads[1] != "understudy"


@pytest.mark.parametrize(
    ("accept", "content_type", "begin"),
    [
        ("application/json", "application/json", b'{"kind":"Status"'),
        ("application/yaml", "application/yaml", b"apiVersion: v1\ncode: 413\n"),
        (PROTOBUF, PROTOBUF, b"k8s\x00\n\x0c\n\x02v1\x12\x06Status"),
    ],
)
def test_too_large_body_is_refused_in_the_accepted_form(
    server: Server, accept: str, content_type: str, begin: bytes
) -> None:
    """A body above 3 MiB is 413 in JSON, YAML or protobuf, as the client accepts."""
    answer = send(server, "POST", MAPS, b"x" * 4 * 1024 * 1024, accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (413, content_type)
    assert answer.body.startswith(begin)
    assert b"Request entity too large: limit is 3145728" in answer.body


OTHER_METHODS = ("FOO", "get", "PROPFIND", "OPTIONS", "TRACE", "CONNECT", "a!b")
NOT_ALLOWED = b'"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed"'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, path) for method in ("HEAD", *OTHER_METHODS) for path in (MAPS, f"{MAPS}/big", f"{MAPS}?watch=1")),
        *((method, path) for method in OTHER_METHODS for path in ("/version", "/api", "/apis/apps/v1")),
    ],
)
def test_other_methods_are_not_allowed(server: Server, method: str, path: str) -> None:
    """Resources, and most pages of discovery, answer 405 to every method that they do not know."""
    head, _, body = spoken(server, f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").partition(END)
    assert head.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in head + b"\r\n"
    assert NOT_ALLOWED in body or method == "HEAD"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", b"200 OK"), ("/apis", b"200 OK"), ("/metrics", b"200 OK"), ("/x", b"404 Not Found")],
)
def test_unknown_method_on_pages(server: Server, path: str, status: bytes) -> None:
    """Pages that do not look at the method answer an unknown one as GET."""
    assert spoken(server, f"FOO {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 " + status
    )


def test_unknown_method_is_answered_in_the_accepted_form(server: Server) -> None:
    """The 405 for a method that HTTP libraries refuse is in YAML if the client accepts that."""
    _, _, body = spoken(
        server, f"FOO {MAPS} HTTP/1.1\r\nhost: a\r\naccept: application/yaml\r\nConnection: close\r\n\r\n"
    ).partition(END)
    assert body.startswith(b"apiVersion: v1\ncode: 405\n")


def test_unknown_method_of_an_unknown_user(tmp_path: Path) -> None:
    """Credentials are looked at before the method."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1")
    with Server(token_auth_file=tokens, tls=False) as server:
        asked = f"FOO {MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer "
        assert spoken(server, f"{asked}wrong\r\n\r\n").startswith(b"HTTP/1.1 401 ")
        assert spoken(server, f"{asked}secret\r\n\r\n").startswith(b"HTTP/1.1 405 ")


def test_unknown_method_on_a_connection_in_use(server: Server) -> None:
    """An unknown method may follow other requests on a connection, and others may follow it."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(f"FOO {MAPS} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 405 ")
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_options_of_the_server(server: Server) -> None:
    """`OPTIONS *` has an empty answer."""
    answer = spoken(server, "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(END)


def test_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed when it was idle for a while; a watch is not idle."""
    monkeypatch.setattr(served, "IDLE_TIMEOUT", 1.0)
    with Server() as server, watch(server, "/api/v1/namespaces") as events:
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=TIMEOUT)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok"
        assert connection.sock.recv(1) == b""
        connection.close()
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}})
        assert "later" in {next(events)["object"]["metadata"]["name"] for _ in range(5)}


def test_client_that_never_reads_is_not_read_either(server: Server) -> None:
    """Requests of a client that reads no answers wait with the client, not in the server's memory."""
    address = urlsplit(server.url)
    requests = f"GET {MAPS}/big HTTP/1.1\r\nHost: a\r\n\r\n".encode() * 1000
    sent, quiet_since = 0, time.monotonic()
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.setblocking(False)
        while time.monotonic() < quiet_since + 0.5:
            try:
                sent += connection.send(requests)
                quiet_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
            assert sent < 32 << 20, "the server reads on"
        assert send(server, "GET", "/healthz").status == 200


def test_body_is_read_as_fast_as_it_is_used(server: Server) -> None:
    """A body that waits for its request behind others stays with the client, beyond a buffer."""
    address = urlsplit(server.url)
    waiting = f"GET {MAPS}?watch=1&timeoutSeconds=600 HTTP/1.1\r\nHost: a\r\n\r\n"
    post = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Length: {1 << 30}\r\n\r\n"
    sent, quiet_since = 0, time.monotonic()
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall((waiting + post).encode())
        connection.setblocking(False)
        while time.monotonic() < quiet_since + 0.3:
            try:
                sent += connection.send(b"x" * (1 << 20))
                quiet_since = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
            assert sent < 32 << 20, "the server reads on"


def test_header_with_a_line_end_is_not_sent() -> None:
    """A header cannot begin another one."""
    for value in ("a\r\nSet-Cookie: b", "a\nb", "a\rb"):
        with pytest.raises(ValueError, match="line end in a header"):
            exchange._encoded("HTTP/1.1 200 OK", [("Warning", value)])


def test_browsers_are_told_of_https() -> None:
    """`--strict-transport-security-directives` gives every answer a header: pages, errors and streams."""
    with Server(strict_transport_security_directives=["max-age=5", "includeSubDomains"]) as server:
        for path in ("/healthz", MAPS, "/nope", f"{MAPS}?watch=1&timeoutSeconds=1"):
            answer = send(server, "GET", path)
            assert answer.headers["Strict-Transport-Security"] == "max-age=5; includeSubDomains", path
    for wrong in ("max-age", "a=b", "max-age=1=2", "preload=1", "includesubdomains"):
        with pytest.raises(ValueError, match=r"^--strict-transport-security-directives invalid, allowed values: "):
            Server(strict_transport_security_directives=[wrong])
