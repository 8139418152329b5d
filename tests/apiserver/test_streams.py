"""What pumps watches."""

from __future__ import annotations

import asyncio
import time

from understudy.apiserver.server.watch_stream import Alarm


async def test_an_alarm_rings_at_the_last_time_that_was_set() -> None:
    """Setting it again moves it; when it has rung it can be set to the same time again."""
    rung = asyncio.Event()
    alarm = Alarm(rung.set)
    alarm.set(time.monotonic() + 3600)
    past = time.monotonic()
    for _ in range(2):
        alarm.set(past)
        await asyncio.wait_for(rung.wait(), 20)
        rung.clear()


async def test_an_alarm_that_is_stopped_does_not_ring() -> None:
    """Nothing is left to do for a watch that has ended."""
    rung = []
    alarm = Alarm(lambda: rung.append(1))
    alarm.set(time.monotonic())
    alarm.stop()
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0, later.set_result, None)
    await later
    assert rung == []
