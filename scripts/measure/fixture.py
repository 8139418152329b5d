"""Measure what a test pays for its server: the next one in a process, reset, snapshot and restore."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

from understudy import Server


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


def print_fixture_times(rounds: int) -> None:
    """Print the times of what the fixture does for a test, on a server that holds what it begins with."""
    with ExitStack() as running:
        server = running.enter_context(Server())
        before = server.snapshot()
        calls: dict[str, tuple[Callable[[], object], int]] = {
            "the next server in a process": (lambda: running.enter_context(Server()), rounds),
            "reset": (server.reset, 20 * rounds),
            "snapshot": (server.snapshot, 20 * rounds),
            "restore": (lambda: server.restore(before), 20 * rounds),
        }
        for name, (call, times) in calls.items():
            median, worked = milliseconds(call, times)
            print(f"{name:52s} {median:8.2f} ms  (processor {worked:.2f})")
