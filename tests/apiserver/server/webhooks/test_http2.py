"""Calls of webhooks over HTTP/2: who is offered it, how connections are shared, and what happens when one fails.

The answers to misdeeds of a server were compared with those of kube-apiserver, which was asked beside the same server.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Callable

import pytest

from tests.apiserver.server.webhooks.http2_server import (
    Asked,
    Http2Server,
    ServerConnection,
    break_off,
    drop,
    drop_half,
    fail,
    go_away_after,
    go_away_before,
    go_away_gracefully,
    refuse,
)
from tests.apiserver.server.webhooks.test_client import ANSWER, bundle, context, read_request, serving
from tests.waiting import until
from understudy.admission.webhooks import Call, CallError, Reply, Service, Target, target_of
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.exchange import is_on_this_machine
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.releases.version import V1_37

FINE = Reply(200, "application/json", b"{}")


@pytest.fixture
async def client() -> AsyncIterator[HttpWebhookClient]:
    client = HttpWebhookClient(ServiceResolver(lambda *_: None, lambda *_: (), {}), V1_37)
    yield client
    await client.close()


def target(port: int) -> Target:
    return Target(f"https://127.0.0.1:{port}/x", bundle(), None)


async def call(client: HttpWebhookClient, port: int, *, body: bytes = b"{}", seconds: float = 30) -> Reply | CallError:
    (answer,) = await client.call([Call(target(port), body, seconds, 30)])
    return answer.result


def streams(server: Http2Server) -> list[tuple[int, int]]:
    """Return the connection and the number of every request."""
    return sorted((asked.connection, asked.stream) for asked in server.asked)


async def test_calls_share_a_connection(client: HttpWebhookClient) -> None:
    """Calls at the same time go over one connection, and so does a later one."""
    server = Http2Server()
    server.held = asyncio.Event()
    async with server.serving(context("127.0.0.1")) as port:
        calls = asyncio.gather(*(call(client, port) for _ in range(10)))
        await until(lambda: len(server.asked), lambda number: number == 10)
        server.held.set()
        assert await calls == [FINE] * 10
        assert await call(client, port) == FINE
    assert streams(server) == [(0, number) for number in range(1, 22, 2)]
    assert server.asked[0].headers == {
        ":authority": f"127.0.0.1:{port}",
        ":method": "POST",
        ":path": "/x?timeout=30s",
        ":scheme": "https",
        "accept": "application/json, */*",
        "accept-encoding": "gzip",
        "content-length": "2",
        "content-type": "application/json",
        "user-agent": "kube-apiserver-admission",
    }


async def test_full_connection(client: HttpWebhookClient) -> None:
    """Calls for which the server has no room on a connection make another one."""
    server = Http2Server()
    server.most_streams = 2
    async with server.serving(context("127.0.0.1")) as port:
        await call(client, port)
        server.asked.clear()
        server.held = asyncio.Event()
        calls = asyncio.gather(*(call(client, port) for _ in range(5)))
        await until(lambda: len(server.asked), lambda number: number == 5)
        server.held.set()
        assert await calls == [FINE] * 5
    assert [[number for number, _ in streams(server)].count(number) for number in range(3)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("misdeed", "text", "where"),
    [
        (refuse, "", [(0, 3), (0, 5)]),
        (go_away_before, "", [(0, 3), (1, 1)]),
        (go_away_gracefully, "", [(0, 3)]),
        (fail, "Post {url}: stream error: stream ID 3; INTERNAL_ERROR; received from peer", [(0, 3)]),
        (
            break_off,
            "stream error when reading response body, may be caused by closed connection. Please retry. "
            "Original error: stream error: stream ID 3; INTERNAL_ERROR; received from peer",
            [(0, 3)],
        ),
        (
            go_away_after,
            "Post {url}: http2: server sent GOAWAY and closed the connection; LastStreamID=3, "
            'ErrCode=ENHANCE_YOUR_CALM, debug=""',
            [(0, 3)],
        ),
        (drop, "Post {url}: unexpected EOF", [(0, 3)]),
        (
            drop_half,
            "unexpected error when reading response body. Please retry. Original error: unexpected EOF",
            [(0, 3)],
        ),
    ],
)
async def test_misdeeds(
    client: HttpWebhookClient,
    misdeed: Callable[[ServerConnection, Asked], None],
    text: str,
    where: list[tuple[int, int]],
) -> None:
    """A call is sent again if the server has not looked at it, else it fails with Go's text; the next call succeeds."""
    server = Http2Server()
    async with server.serving(context("127.0.0.1")) as port:
        await call(client, port)
        server.asked.clear()
        server.misdeeds = [misdeed]
        answer = await call(client, port)
        asked = streams(server)
        assert await call(client, port) == FINE
    if text:
        assert str(answer) == text.format(url=f'"https://127.0.0.1:{port}/x?timeout=30s"')
    else:
        assert answer == FINE
    assert asked == where


