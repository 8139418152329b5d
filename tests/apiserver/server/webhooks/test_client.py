"""Calls of webhooks that go wrong: the texts are those that kube-apiserver quotes in its answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import trustme

from understudy.admission.webhooks import Call, CallError, Reply, Service, Target, target_of
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.apiserver.server.worker.loop_thread import new_loop
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj

AUTHORITY = trustme.CA()
Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"


def bundle(authority: trustme.CA = AUTHORITY) -> str:
    return base64.b64encode(authority.cert_pem.bytes()).decode()


def context(*names: str, not_after: datetime | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(*names, not_after=not_after).configure_cert(made)
    return made


@asynccontextmanager
async def serving(answer: Streams, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l")), 0
    )
    return head + await reader.readexactly(length)


def sending(data: bytes) -> Streams:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(data)
        writer.close()

    return answer


async def call(target: Target, timeout: int = 30, services: ServiceResolver | None = None) -> Reply | CallError:
    client = HttpWebhookClient(services or ServiceResolver(lambda *_: None, lambda *_: (), {}), V1_37)
    try:
        (answer,) = await client.call([Call(target, b"{}", timeout, timeout)])
        return answer.result
    finally:
        await client.close()


async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as an HTTP server does that reads a TLS handshake."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize(
    ("answer", "tls", "authority", "text"),
    [
        (sending(ANSWER), context("127.0.0.1"), AUTHORITY, ""),
        (sending(b""), context("127.0.0.1"), AUTHORITY, "EOF"),
        (
            sending(ANSWER),
            context("127.0.0.1"),
            trustme.CA(),
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (
            sending(ANSWER),
            context("localhost", "example.com"),
            AUTHORITY,
            "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't "
            "contain any IP SANs",
        ),
        (
            sending(ANSWER),
            context("10.0.0.1"),
            trustme.CA(),  # Go looks at the names first
            "tls: failed to verify certificate: x509: certificate is valid for 10.0.0.1, not 127.0.0.1",
        ),
        (refusing, None, AUTHORITY, "http: server gave HTTP response to HTTPS client"),
        (
            sending(b"hello\r\n\r\n"),
            context("127.0.0.1"),
            AUTHORITY,
            'net/http: HTTP/1.x transport connection broken: malformed HTTP response "hello"',
        ),
        (silent, context("127.0.0.1"), AUTHORITY, "context deadline exceeded"),
    ],
    ids=["fine", "closed", "unknown authority", "no IP", "other IP", "plain HTTP", "no HTTP", "silent"],
)
async def test_texts(answer: Streams, tls: ssl.SSLContext | None, authority: trustme.CA, text: str) -> None:
    """Every way in which a call fails has the text that Go gives it."""
    async with serving(answer, tls) as port:
        timeout = 1 if answer is silent else 30
        reply = await call(Target(f"https://127.0.0.1:{port}/x", bundle(authority), None), timeout=timeout)
    if text:
        assert str(reply) == f'Post "https://127.0.0.1:{port}/x?timeout={timeout}s": {text}'
    else:
        assert reply == Reply(200, "application/json", b"{}")


async def test_an_expired_certificate() -> None:
    """An expired certificate is told of before anything else, with both times."""
    async with serving(sending(ANSWER), context("127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC))) as port:
        reply = await call(Target(f"https://127.0.0.1:{port}/x", bundle(), None))
    assert "x509: certificate has expired or is not yet valid: current time 2" in str(reply)
    assert str(reply).endswith(" is after 2020-01-01T00:00:00Z")


async def test_a_port_where_nothing_listens() -> None:
    """A refused connection names the address that was dialled."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        text = f'Post "https://{address}/?timeout=30s": dial tcp {address}: connect: connection refused'
        assert str(await call(Target(f"https://{address}", "", None))) == text


