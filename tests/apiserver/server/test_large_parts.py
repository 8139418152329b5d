"""Clients that send much at once, all at the same time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.apiserver.server.test_websockets import Pipe
from tests.waiting import until
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.parser import Received, RequestParser
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.apiserver.storage import turns

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A:\r\n" * 50_000 + b"\r\n"


async def test_large_heads_are_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of large requests the event loop does what else there is to do, and all are answered."""
    happened: list[str] = []
    sizes: list[int] = []
    feed = RequestParser.feed

    def noted(self: RequestParser, data: bytes) -> list[Received]:
        happened.append("read")
        sizes.append(len(data))
        return feed(self, data)

    def tick() -> None:
        happened.append("tick")
        asyncio.get_running_loop().call_soon(tick)

    async def handle(exchange: Exchange) -> None:
        happened.append("answered")

    monkeypatch.setattr(RequestParser, "feed", noted)
    server, pipes = HTTPServer(handle), [Pipe() for _ in range(5)]
    protocols = [server.connect() for _ in pipes]
    tick()
    for protocol, pipe in zip(protocols, pipes, strict=True):
        protocol.connection_made(pipe)
        protocol.data_received(HEAD)
        assert not pipe.is_read
    await until(lambda: happened.count("answered") == 5)
    assert ("read", "read") not in pairwise(event for event in happened if event != "answered")
    assert sum(sizes) == 5 * len(HEAD)
    assert max(sizes) <= 64 * 1024
    assert all(pipe.is_read for pipe in pipes)
    for protocol in protocols:
        protocol.connection_lost(None)


async def test_other_protocols_are_read_in_smaller_parts() -> None:
    """A client that sends very many small messages in another protocol has few of them read in one turn."""
    sizes: list[int] = []

    async def handle(exchange: Exchange) -> None:
        raise AssertionError("there is no request")

    protocol = HTTPServer(handle).connect()
    protocol.connection_made(Pipe())
    protocol.upgrade(lambda data: sizes.append(len(data)))
    protocol.data_received(b"x" * 100_000)
    await until(lambda: sum(sizes) == 100_000)
    assert max(sizes) <= 16 * 1024
    protocol.connection_lost(None)


async def test_client_that_leaves_before_its_turn() -> None:
    """A request is not read if its client leaves while it waits for its turn."""
    answered: list[Exchange] = []

    async def handle(exchange: Exchange) -> None:
        answered.append(exchange)

    server = HTTPServer(handle)
    gone, stays = server.connect(), server.connect()
    for protocol in (gone, stays):
        protocol.connection_made(Pipe())
        protocol.data_received(HEAD)
    gone.connection_lost(None)
    await until(lambda: answered)
    assert len(answered) == 1
    stays.connection_lost(None)


async def test_requests_that_came_at_once_are_answered_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may send hundreds of requests in one go: others have their turn between two of them that take long."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    happened: list[str] = []

    def tick() -> None:
        happened.append("tick")
        asyncio.get_running_loop().call_soon(tick)

    async def handle(exchange: Exchange) -> None:
        happened.append("answered")

    server, pipe = HTTPServer(handle), Pipe()
    protocol = server.connect()
    protocol.connection_made(pipe)
    tick()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
    await until(lambda: happened.count("answered") == 100)
    assert ("answered", "answered") not in pairwise(happened)
    protocol.connection_lost(None)
