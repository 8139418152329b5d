"""The clock of a server, as tests use it: it stands still, is set, and is moved on.

A server has a clock for all that is Kubernetes' time: timestamps, the expiry of tokens, certificates and events, the
ends of watches and their bookmarks, and the delays of everything that runs in its process. What protects the process
stays real: time limits of requests and webhooks, of sockets and of whoever waits for something.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from understudy.machinery.util.clock import Clock, parse_timestamp
from understudy.machinery.util.timers import SteeredClock

QUIET_TURNS = 15  # of the event loop in which nothing happens, so that nothing more is expected: a request has five
QUIET_SECONDS = 0.01  # real ones in which nothing happens after a write, which watches tell through sockets
LONGEST_WORK = 5.0  # real seconds that work at one moment is waited for
PAUSE = 0.0005  # real seconds until busy work is looked at again


class Steering:
    """Moves a clock on, moment by moment, in the event loop of its server.

    is_busy   reports whether something is being done whose end can be seen
    activity  returns numbers that change with whatever happens, the first one with writes
    """

    def __init__(self, clock: Clock, is_busy: Callable[[], bool], activity: Callable[[], tuple[int, ...]]) -> None:
        self._clock = clock
        self._is_busy = is_busy
        self._activity = activity
        self._moving = asyncio.Lock()

    @property
    def clock(self) -> SteeredClock:
        """Return the clock. Raises RuntimeError for a server that was given another one."""
        if not isinstance(self._clock, SteeredClock):
            raise RuntimeError("the server has the clock that its option `clock` gave it: that one is not moved here")
        return self._clock

    def reset(self) -> None:
        """Show the time of the machine again."""
        if isinstance(self._clock, SteeredClock):
            self._clock.reset()

    async def set(self, now: float) -> None:
        """Set the clock to a time, in seconds since 1970. What is due then, if that is ahead, is done then."""
        async with self._moving:
            with self._standing_still() as clock:
                seconds = max(now - clock.now(), 0.0)
                clock.set_date(now - seconds)
                clock.move_to(clock.monotonic() + seconds)
                await self._settle(written=True)

    async def advance(self, seconds: float) -> None:
        """Move the clock on. What falls due meanwhile is done in order, each at its time, before the clock goes on."""
        async with self._moving:
            with self._standing_still() as clock:
                end = clock.monotonic() + seconds
                await self._settle(written=True)
                while (when := clock.first_alarm_at) is not None and when <= end:
                    clock.move_to(when)
                    await self._settle()
                clock.move_to(end)

    @contextmanager
    def _standing_still(self) -> Iterator[SteeredClock]:
        """Stop the clock; it runs again afterwards if it ran before."""
        clock, was_frozen = self.clock, self.clock.is_frozen
        clock.freeze()
        try:
            yield clock
        finally:
            if not was_frozen:
                clock.resume()

    async def _settle(self, *, written: bool = False) -> None:
        """Wait until nothing happens any more, as far as can be seen.

        written  whether something has been written of which watches tell: sockets of this machine may take a moment.
                 Requests of components are busy until their answers are read; nothing else is on its way then
        """
        turns, last = 0, self._activity()
        end = time.monotonic() + LONGEST_WORK
        quiet_from = time.monotonic()
        while (now := time.monotonic()) < end:
            if turns >= QUIET_TURNS and (not written or now - quiet_from >= QUIET_SECONDS):
                return
            is_busy = self._is_busy()
            await asyncio.sleep(PAUSE if is_busy and turns == 0 else 0)
            activity, turns = self._activity(), turns + 1
            if is_busy or activity != last:
                written = written or activity[0] != last[0]
                last, turns, quiet_from = activity, 0, now


class ServerClock:
    """The clock of a server: what time it is for Kubernetes.

        apiserver.clock.freeze()                # timestamps stand still, nothing falls due
        apiserver.clock.advance(hours=1)        # events are gone, tokens have expired
        apiserver.clock.resume()                # runs on from there

    It governs the timestamps of objects, the expiry of tokens, client certificates and events, the ends and bookmarks
    of watches, compaction, and the delays of controllers, scheduler and kubelets in the server's process. Time limits
    of requests, webhooks and connections are real, and so is the timeout of `wait_for`. `reset` of the server, and the
    next test, show the machine's time again.

    Methods raise RuntimeError for a server that does not run in a thread, or was given its own `clock`.
    """

    def __init__(self, steering: Steering, run: Callable[[Coroutine[Any, Any, datetime]], datetime]) -> None:
        self._steering = steering
        self._run = run

    @property
    def is_frozen(self) -> bool:
        """Report whether the clock stands still."""
        return self._steering.clock.is_frozen

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.fromtimestamp(self._steering.clock.now(), UTC)

    def freeze(self, at: datetime | str | None = None) -> datetime:
        """Let the clock stand still, at the time that it shows or at another; return that.

        at  a datetime with a time zone, or a text such as "2030-01-01T00:00:00Z": the clock is `set` to it before
        """
        seconds = None if at is None else seconds_of(at)

        async def freeze() -> datetime:
            self._steering.clock.freeze()
            if seconds is not None:
                await self._steering.set(seconds)
            return self.now()

        return self._run(freeze())

    def advance(
        self,
        by: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Move the clock on, and return the time then. A clock that runs goes on running.

        What falls due meanwhile is done in order, each at its own time: the clock stops there until the requests that
        follow, and the work of whatever runs in the server's process, have come to an end, but not for longer than
        five (real) seconds. Other programs are not waited for: `wait_for` waits for what they do. Raises ValueError for
        a time that is not ahead.
        """
        delta = (by or timedelta()) + timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        if delta <= timedelta():
            raise ValueError(f"want a time ahead, such as hours=1, not {delta}")

        async def advance() -> datetime:
            await self._steering.advance(delta.total_seconds())
            return self.now()

        return self._run(advance())

    def set(self, to: datetime | str) -> datetime:
        """Set the clock, and return the time then.

        What is due by then is done once, at the new time, as on a laptop that wakes up; `advance` does it in order,
        each at its own time. At an earlier time nothing is done again.

        to  a datetime with a time zone, or a text such as "2030-01-01T00:00:00Z"; ValueError for others
        """
        seconds = seconds_of(to)

        async def set_to() -> datetime:
            await self._steering.set(seconds)
            return self.now()

        return self._run(set_to())

    def resume(self) -> datetime:
        """Let the clock run on from the time that it shows; return that."""

        async def resume() -> datetime:
            self._steering.clock.resume()
            return self.now()

        return self._run(resume())

    def reset(self) -> datetime:
        """Let the clock run, and show the machine's time again; return that. Nothing is done again."""

        async def reset() -> datetime:
            self._steering.clock.reset()
            return self.now()

        return self._run(reset())


def seconds_of(time: datetime | str) -> float:
    """Return a time in seconds since 1970. Raises ValueError for a datetime without a time zone, and for other texts
    than those of RFC 3339."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError(f"want a datetime with a time zone, such as datetime(…, tzinfo=UTC), not {time!r}")
        return time.timestamp()
    try:
        return parse_timestamp(time)
    except ValueError:
        raise ValueError(f'want a time such as "2030-01-01T00:00:00Z", not {time!r}') from None