async def test_server_that_always_goes_away(client: HttpWebhookClient) -> None:
    """Another connection is made at once, however often."""
    server = Http2Server()
    async with server.serving(context("127.0.0.1")) as port:
        server.misdeeds = [go_away_before] * 12  # which would take half an hour if each took twice as long as the last
        assert await call(client, port) == FINE
    assert len(server.connections) == 13


async def test_large_bodies(client: HttpWebhookClient) -> None:
    """Bodies larger than the windows of flow control come as a whole, both ways, and so do compressed ones."""
    server = Http2Server()
    sent, answer = json.dumps({"a": "x" * 300_000}).encode(), b'"' + b"y" * 1_000_000 + b'"'
    async with server.serving(context("127.0.0.1")) as port:
        server.answer = lambda asked: answer
        assert await call(client, port, body=sent) == Reply(200, "application/json", answer)
        assert server.asked[0].body == sent
        server.headers = {"content-encoding": "gzip"}
        server.answer = lambda asked: gzip.compress(answer)
        assert await call(client, port) == Reply(200, "application/json", answer)


async def test_call_that_takes_too_long(client: HttpWebhookClient) -> None:
    """A call that is given up ends its stream, and the connection goes on."""
    server = Http2Server()
    async with server.serving(context("127.0.0.1")) as port:
        await call(client, port)
        server.held = asyncio.Event()
        answer = await call(client, port, seconds=0.1)
        await until(lambda: server.connections[0].resets, lambda resets: resets == [3])
        server.held.set()
        assert await call(client, port) == FINE
    assert str(answer) == f'Post "https://127.0.0.1:{port}/x?timeout=30s": context deadline exceeded'
    assert len(server.connections) == 1


async def test_closing_does_not_wait_for_a_server(client: HttpWebhookClient) -> None:
    """A client that closes ends its calls and connections at once."""
    server = Http2Server()
    server.held = asyncio.Event()
    async with server.serving(context("127.0.0.1")) as port:
        held = asyncio.create_task(call(client, port))
        await until(lambda: len(server.asked), lambda number: number == 1)
        await client.close()
        assert str(await held) == f'Post "https://127.0.0.1:{port}/x?timeout=30s": unexpected EOF'
        await until(lambda: server.connections[0].transport.is_closing(), bool)


async def test_server_that_does_not_do_what_it_agreed_to(client: HttpWebhookClient) -> None:
    """A server that agrees to HTTP/2 and speaks HTTP/1.1 is no webhook."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ANSWER)
        await reader.read()
        writer.close()

    async with serving(answer, offering("h2")) as port:
        reply = await call(client, port)
        await client.close()
    assert str(reply).startswith(f'Post "https://127.0.0.1:{port}/x?timeout=30s": http2: ')


class Http1Server:
    """Speaks HTTP/1.1 and keeps connections; `agreed` is the protocol that TLS has negotiated on each connection."""

    def __init__(self) -> None:
        self.agreed: list[str | None] = []
        self.calls = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.agreed.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        try:
            while True:
                await read_request(reader)
                self.calls += 1
                writer.write(ANSWER)
        except asyncio.IncompleteReadError:
            writer.close()


def offering(*protocols: str) -> ssl.SSLContext:
    made = context("127.0.0.1", "hook.default.svc")
    if protocols:
        made.set_alpn_protocols(protocols)
    return made


@pytest.mark.parametrize(
    ("protocols", "agreed"), [((), [None, None]), (("http/1.1",), ["http/1.1", "http/1.1"])], ids=["none", "HTTP/1.1"]
)
async def test_server_without_http2(
    client: HttpWebhookClient, protocols: tuple[str, ...], agreed: list[str | None]
) -> None:
    """A server that does not agree to HTTP/2 is called over HTTP/1.1; it is asked for HTTP/2 once."""
    server = Http1Server()
    async with serving(server, offering(*protocols)) as port:
        for _ in range(3):
            assert await call(client, port) == FINE
        await client.close()
    assert (server.agreed, server.calls) == (agreed, 3)


async def test_services_are_not_offered_http2() -> None:
    """A webhook behind a Service is called over HTTP/1.1 although it would agree to HTTP/2."""
    server = Http1Server()
    async with serving(server, offering("h2", "http/1.1")) as port:
        services = ServiceResolver(lambda *_: None, lambda *_: (), {"default/hook": ("127.0.0.1", port)})
        client = HttpWebhookClient(services, V1_37)
        service = {"service": {"namespace": "default", "name": "hook"}, "caBundle": bundle()}
        (answer,) = await client.call([Call(target_of(service), b"{}", 30, 30)])
        await client.close()
    assert (answer.result, server.agreed) == (FINE, ["http/1.1"])


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("localhost", True),
        ("LocalHost:8443", True),
        ("127.0.0.1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("webhook", False),
    ],
)
def test_webhooks_that_are_offered_http2(host: str, is_local: bool) -> None:
    """HTTP/2 is offered to addresses of this machine."""
    url = f"https://{host}/x"
    assert is_on_this_machine(Target(url, "", None)) is is_local
    assert not is_on_this_machine(Target(url, "", Service("default", "hook", 443)))
