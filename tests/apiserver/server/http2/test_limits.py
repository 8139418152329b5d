"""Clients of HTTP/2 that ask too much of a server, or break the rules of a connection."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest
from h2.errors import ErrorCodes
from h2.events import Event
from multidict import CIMultiDict

from tests.apiserver.server.http2.client import MAPS, Client
from tests.apiserver.server.http2.exchanges import PING
from understudy import Server
from understudy.apiserver.endpoints.request import Delivery
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.served import Handler
from understudy.apiserver.server.http2 import connection
from understudy.apiserver.server.http2.connection import Http2Connection, Http2Server
from understudy.apiserver.server.http2.encoder import PlainEncoder
from understudy.apiserver.server.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, frame
from understudy.apiserver.server.http2.reader import PREFACE
from understudy.apiserver.server.http2.rules import LargeBlockError, PatientDecoder, Rules
from understudy.machinery.releases.version import V1_37

GET = PlainEncoder().encode([(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/")])


def ended_by(client: Client, data: bytes) -> tuple[int, int] | None:
    """Send bytes on a connection that has had one request; return the GOAWAY that ends it."""
    assert client.ask("GET", "/healthz").status == 200
    client.socket.sendall(data)
    client.until(lambda: client.went_away is not None)
    return client.went_away


def test_more_streams_than_allowed() -> None:
    """The limit is told to clients, and who does not keep to it has its streams refused."""
    with Server(tls=True, http2_max_streams_per_connection=3) as server, Client(server.url) as client:
        watches = [client.begin("GET", f"{MAPS}?watch=true") for _ in range(3)]
        client.until(lambda: all(client.answers[number].status == 200 for number in watches))
        assert client.http2.remote_settings.max_concurrent_streams == 3
        client.http2.remote_settings.max_concurrent_streams = 100
        client.http2.remote_settings.acknowledge()
        assert client.ask("GET", "/healthz").reset == ErrorCodes.PROTOCOL_ERROR
        client.http2.reset_stream(watches[0])
        client.flush()
        assert client.ask("GET", "/healthz").status == 200


def test_many_small_headers_are_read_beside_the_loop() -> None:
    """Five thousand bytes may stand for as many headers, and so for 20 ms of work."""
    with pytest.raises(LargeBlockError):
        PatientDecoder().decode(b"\x40\x01a\x01b" + b"\xbe" * 5000)


def test_large_headers(client: Client) -> None:
    """Headers of a megabyte are refused with a page, twice as many with the connection."""
    line = ("x", "y" * 50_000)
    assert client.ask("GET", "/healthz", [line] * 20).status == 200
    refused = client.ask("GET", "/healthz", [line] * 22)
    assert (refused.status, refused.headers["content-type"]) == (431, "text/html; charset=utf-8")
    number = client.begin("GET", "/healthz", [("x", f"{i}" + "\x7e" * 16_000) for i in range(150)])
    client.until(lambda: client.went_away is not None)
    assert client.went_away == (number, ErrorCodes.PROTOCOL_ERROR)


def test_headers_that_cannot_be_read(client: Client) -> None:
    """Large headers are read beside the event loop; errors in them end the connection as those of small ones do."""
    assert ended_by(client, frame(1, 5, 3, b"\xff\xff\xff\xff\x0f" * 2000)) == (1, ErrorCodes.COMPRESSION_ERROR)


def test_many_small_headers(client: Client) -> None:
    """A request behind large headers is answered behind them."""
    many = client.begin("GET", "/healthz", [(f"x{i}", "y") for i in range(5000)])
    few = client.begin("GET", "/healthz")
    assert [client.answer(number).status for number in (many, few)] == [200, 200]


class FullPipe(asyncio.Transport):
    """A connection whose client reads nothing, and sends on whatever the server wants."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = b""
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unread += data

    def get_write_buffer_size(self) -> int:
        return len(self.unread)

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


def connected(handle: Handler, most_streams: int = 100) -> tuple[Http2Connection, FullPipe]:
    """Return a new connection of a server, behind the client's first settings, and its pipe."""
    protocol, pipe = Http2Server(handle, V1_37, most_streams).connect(), FullPipe()
    protocol.connection_made(pipe)
    protocol.data_received(PREFACE + frame(4, 0, 0))
    return protocol, pipe


