"""scripts.torture fuzz: its requests are the same for a seed, each of its checks can fail, and a server passes them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.common.comparing import Server as Client
from scripts.torture import fuzz
from scripts.torture.inputs.requests import RequestGenerator, Sent, read_corpus
from tests.scripts.commands import run
from understudy import Server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ERROR = b'HTTP/1.1 500 Oops\r\nContent-Length: 18\r\n\r\n{"message":"boom"}'
EXPECTED_ERROR = b'HTTP/1.1 500 Oops\r\nContent-Length: 41\r\n\r\n{"message":"no kind \\"a\\" is registered"}'

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class OneRequest:
    """Makes the same request for every number."""

    def __init__(self, sent: Any) -> None:
        self.sent = sent

    def request(self, number: int) -> Any:
        return self.sent


class BusyProcess:
    """A process that uses two seconds of CPU whenever it is looked at."""

    def __init__(self) -> None:
        self.used = 0.0

    def cpu_seconds(self) -> float:
        self.used += 2.0
        return self.used


def answering(answer: bytes, health: bytes = OK) -> Handle:
    """Return the handler of a server that gives one answer, and another to /healthz; none for an empty one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                sent = health if b"/healthz" in head else answer
                writer.write(sent)
                if not sent:
                    break
        writer.close()

    return handle


async def failures(handle: Handle, process: Any = None) -> list[str]:
    """Send three requests to a server with a handler; return what has failed."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    report = fuzz.Report()
    generator: Any = OneRequest(Sent("GET", "/version"))
    fuzzer = fuzz.Fuzzer(f"http://127.0.0.1:{port}", generator, report, process, ("", ""))
    async with server:
        await fuzzer.run(range(3), 1)
        await asyncio.sleep(0.1)
    return sorted(report.failures)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(OK, []), (EXPECTED_ERROR, []), (ERROR, ["N boom"]), (b"", ["no answer: IncompleteReadError('N bytes read "])],
    ids=["ok", "error of the real server", "error", "dropped"],
)
async def test_bad_answer_is_a_failure(answer: bytes, expected: list[str]) -> None:
    """A status of 5xx that the real server does not give, and a dropped connection, are failures."""
    assert [kind[:45] for kind in await failures(answering(answer))] == expected


async def test_unhealthy_server_is_a_failure() -> None:
    """A /healthz that does not answer 200 is a failure."""
    assert await failures(answering(OK, health=ERROR)) == ["/healthz: N b'{N:N}'"]


async def test_busy_server_is_a_failure() -> None:
    """A second of CPU without an answer is a failure."""
    (kind,) = await failures(answering(OK), BusyProcess())
    assert kind.startswith("nobody was answered for N.N s of CPU")


def test_requests_are_those_of_their_seed() -> None:
    """A seed and a number make the same request for two servers, and another seed makes others."""
    generators = []
    for seed in (1, 1, 2):
        with Server() as server, Client(server.url) as client:
            generators.append(RequestGenerator(read_corpus(client), seed))
    first, same, other = ([made.request(number) for number in range(300)] for made in generators)
    is_json = [sent.headers[:1] != [("Content-Type", "application/vnd.kubernetes.protobuf")] for sent in first]
    assert sum(is_json) > 250
    assert [a for a, keep in zip(first, is_json, strict=True) if keep] == [
        b for b, keep in zip(same, is_json, strict=True) if keep
    ]
    assert first != other


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the server's CPU and memory from /proc")
def test_server_withstands_the_fuzzer() -> None:
    """Thousands of broken requests get no wrong 5xx, stop nothing and print nothing."""
    done = run("torture", "fuzz", "--requests", "4000", "--seed", "1", timeout=240)
    assert (done.returncode, "FAILED" in done.stdout, done.stderr) == (0, False, ""), done.stdout