def test_connections_that_are_reset_while_they_are_made() -> None:
    """No socket is left with the descriptor of a file that the event loop has closed: it is soon that of another."""
    reset = struct.pack("ii", 1, 0)  # SO_LINGER
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

        async def connect() -> None:
            target = Target(f"https://127.0.0.1:{listener.getsockname()[1]}/x", bundle(), None)
            for _ in range(400):  # of which a few meet it
                assert isinstance(await call(target), CallError)

        accepting = threading.Thread(target=accept)
        accepting.start()
        loop = new_loop()
        loop.run_until_complete(connect())
        loop.close()
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(warning.message) for warning in unclosed] == []


async def test_redirects_and_retries() -> None:
    """Redirects are followed, by a GET after 302; a busy server is asked again after Retry-After."""
    requests: list[bytes] = []
    answers = [
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /second\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /third\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        ANSWER,
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while len(requests) < len(answers):
            requests.append(await read_request(reader))
            writer.write(answers[len(requests) - 1])
        writer.close()

    async with serving(answer, context("127.0.0.1")) as port:
        assert await call(Target(f"https://127.0.0.1:{port}/first", bundle(), None)) == Reply(
            200, "application/json", b"{}"
        )
    lines = [request.split(b"\r\n")[0].split(b" HTTP")[0] for request in requests]
    assert lines == [b"POST /first?timeout=30s", b"POST /second", b"GET /third", b"POST /first?timeout=30s"]
    assert f"Referer: https://127.0.0.1:{port}/second".encode() in requests[2]
    assert b"Content-Type" not in requests[2]


async def test_a_service() -> None:
    """A webhook behind a Service is reached where the Service is, under the name of the Service."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(ANSWER)
        writer.close()

    target = target_of({"service": {"namespace": "ns", "name": "hook", "path": "x"}, "caBundle": bundle()})
    async with serving(answer, context("hook.ns.svc")) as port:
        services = ServiceResolver(lambda *_: None, lambda *_: (), {"ns/hook": ("127.0.0.1", port)})
        assert isinstance(await call(target, services=services), Reply)
    assert b"Host: hook.ns.svc:443\r\n" in requests[0]
    missing = str(await call(target))
    assert missing == 'Post "https://hook.ns.svc:443/x?timeout=30s": service "hook" not found'


SLICE: Obj = {
    "metadata": {"labels": {"kubernetes.io/service-name": "s"}},
    "ports": [{"name": "", "port": 9443}],
    "endpoints": [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": False}},
        {"addresses": ["10.0.0.2"]},
    ],
}
SUBSETS: Obj = {"subsets": [{"addresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "", "port": 8443}]}]}


@pytest.mark.parametrize(
    ("spec", "slices", "endpoints", "address"),
    [
        ({"type": "ClusterIP", "clusterIP": "1.1.1.1", "ports": [{"port": 443}]}, [], None, ("1.1.1.1", 443)),
        ({"type": "ClusterIP", "clusterIP": "1.1.1.1", "ports": [{"port": 443}]}, [SLICE], None, ("10.0.0.2", 9443)),
        ({"type": "NodePort", "clusterIP": "1.1.1.1", "ports": [{"port": 443}]}, [], SUBSETS, ("10.0.0.3", 8443)),
        ({"type": "ExternalName", "externalName": "example.com"}, [], None, ("example.com", 443)),
        ({"type": "ClusterIP", "clusterIP": "None"}, [], None, 'cannot route to service with ClusterIP "None"'),
        ({"type": "ClusterIP", "clusterIP": "1.1.1.1"}, [], None, 'no service port 443 found for service "s"'),
    ],
)
def test_addresses(spec: Obj, slices: list[Obj], endpoints: Obj | None, address: tuple[str, int] | str) -> None:
    """A Service is reached by its ready endpoints, else by its cluster IP or external name."""
    stored = {"services": {"spec": spec}, "endpoints": endpoints}
    resolver = ServiceResolver(lambda group, resource, *_: stored[resource], lambda *_: slices, {})
    if isinstance(address, str):
        with pytest.raises(CallError, match=f"^{address}$"):
            resolver.resolve(Service("ns", "s", 443))
    else:
        assert resolver.resolve(Service("ns", "s", 443)) == address
