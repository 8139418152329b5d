"""The end of a server that runs as a program: what it answers between the signal and its end."""

from __future__ import annotations

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.apiserver.server.http2.client import Client
from understudy import Server
from understudy.apiserver.server.http.watch_stream import Pumps
from understudy.apiserver.server.http2 import connection
from understudy.machinery.util.timers import SteeredClock

PATIENCE = 30.0  # seconds that what is expected may take
POST = "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n"
REFUSAL = (
    b"HTTP/1.1 429 Too Many Requests\r\n",
    b"\r\nConnection: close\r\n",
    b"\r\nRetry-After: 5\r\n",
    b"\r\nContent-Type: text/plain; charset=utf-8\r\n",
    b"\r\n\r\nThe apiserver is shutting down, please try again later.\n",
)


class Connection:
    """A connection to a server."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, text: str) -> None:
        self.writer.write(text.encode())

    def get(self, path: str, agent: str = "test") -> None:
        self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\n\r\n")

    async def head(self) -> str:
        """Return the status and the headers of the next answer."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def rest(self) -> bytes:
        """Read to the end of the connection, and return the bytes."""
        return await self.reader.read()


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Connection]:
    host, _, port = server.url.partition("//")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def answer_of(server: Server, path: str, agent: str = "test") -> bytes:
    """Return the answer to a request on a connection of its own, which the client closes."""
    async with connected(server) as connection:
        connection.get(path, agent)
        head = await connection.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return head + await connection.reader.readexactly(length)


@asynccontextmanager
async def ending(server: Server) -> AsyncIterator[Connection]:
    """Let a server begin its end while it waits for the body of a request; yield its connection.

    The block lets the request be answered.
    """
    await server.start()
    try:
        async with asyncio.timeout(PATIENCE), connected(server) as running:
            running.send(POST)
            while not server._lifecycle._listener._connections[0].answering:  # type: ignore[union-attr]
                await asyncio.sleep(0)
            end = asyncio.create_task(server.drain())
            await asyncio.sleep(0.05)
            yield running
            await end
    finally:
        await server.stop()


async def test_running_requests_are_answered_at_the_end() -> None:
    """Idle connections and watches end, nobody can connect, and a running request is answered before its connection
    closes."""
    server = Server()
    await server.start()
    async with (
        asyncio.timeout(PATIENCE),
        connected(server) as idle,
        connected(server) as watch,
        connected(server) as post,
    ):
        idle.get("/readyz")
        assert (await idle.head()).startswith("HTTP/1.1 200 ")
        watch.get("/api/v1/namespaces?watch=true&timeoutSeconds=60")
        assert (await watch.head()).startswith("HTTP/1.1 200 ")
        post.send(POST)
        await asyncio.sleep(0.05)
        end = asyncio.create_task(server.drain())
        assert (await watch.rest()).endswith(b"\r\n0\r\n\r\n")
        assert await idle.rest() == b"ok"
        with pytest.raises(ConnectionError):
            async with connected(server):
                pass
        assert not end.done()
        post.send("garbage")
        answer = await post.rest()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"\r\nConnection: close\r\n" in answer
        await end
    await server.stop()


async def test_other_requests_are_sent_elsewhere_at_the_end() -> None:
    """With `--shutdown-send-retry-after` other requests are refused until what runs is answered, but for probes."""
    server = Server(shutdown_send_retry_after=True)
    async with ending(server) as running:
        async with connected(server) as other:
            other.get("/api/v1/namespaces")
            refusal = await other.rest()
        assert all(part in refusal for part in REFUSAL), refusal
        assert (await answer_of(server, "/livez")).startswith(b"HTTP/1.1 200 ")
        assert (await answer_of(server, "/api/v1", agent="kube-apiserver/v1.37")).startswith(b"HTTP/1.1 200 ")
        unready = await answer_of(server, "/readyz")
        assert unready.startswith(b"HTTP/1.1 500 ")
        assert b"\n[-]shutdown failed: reason withheld\nreadyz check failed\n" in unready
        why = await answer_of(server, "/readyz/shutdown")
        assert why.endswith(b"internal server error: process is shutting down\n")
        running.send("garbage")
        assert "Connection: close" not in await running.head()


async def test_a_server_is_not_ready_before_its_end() -> None:
    """During `--shutdown-delay-duration` everything is answered as before, but for /readyz."""
    server = Server(shutdown_delay_duration="300ms")
    async with ending(server) as running:
        assert (await answer_of(server, "/api/v1")).startswith(b"HTTP/1.1 200 ")
        assert (await answer_of(server, "/readyz")).startswith(b"HTTP/1.1 500 ")
        running.send("garbage")
        assert "Connection: close" not in await running.head()


def test_clients_of_http2_are_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of HTTP/2 is told to go away, and gets the answer that it waits for."""
    monkeypatch.setattr(connection, "_GOODBYE", 0.1)
    with Server(tls=True) as server, Client(server.url) as client:
        number = client.begin("POST", "/api/v1/namespaces", ends=False)
        assert client.ask("GET", "/readyz").status == 200
        with ThreadPoolExecutor() as threads:
            end = threads.submit(server._run, server.drain())
            client.until(lambda: client.went_away is not None)
            client.send(number, b"garbage")
            assert client.answer(number).status == 400
            end.result(PATIENCE)


def test_clients_of_http2_are_sent_elsewhere() -> None:
    """With `--shutdown-send-retry-after` a client of HTTP/2 is refused and told to go away; others are answered."""
    with (
        Server(tls=True, shutdown_send_retry_after=True) as server,
        Client(server.url) as client,
        Client(server.url) as other,
    ):
        number = client.begin("POST", "/api/v1/namespaces", ends=False)
        assert [each.ask("GET", "/readyz").status for each in (client, other)] == [200, 200]
        with ThreadPoolExecutor() as threads:
            end = threads.submit(server._run, server.drain())
            while (refusal := other.ask("GET", "/api/v1")).status == 200:
                """The end has not begun."""
            assert (refusal.status, refusal.headers["retry-after"]) == (429, "5")
            assert other.went_away is not None
            client.send(number, b"garbage")
            assert client.answer(number).status == 400
            end.result(PATIENCE)


@pytest.mark.parametrize(("grace", "seconds"), [(0.0, 0.0), (1.0, 0.01)])
async def test_watches_end_a_part_at_a_time(grace: float, seconds: float) -> None:
    """Within `--shutdown-watch-termination-grace-period` watches end evenly, two hundred a second at least."""
    pumps, ended = Pumps(SteeredClock()), list[float]()

    class Watch:
        def close(self) -> None:
            ended.append(asyncio.get_running_loop().time())

        def wake(self) -> None:
            """Send nothing."""

    watches: list[Any] = [Watch() for _ in range(3)]
    for watch in watches:
        pumps.add(watch, watch)
    await pumps.drain(grace)
    assert len(ended) == 3
    assert ended[-1] - ended[0] >= seconds * 0.9
    pumps.add(watches[0], watches[0])
    assert len(ended) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shutdown_delay_duration": "-1s"}, "--shutdown-delay-duration can not be negative value"),
        ({"shutdown_delay_duration": "soon"}, "--shutdown-delay-duration: want a time such as 15s"),
        (
            {"shutdown_watch_termination_grace_period": "-1s"},
            "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
        ),
    ],
)
def test_odd_times_are_refused(options: dict[str, str], message: str) -> None:
    """Times that make no sense are refused, with the texts of kube-apiserver."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Server(**options)  # type: ignore[arg-type]
