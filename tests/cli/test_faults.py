"""`understudy serve` where the system gives it less than it needs: descriptors, disk space, time to accept."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.http import send, watch
from tests.program import PATIENCE, PROGRAM, limited, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once

MAPS = "/api/v1/namespaces/default/configmaps"
FULL = Path("/dev/full")  # every write to it finds no space left


@contextmanager
def connections(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections, and close them after the block. Raises TimeoutError if the system drops one."""
    parts = urlsplit(url)
    with ExitStack() as stack:
        address = (parts.hostname, parts.port)
        opened = [stack.enter_context(socket.create_connection(address, timeout=5)) for _ in range(count)]
        for connection in opened:
            connection.settimeout(PATIENCE)
        yield opened


def answered(waiting: list[socket.socket]) -> int:
    """Send a request on each connection; return how many are answered, not closed."""
    count = 0
    for connection in waiting:
        with suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            count += connection.recv(15) == b"HTTP/1.1 200 OK"
    return count


def is_served(url: str) -> bool:
    """Report whether a new connection is answered, not closed."""
    try:
        return send(url, "GET", "/healthz").status == 200
    except ConnectionError:
        return False


def test_server_without_descriptors_goes_on_when_some_are_free() -> None:
    """Connections beyond the limit are closed; the others are served, and new ones when descriptors are free."""
    with serving(program=limited("-n 64"), stderr=subprocess.PIPE) as (process, url):
        with connections(url, 100) as waiting:
            assert 30 < answered(waiting) < 64
        wait_until(lambda: is_served(url))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (0, "")


def test_limit_of_descriptors_is_raised() -> None:
    """The server takes as many descriptors as it may have, not only as many as the soft limit says."""
    with serving(program=limited("-S -n 64")) as (_, url), connections(url, 100) as waiting:
        assert answered(waiting) == 100


def test_connections_wait_while_the_server_is_busy() -> None:
    """A server that accepts nothing for a while loses no connection: the system keeps hundreds of them."""
    with serving() as (process, url):
        process.send_signal(signal.SIGSTOP)
        try:
            with connections(url, 400) as waiting:
                process.send_signal(signal.SIGCONT)
                assert answered(waiting) == 400
        finally:
            process.send_signal(signal.SIGCONT)


class Writer(threading.Thread):
    """Creates objects until the server is gone, and counts what was answered."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self.url, self.prefix = url, prefix
        self.statuses: list[int] = []

    def run(self) -> None:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            while True:
                body = f'{{"metadata":{{"name":"{self.prefix}{len(self.statuses)}"}}}}'
                connection.request("POST", MAPS, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
                self.statuses.append(response.status)
        except (HTTPException, OSError):  # the server has ended
            connection.close()


def test_sigterm_under_load() -> None:
    """SIGTERM ends the server amid writes: watches end cleanly with every write before them, the status is 0."""
    with serving(stderr=subprocess.PIPE) as (process, url), ExitStack() as stack:
        watches = [stack.enter_context(watch(url, MAPS)) for _ in range(20)]
        writers = [Writer(url, f"w{number}-") for number in range(4)]
        for writer in writers:
            writer.start()
        first = [next(events)["object"]["metadata"]["name"] for events in watches]
        process.send_signal(signal.SIGTERM)
        seen = [[name, *names(events)] for name, events in zip(first, watches, strict=True)]
        _, errors = process.communicate(timeout=PATIENCE)
        for writer in writers:
            writer.join(PATIENCE)
        assert (process.returncode, errors) == (0, "")
        assert {status for writer in writers for status in writer.statuses} == {201}
        assert all(len(set(of_one)) == len(of_one) > 0 for of_one in seen)


def names(events: Iterator[Any]) -> list[str]:
    """Return the names in the events of a watch until it ends. Raises IncompleteRead if it is cut off."""
    return [event["object"]["metadata"]["name"] for event in events]


@pytest.mark.parametrize(
    ("program", "argv", "message"),
    [
        (PROGRAM, ["--kubeconfig", "missing/kubeconfig"], "missing/kubeconfig: No such file or directory"),
        (PROGRAM, ["--kubeconfig", "."], ".: Is a directory"),
        (PROGRAM, ["--kubeconfig", "link"], "link: is a symbolic link to a file, which would be overwritten"),
        (PROGRAM, ["--kubeconfig", "dangling"], "dangling: is a symbolic link to a file, which would be overwritten"),
        (limited("-f 0"), ["--kubeconfig", "kubeconfig"], "File too large"),
    ],
    ids=["no folder", "a folder", "a link", "a dangling link", "no space"],
)
def test_kubeconfig_that_cannot_be_written(program: list[str], argv: list[str], message: str, tmp_path: Path) -> None:
    """A kubeconfig that cannot be written prints one line and exits with 2, without listening any longer."""
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "dangling").symlink_to("nothing")
    done = subprocess.run(
        [*program, "serve", "--port", "0", *argv], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert message in done.stderr
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["serve", "--port", "0"], ["drivers", "test", "--list"]], ids=" ".join)
def test_output_that_cannot_be_printed(argv: list[str], unbuffered: str) -> None:
    """A program whose output nobody can read ends with one line on stderr, however Python holds output back."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with FULL.open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *argv], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, env=environment
        )
    assert (done.returncode, done.stderr) == (2, "understudy: [Errno 28] No space left on device\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_log_that_cannot_be_written() -> None:
    """A log without space stops no request."""
    with FULL.open("w") as full, serving("-v", stderr=full.fileno()) as (_, url):
        assert [send(url, "GET", "/healthz").status for _ in range(3)] == [200] * 3
