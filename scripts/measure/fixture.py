"""Measure what a test pays for its server: the first one and the next in a process, reset, snapshot and restore."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from understudy import Server

# Prints the seconds of the clock and of the processor. What pytest has imported already does not count.
FIRST = """
import time
from contextlib import ExitStack
from understudy.pytest_plugin import start_server
with ExitStack() as running:
    began, worked = time.perf_counter(), time.process_time()
    start_server({}, running)
    print(time.perf_counter() - began, time.process_time() - worked)
"""


def milliseconds(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median of the milliseconds by the clock that a call takes, and the mean of those of the processor."""
    call()
    took = []
    worked = time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000, (time.process_time() - worked) / rounds * 1000


def first_server() -> tuple[float, float]:
    """Return the milliseconds by the clock, and those of the processor, that the first test of a suite waits."""
    printed = subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True, text=True).stdout
    took, worked = (float(seconds) * 1000 for seconds in printed.split())
    return took, worked


def print_row(name: str, took: float, worked: float) -> None:
    print(f"{name:52s} {took:8.2f} ms  (processor {worked:.2f})")


def print_fixture_times(rounds: int) -> None:
    """Print the times of what the fixture does for a test, on a server that holds what it begins with."""
    first = [first_server() for _ in range(rounds)]
    print_row("the first server in a process", *(statistics.median(times) for times in zip(*first, strict=True)))
    with ExitStack() as running:
        server = running.enter_context(Server())
        before = server.snapshot()
        calls: dict[str, tuple[Callable[[], object], int]] = {
            "reset": (server.reset, 20 * rounds),
            "snapshot": (server.snapshot, 20 * rounds),
            "restore": (lambda: server.restore(before), 20 * rounds),
            "the next server in a process": (lambda: running.enter_context(Server()), rounds),  # all run to the end
        }
        for name, (call, times) in calls.items():
            print_row(name, *milliseconds(call, times))
