"""The timer of a watch."""

from __future__ import annotations

import asyncio

from understudy.apiserver.server.http.watch_stream import Alarm
from understudy.machinery.util.clock import SystemClock

CLOCK = SystemClock()


async def test_alarm_rings_at_the_last_time_set() -> None:
    """Setting an alarm again moves it; after it rang it can be set to the same time again."""
    rung = asyncio.Event()
    alarm = Alarm(CLOCK, rung.set)
    alarm.set(CLOCK.monotonic() + 3600)
    past = CLOCK.monotonic()
    for _ in range(2):
        alarm.set(past)
        await asyncio.wait_for(rung.wait(), 20)
        rung.clear()


async def test_stopped_alarm_does_not_ring() -> None:
    """A watch that ended leaves no timer behind."""
    rung = []
    alarm = Alarm(CLOCK, lambda: rung.append(1))
    alarm.set(CLOCK.monotonic())
    alarm.stop()
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0, later.set_result, None)
    await later
    assert rung == []
