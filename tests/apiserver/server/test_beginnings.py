"""Requests that come at once begin a few in each turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.apiserver.server.test_websockets import Pipe
from tests.waiting import until
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.server.http import beginnings
from understudy.apiserver.server.http.handler import handler
from understudy.apiserver.server.http.watch_stream import Pumps
from understudy.apiserver.server.http1.protocol import HTTPServer
from understudy.machinery.releases.version import V1_37
from understudy.machinery.util.clock import SystemClock

CLIENTS = 30


async def turns_of_requests(*, leaving: int = 0) -> list[int]:
    """Send requests over many connections in one turn; return how many began in each turn, from the first on.

    Some of the clients leave before anything else happens.
    """
    turn, begun = 0, Counter[int]()

    def tick() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(tick)

    async def answer(request: Request) -> Response:
        begun[turn] += 1
        return Response(200, b"")

    server, pipes = HTTPServer(handler(answer, Pumps(SystemClock()), V1_37)), [Pipe() for _ in range(CLIENTS)]
    protocols = [server.connect() for _ in pipes]
    tick()
    for protocol, pipe in zip(protocols, pipes, strict=True):
        protocol.connection_made(pipe)
    await asyncio.sleep(0)
    for protocol in protocols:
        protocol.data_received(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    while not begun:
        await asyncio.sleep(0)
    for protocol in protocols[CLIENTS - leaving :]:
        protocol.connection_lost(None)
    await until(lambda: begun.total() == CLIENTS - leaving)
    await asyncio.sleep(0.01)
    for protocol in protocols:
        protocol.connection_lost(None)
    assert begun.total() == CLIENTS - leaving
    return [begun[number] for number in range(min(begun), max(begun) + 1)]


async def test_requests_begin_in_one_turn_for_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that came at once begin at once, as long as they take little time."""
    monkeypatch.setattr(beginnings, "SLICE", 3600.0)
    assert await turns_of_requests() == [CLIENTS]


async def test_others_have_their_turn_between_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few requests begin in each turn behind those that took a slice."""
    monkeypatch.setattr(beginnings, "SLICE", 0.0)
    first, *later = await turns_of_requests()
    assert first == 1
    assert max(later) == beginnings.AT_ONCE


async def test_client_that_leaves_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests whose clients leave before their turn are not answered, the others are."""
    monkeypatch.setattr(beginnings, "SLICE", 0.0)
    assert sum(await turns_of_requests(leaving=20)) == CLIENTS - 20