async def test_requests_that_are_given_up_at_once() -> None:
    """A client that opens and resets streams faster than their requests end loses the connection (CVE-2023-44487)."""
    may_end = asyncio.Event()

    async def handle(exchange: Exchange) -> None:
        with suppress(asyncio.CancelledError):
            await may_end.wait()
        await may_end.wait()

    protocol, pipe = connected(handle, most_streams=3)
    for number in range(1, 100, 2):
        protocol.data_received(frame(1, 5, number, GET))
        await asyncio.sleep(0)
        protocol.data_received(frame(3, 0, number, (8).to_bytes(4)))
    assert frame(7, 0, 0, (33).to_bytes(4) + ErrorCodes.ENHANCE_YOUR_CALM.to_bytes(4)) in pipe.unread
    may_end.set()
    protocol.connection_lost(None)


async def test_closed_connections_keep_nothing_of_headers() -> None:
    """Headers that do not end, and frames that are not whole, are forgotten with their connection."""

    async def handle(exchange: Exchange) -> None:
        raise AssertionError("nothing is asked")

    tracemalloc.start()
    try:
        protocol, _ = connected(handle)
        before, _ = tracemalloc.get_traced_memory()
        protocol.data_received(frame(1, 0, 1, GET))
        for number in range(50):
            protocol.data_received(frame(9, 0, 1, bytes((number,)) * 16_000))
        protocol.data_received(frame(9, 4, 1, b"x" * 16_000)[:-1])
        held, _ = tracemalloc.get_traced_memory()
        protocol.connection_lost(None)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before > 50 * 16_000
    assert kept - before < 16_000


async def test_few_requests_begin_in_one_turn() -> None:
    """Begin few of the requests that come at once, then let others have their turn of the event loop."""
    begun = 0

    async def handle(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        await exchange.send(200, CIMultiDict())

    protocol, _ = connected(handle)
    protocol.data_received(b"".join(frame(1, 5, number, GET) for number in range(1, 100, 2)))
    counts: list[int] = []
    while begun < 50:
        assert len(counts) < 1000
        counts.append(begun)
        await asyncio.sleep(0)
    assert max(after - before for before, after in pairwise(counts)) < 10
    protocol.connection_lost(None)


async def test_parts_of_a_body_without_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass over empty parts of a body, which a client may send by the million, until one of them ends it."""
    read: list[bytes] = []
    frames = Counter[int]()

    async def handle(exchange: Exchange) -> None:
        read.append(await exchange.body.read_all())
        await exchange.send(200, CIMultiDict())

    receive = Rules.receive_data

    def count(rules: Rules, data: bytes) -> list[Event]:
        frames[data[3]] += 1
        return receive(rules, data)

    monkeypatch.setattr(Rules, "receive_data", count)
    protocol, _ = connected(handle)
    protocol.data_received(frame(HEADERS, END_HEADERS, 1, GET.replace(b"GET", b"PUT")))
    for data in (frame(DATA, 0, 1) * 5000, frame(DATA, 0, 1, b"body") + frame(DATA, 0, 1), frame(DATA, END_STREAM, 1)):
        protocol.data_received(data)
    while not read:
        await asyncio.sleep(0)
    assert read == [b"body"]
    assert frames[DATA] == 2
    protocol.connection_lost(None)


async def test_head_of_an_answer_without_its_body() -> None:
    """Send the head of an answer before a fault cuts off the whole body."""

    async def handle(exchange: Exchange) -> None:
        exchange.impair(Delivery(body_bytes=0))
        await exchange.send(200, CIMultiDict(), [b"body"])

    protocol, pipe = connected(handle)
    protocol.data_received(frame(1, 5, 1, GET))
    while not pipe.is_aborted:
        await asyncio.sleep(0)
    assert frame(1, 4, 1)[3:] in pipe.unread
    protocol.connection_lost(None)


async def test_answers_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks for answers to PINGs and does not read them loses the connection (CVE-2019-9512)."""
    monkeypatch.setattr(connection, "_MOST_UNREAD", 20_000)

    async def handle(exchange: Exchange) -> None:
        raise AssertionError

    protocol, pipe = connected(handle)
    protocol.pause_writing()
    sent = 0
    while not pipe.is_aborted:
        assert sent < 100_000
        protocol.data_received(PING * 50)
        sent += 50 * len(PING)
        await asyncio.sleep(0)
    assert sent > 10_000
    protocol.connection_lost(None)


def test_bodies_of_abandoned_streams() -> None:
    """Bytes of them that nobody read make room for others on the connection."""
    with Server(tls=True, http2_max_streams_per_connection=2) as server, Client(server.url) as client:
        for _ in range(20):
            number = client.begin("POST", MAPS, [("content-type", "application/json")], ends=False)
            client.send(number, b"x" * 60_000, ends=False)
            client.http2.reset_stream(number)
        assert client.ask("GET", "/healthz").status == 200
