"""Waiting in Kubernetes' time: pauses, alarms and time limits by a clock, which tests may stop and move on.

    await sleep(clock, 10.0)
    async with timeout(clock, 30.0): ...
    alarm = call_later(clock, 60.0, ring)

By a `SteeredClock`, that of a server, they wait as long as it shows; by any other clock as long as the event loop's.
What protects the process (sockets, requests, webhooks, programs that are called) waits in real time, by `asyncio`.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import Protocol

from understudy.machinery.util.clock import Clock


class Alarm(Protocol):
    """A function that will be called."""

    def cancel(self) -> None:
        """Call it no more."""


def call_later(clock: Clock, seconds: float, function: Callable[[], object]) -> Alarm:
    """Call a function in the event loop after some seconds of a clock."""
    if isinstance(clock, SteeredClock):
        return clock.call_later(seconds, function)
    return asyncio.get_running_loop().call_later(seconds, function)


async def sleep(clock: Clock, seconds: float) -> None:
    """Wait for some seconds of a clock."""
    if seconds <= 0 or not isinstance(clock, SteeredClock):
        await asyncio.sleep(seconds)
        return
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.call_later(seconds, partial(_wake, woken))
    try:
        await woken
    finally:
        alarm.cancel()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


@asynccontextmanager
async def timeout(clock: Clock, seconds: float | None) -> AsyncIterator[None]:
    """End a block after some seconds of a clock, by TimeoutError; None for never."""
    async with asyncio.timeout(None) as limit:
        if seconds is None:
            yield
            return
        alarm = call_later(clock, max(seconds, 0.0), lambda: limit.reschedule(0.0))
        try:
            yield
        finally:
            alarm.cancel()


@contextmanager
def working(clock: Clock) -> Iterator[None]:
    """Let whoever moves a clock on wait for a block to end, before later alarms ring."""
    if not isinstance(clock, SteeredClock):
        yield
        return
    clock.works += 1
    try:
        yield
    finally:
        clock.works -= 1


class _Alarm:
    """An alarm of a steered clock. It has a timer of the event loop while the clock runs."""

    __slots__ = ("_alarms", "_ring", "timer", "when")

    def __init__(self, when: float, ring: Callable[[], object], alarms: dict[_Alarm, None]) -> None:
        self.when = when
        self.timer: asyncio.TimerHandle | None = None
        self._ring = ring
        self._alarms = alarms
        alarms[self] = None

    @property
    def is_set(self) -> bool:
        """Report whether it has neither rung nor been cancelled."""
        return self in self._alarms

    def ring(self) -> None:
        """Call the function, unless it was cancelled in the last moment."""
        if self in self._alarms:
            del self._alarms[self]
            self._ring()

    def cancel(self) -> None:
        self._alarms.pop(self, None)
        self.stop()

    def stop(self) -> None:
        """Let the event loop call it no more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class SteeredClock:
    """The clock of the machine, until it is stopped, set, or moved on. Its alarms belong to one event loop.

    works       number of blocks that `working` waits for
    alarms_set  number of alarms that were ever set
    """

    def __init__(self) -> None:
        self.works = self.alarms_set = 0
        self._stopped_at: float | None = None  # in monotonic seconds, None while it runs
        self._skipped = 0.0  # what `monotonic` is ahead of the machine's
        self._ahead: float | None = None  # what the time of day is ahead of `monotonic`, None for the machine's
        self._alarms: dict[_Alarm, None] = {}
        self._due: list[tuple[float, int, _Alarm]] = []  # while it stands still
        self._numbers = count()

    def now(self) -> float:
        if self._ahead is None:
            return time.time()
        return round(self.monotonic() + self._ahead, 6)  # whole seconds stay whole

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped if self._stopped_at is None else self._stopped_at

    @property
    def is_frozen(self) -> bool:
        """Report whether it stands still."""
        return self._stopped_at is not None

    @property
    def first_alarm_at(self) -> float | None:
        """Return the time of the next alarm, in monotonic seconds, None without any. The clock has to stand still."""
        while self._due and not self._due[0][2].is_set:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def call_later(self, seconds: float, function: Callable[[], object]) -> Alarm:
        """Call a function in the event loop after some seconds."""
        self.alarms_set += 1
        alarm = _Alarm(self.monotonic() + seconds, function, self._alarms)
        self._schedule(alarm)
        return alarm

    def freeze(self) -> None:
        """Let it stand still."""
        if self._stopped_at is not None:
            return
        self.set_date(self.now())
        self._stopped_at = self.monotonic()
        for alarm in self._alarms:
            alarm.stop()
            self._schedule(alarm)

    def resume(self) -> None:
        """Let it run on from where it stands."""
        if self._stopped_at is None:
            return
        self._skipped = self._stopped_at - time.monotonic()
        self._stopped_at = None
        self._due.clear()
        for alarm in self._alarms:
            self._schedule(alarm)

    def move_to(self, monotonic: float) -> None:
        """Move it on while it stands still, and ring the alarms that are due then, in the order of their times."""
        assert self._stopped_at is not None, "it has to stand still"
        self._stopped_at = max(monotonic, self._stopped_at)
        loop = asyncio.get_running_loop()
        while (when := self.first_alarm_at) is not None and when <= self._stopped_at:
            loop.call_soon(heapq.heappop(self._due)[2].ring)

    def set_date(self, now: float) -> None:
        """Change the time of day alone, in seconds since 1970. No alarm rings."""
        self._ahead = now - self.monotonic()

    def reset(self) -> None:
        """Show the time of day of the machine again, and run. Seconds that have passed stay so; no alarm rings."""
        self.resume()
        self._ahead = None

    def _schedule(self, alarm: _Alarm) -> None:
        if self._stopped_at is not None:
            heapq.heappush(self._due, (alarm.when, next(self._numbers), alarm))
        else:
            delay = max(alarm.when - self.monotonic(), 0.0)
            alarm.timer = asyncio.get_running_loop().call_later(delay, alarm.ring)
