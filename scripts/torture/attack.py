"""Attack a server in every way in which one was once held up or filled, and measure what others notice of it.

    python -m scripts.torture attack [NAME …]     cases whose names begin so (default: all), each on a new server
    python -m scripts.torture attack --beside "python3 real_server.py" …     then each on another server, to compare
    python -m scripts.torture attack --command "python3 real_server.py" …    on another server only

A server is `COMMAND serve --port 0 --emulated-version RELEASE --token-auth-file FILE`, with the flags of the case.
Beside each attack /healthz is asked every 20 milliseconds, over one connection. A line tells the longest time that it
took to answer and the most CPU that the server used meanwhile, by the server's own metrics the longest time in which
its event loop answered nobody and the most CPU that the loop used in one, the time and CPU of the whole attack, the
resident memory of all processes of the server before, at its highest and at the end, how long it took to stop, and
what the attack saw. A table of all cases comes last (`--table FILE` writes it to a file as well).

The exit status is 1 if understudy used more than half a second of CPU before it answered /healthz (its time counts on
an idle machine only), if 50 MiB more than before stay where nothing was to be kept, if it needed more than ten seconds
to stop, or if nothing was attacked.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shlex
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from scripts.common.pauses import longest_pauses
from scripts.common.server_process import UNDERSTUDY, ServerProcess
from scripts.torture.attacks import cel, edge, http2, lists, objects, users
from scripts.torture.attacks.case import Case, Target, read_to_end, status_of

CASES = (*edge.CASES, *http2.CASES, *cel.CASES, *users.CASES, *lists.CASES, *objects.CASES)
TOKEN, USER_TOKEN = "torturetoken", "usertoken"
MAPS = "/api/v1/namespaces/default/configmaps"
COLUMNS = ("/healthz", "pause", "MiB before, highest, after", "stop", "answer")
HEALTH_SECONDS = 0.5  # of CPU that /healthz may wait
GROWTH = 50.0  # MiB that may stay
STOPPING = 10.0  # seconds that it may take to stop
SETTLING = 25.0  # seconds that memory gets to come down: a server gives it back every ten


class Watcher:
    """Asks /healthz again and again, and looks at the memory of the server, in a thread of its own."""

    def __init__(self, target: Target, server: ServerProcess) -> None:
        self._target = target
        self._server = server
        self._stopped = threading.Event()
        self.longest = 0.0
        self.most_cpu = 0.0
        self.highest = 0.0
        self.failures = 0
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        connection: socket.socket | None = None
        request = f"GET /healthz HTTP/1.1\r\nHost: a\r\n{self._target.authorization}\r\n".encode()
        while not self._stopped.wait(0.02):
            began, cpu = time.monotonic(), self._server.cpu_seconds()
            try:
                connection = connection or self._target.connect()
                connection.sendall(request)
                if b"200 OK" not in connection.recv(1 << 16):
                    raise ConnectionError
            except OSError:
                self.failures += 1
                connection = None
            self.longest = max(self.longest, time.monotonic() - began)
            self.most_cpu = max(self.most_cpu, self._server.cpu_seconds() - cpu)
            self.highest = max(self.highest, self._server.memory_mib())
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class Outcome:
    """The effect of one case on a server: waits in seconds, memory in MiB."""

    saw: str
    health: float = 0.0
    health_cpu: float = 0.0
    failures: int = 0
    pause: float = 0.0
    pause_cpu: float = 0.0
    took: float = 0.0
    cpu: float = 0.0
    before: float = 0.0
    highest: float = 0.0
    after: float = 0.0
    stop: float = 0.0

    def failed(self, *, keeps: bool) -> bool:
        """Report whether others noticed too much of it; memory that was to be kept does not count."""
        grown = self.after > self.before + GROWTH and not keeps
        return self.health_cpu > HEALTH_SECONDS or grown or self.failures > 0 or self.stop > STOPPING

    @property
    def _health(self) -> str:
        missing = f", {self.failures} times none" if self.failures else ""
        return f"{self.health:.2f} s, {self.health_cpu:.2f} of CPU{missing}"

    @property
    def _pause(self) -> str:
        return f"{self.pause * 1e3:.0f} ms, {self.pause_cpu * 1e3:.0f} of CPU"

    def __str__(self) -> str:
        memory = f"{self.before:4.0f} {self.highest:5.0f} {self.after:5.0f} MiB"
        times = f"{self.took:6.1f} s  {self.cpu:6.1f} s of CPU"
        waits = f"/healthz {self._health}  pause {self._pause}"
        return f"{waits}  {times}  {memory}  stopped in {self.stop:.1f} s  {self.saw}"

    def cells(self) -> list[str]:
        """Return the cells of a table: /healthz, pause, memory, stop, answer."""
        memory = f"{self.before:.0f} → {self.highest:.0f} → {self.after:.0f}"
        return [self._health, self._pause, memory, f"{self.stop:.1f} s", self.saw.replace("|", "\\|")]


def _attack(case: Case, target: Target, results: multiprocessing.SimpleQueue[str]) -> None:
    results.put(case.attack(target))


def torture(case: Case, command: list[str], release: str) -> Outcome:
    """Run a case on a new server."""
    with tempfile.TemporaryDirectory() as name, case.prepare(folder := Path(name)) as prepared:
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n{USER_TOKEN},ann,ann\n")
        own = [flag.format(folder=folder) for flag in case.own if command == list(UNDERSTUDY)]
        flags = ["--emulated-version", release, "--token-auth-file", str(tokens), *case.flags, *prepared, *own]
        with ServerProcess(*flags, program=command) as server:
            outcome = _measure(case, Target(server.url, TOKEN, USER_TOKEN, folder), server)
            began = time.monotonic()
            server.stop()
            return replace(outcome, stop=time.monotonic() - began)


def _measure(case: Case, target: Target, server: ServerProcess) -> Outcome:
    _warm(target)
    before, cpu, began = server.memory_mib(), server.cpu_seconds(), time.monotonic()
    fork = multiprocessing.get_context("fork")
    results: multiprocessing.SimpleQueue[str] = fork.SimpleQueue()
    with Watcher(target, server) as watcher:
        attacker = fork.Process(target=_attack, args=(case, target, results))
        attacker.start()
        attacker.join(case.seconds)
        saw = "did not end in time" if attacker.is_alive() else "failed" if results.empty() else results.get()
        attacker.kill()
        took = time.monotonic() - began
    after = server.memory_mib() if case.keeps else _settled(server, before)
    used = server.cpu_seconds() - cpu
    pauses = longest_pauses(target.send("GET", "/metrics")[1].decode())
    waits = watcher.longest, watcher.most_cpu, watcher.failures, *pauses
    return Outcome(saw, *waits, took, used, before, watcher.highest, after)


def _warm(target: Target) -> None:
    """Send some requests, so that what they load does not count."""
    for path in ("/healthz", "/api/v1/namespaces", "/version", "/nothing"):
        with target.connect() as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: a\r\n{target.authorization}Connection: close\r\n\r\n"
            connection.sendall(request.encode())
            if not status_of(read_to_end(connection)):
                sys.exit(f"no answer to GET {path}")
    target.send("POST", MAPS, b'{"metadata":{"name":"first"}}')
    target.send("DELETE", f"{MAPS}/first")


def _settled(server: ServerProcess, before: float) -> float:
    """Return the memory of a server after it had time to give back what it took."""
    deadline = time.monotonic() + SETTLING
    while (memory := server.memory_mib()) > before + GROWTH and time.monotonic() < deadline:
        time.sleep(0.2)
    return memory


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases whose names begin so (default: all)")
    parser.add_argument("--emulated-version", default="1.32", help="release of the server (default: 1.32)")
    parser.add_argument("--command", default="", help="another server, for example 'python3 real_server.py'")
    parser.add_argument("--beside", default="", help="a server that is attacked after it in every case")
    parser.add_argument("--table", type=Path, metavar="FILE", help="where to write the table of all cases")


def run(options: argparse.Namespace) -> int:
    commands = [shlex.split(options.command) or list(UNDERSTUDY), *filter(None, [shlex.split(options.beside)])]
    columns, rows, failed = ["case", *COLUMNS * len(commands)], [], []
    for case in CASES:
        if not case.name.startswith(tuple(options.names) or ""):
            continue
        outcomes = [_outcome(case, command, options.emulated_version) for command in commands]
        rows.append([case.name, *chain.from_iterable(outcome.cells() for outcome in outcomes)])
        if outcomes[0].failed(keeps=case.keeps):
            failed.append(case.name)
        if options.table:
            options.table.write_text(_table(columns, rows))
    print(_table(columns, rows))
    print(f"too much of it was noticed: {', '.join(failed)}" if failed else f"{len(rows)} attacks, none was noticed")
    return 1 if failed or not rows else 0


def _outcome(case: Case, command: list[str], release: str) -> Outcome:
    """Run a case on a new server, unless the server lacks what it attacks, and print what came of it."""
    is_own = command == list(UNDERSTUDY)
    if case.missing and not is_own:
        return Outcome(case.missing)
    try:
        outcome = torture(case, command, release)
    except RuntimeError as why:
        outcome = Outcome(f"{why}"[:300].replace("\n", " "), failures=1)
    print(f"{case.name:30s} {'' if is_own else 'other '}{outcome}", flush=True)
    return outcome
