"""Bodies of requests: how they are cut out of what comes, how long they may take, and how many are held at once."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest

from tests.counting import counted_calls
from tests.http import TIMEOUT
from tests.waiting import until
from understudy import Server
from understudy.apiserver.server.http1.body import Body, ChunkedReader
from understudy.apiserver.server.http1.head import HeadReader
from understudy.apiserver.server.http1.request_bodies import HeldBodies

MANY = 20_000


@pytest.mark.parametrize("chunk", [b"1\r\na\r\n", b"1;x\r\na\r\n", b"0001\r\na\r\n"])
def test_tiny_chunks_are_read_in_one_pass(chunk: bytes) -> None:
    """Chunks that have come as a whole are read together, however many they are."""
    ChunkedReader(Body(lambda: None)).read(chunk + b"0\r\n\r\n", 0)  # patterns are compiled by now
    body = Body(lambda: None)
    reader = ChunkedReader(body)
    with counted_calls() as calls:
        reader.read(chunk * MANY + b"0\r\n\r\n", 0)
    assert calls.count < 100
    assert (body.take(), body.is_complete) == (b"a" * MANY, True)


def test_many_headers_are_read_in_one_pass() -> None:
    """Headers that have come as a whole are read together, however many they are."""
    HeadReader().read(b"GET / HTTP/1.1\r\nHost: a\r\na: b\r\n\r\n", 0)  # patterns are compiled by now
    reader = HeadReader()
    reader.read(b"GET / HTTP/1.1\r\nHo", 0)
    data = b"st: a\r\n" + b"a: b\r\n" * MANY + b"\r\n"
    with counted_calls() as calls:
        reader.read(data[:-1], 0)
    assert calls.count < 100
    head, _ = reader.read(data[-1:], 0)
    assert head is not None
    assert len(head.headers) == MANY + 1


def test_body_that_takes_too_long() -> None:
    """A request whose body does not come in time is answered with 504, and the connection ends."""
    with Server() as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=TIMEOUT) as connection:
            request = (
                "POST /api/v1/namespaces?timeout=1ms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 300000\r\n\r\n{"
            )
            connection.sendall(request.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"Timeout: request did not complete within the allotted timeout" in answer


async def test_large_bodies_wait_for_memory() -> None:
    """Large bodies for which there is no room wait, and get it in the order in which they came."""
    bodies, order = HeldBodies(10), []

    async def hold(size: int) -> None:
        await bodies.acquire(size)
        order.append(size)

    await bodies.acquire(7)
    waiting = [asyncio.create_task(hold(size)) for size in (8, 2, 1)]
    await asyncio.sleep(0)
    assert order == []
    bodies.release(7)
    await until(lambda: order == [8, 2])
    bodies.release(8)
    await asyncio.gather(*waiting)
    assert order == [8, 2, 1]


async def test_client_that_leaves_gives_its_turn_back() -> None:
    """A request that is given up while it waits for memory lets those behind it go on, and keeps nothing."""
    bodies = HeldBodies(10)
    await bodies.acquire(7)
    given_up, behind = asyncio.create_task(bodies.acquire(8)), asyncio.create_task(bodies.acquire(3))
    await asyncio.sleep(0)
    given_up.cancel()
    await behind
    bodies.release(7)
    late = asyncio.create_task(bodies.acquire(10))
    await asyncio.sleep(0)
    bodies.release(3)  # the turn of `late` has come, but it does not know yet
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    await bodies.acquire(10)


async def test_memory_of_cancelled_requests_is_free() -> None:
    """Memory that is given back goes to nobody who waited for it, was cancelled, and does not know yet."""
    bodies = HeldBodies(10)
    await bodies.acquire(10)
    leaving, behind = asyncio.create_task(bodies.acquire(8)), asyncio.create_task(bodies.acquire(10))
    await asyncio.sleep(0)
    leaving.cancel()
    bodies.release(10)
    await behind
    await asyncio.gather(leaving, return_exceptions=True)
    bodies.release(10)
    await bodies.acquire(10)
