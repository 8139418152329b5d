"""An event loop whose time jumps: where others would wait until something is due, it is that time already."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")
TICK = 1e-6  # seconds: the shortest time that passes, lest one be waited for that is too short to change `time`


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Runs what waits for times only. Its time begins with 0.0 and passes while there is nothing else to do."""

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = count()
        self._scheduled: list[asyncio.TimerHandle]
        super().__init__(_JumpingSelector(self._pass))

    def time(self) -> float:
        """Return the time, in seconds since the loop began."""
        return self._now

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a function after some seconds, if above 0 then after a tick at least."""
        return self.call_at(self._now + (max(delay, TICK) if delay > 0 else 0), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a function at a time; of those at the same time, the one first that was asked for first."""
        timer = _Timer(when, callback, args, self, context)
        timer.number = next(self._numbers)
        setattr(timer, "_scheduled", True)  # noqa: B010 - as `BaseEventLoop.call_at` does
        heapq.heappush(self._scheduled, timer)
        return timer

    def _pass(self, seconds: float) -> None:
        self._now += seconds


class _Timer(asyncio.TimerHandle):
    """A timer with a number: asyncio leaves the order of timers at the same time to chance."""

    number = 0

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class _JumpingSelector(selectors.DefaultSelector):
    """Lets time pass instead of waiting for sockets and pipes."""

    def __init__(self, pass_: Callable[[float], None]) -> None:
        super().__init__()
        self._pass = pass_

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """List the sockets that are ready. If none is, that many seconds pass; without a limit one is awaited."""
        ready = super().select(0) if timeout is not None else super().select(None)
        if not ready and timeout:
            self._pass(timeout)
        return ready


class LoopClock:
    """A clock that shows the time of an event loop.

    start  the time at which the loop begins, in seconds since 1970
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float) -> None:
        self._start = start
        self._loop = loop

    def now(self) -> float:
        return round(self._start + self._loop.time(), 6)

    def monotonic(self) -> float:
        return self._loop.time()
