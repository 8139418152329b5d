"""Turns of an event loop: work that may take long is done in slices, and others have their turn between two of them.

    turns = Turns()
    for entry in entries:
        work(entry)
        if turns.is_over:
            await turns.next()

A coroutine gives up its turn by a bare `yield`, which every event loop of asyncio understands and `run_to_end`, without
a loop, answers without waiting. However many coroutines of one loop work in turns, there is one slice of all of them
between two turns of the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import inf
from time import perf_counter
from types import coroutine

from understudy.machinery.util.deep_recursion import ALONE

SLICE = 0.005  # seconds of work until others have their turn
FIRST = 0.001  # seconds of the first slice while others wait for theirs


class _ThisLoop(threading.local):
    """Pieces of work that wait in this thread's loop for their next slice, and when any slice began or ended last."""

    def __init__(self) -> None:
        self.waiting: deque[Turns] = deque()
        self.changed = 0.0
        self.longer = 0.0  # seconds that are added to slices


_this_loop = _ThisLoop()


@contextmanager
def endless_turns() -> Iterator[None]:
    """Let no turn of this thread end meanwhile: where no time passes, nobody waits for theirs."""
    _this_loop.longer = inf
    try:
        yield
    finally:
        _this_loop.longer = 0.0


class Turns:
    """The slices of one piece of work, of which the first begins now."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + (FIRST if _this_loop.waiting else SLICE) + _this_loop.longer

    @property
    def is_over(self) -> bool:
        """Report whether others ought to have their turn before the work goes on."""
        return perf_counter() >= self._until

    @property
    def others_wait(self) -> bool:
        """Report whether others wait for their slice: work that takes a slice or more at once begins after `next`."""
        return bool(_this_loop.waiting)

    @coroutine
    def next(self) -> Generator[None, object, None]:
        """Let others have their turn, and begin the next slice after them."""
        asked = _this_loop.changed = perf_counter()
        waiting = _this_loop.waiting
        waiting.append(self)
        try:
            alone = (yield) is ALONE
            # One that waits longer is first, and none follows in the same turn of the loop.
            while not alone and (waiting[0] is not self or _this_loop.changed > asked):
                asked = perf_counter()
                yield
        finally:
            waiting.remove(self)
        _this_loop.changed = perf_counter()
        self._until = perf_counter() + SLICE
