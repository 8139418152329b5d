"""Moving a clock on: what it waits for at each moment."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from understudy.machinery.util import server_clock
from understudy.machinery.util.server_clock import Steering
from understudy.machinery.util.timers import SteeredClock


@pytest.mark.parametrize(("begun", "written", "order"), [(1, 0, ["later"]), (0, 1, ["event", "later"])])
async def test_the_clock_waits_for_sockets_after_writes_alone(
    monkeypatch: pytest.MonkeyPatch, begun: int, written: int, order: list[str]
) -> None:
    """After a write the clock waits for events that come through sockets; a request that reads does not hold it up."""
    clock, requests, revisions, log = SteeredClock(), [0], [0], []

    def arrive() -> None:
        log.append("event")
        monkeypatch.setattr(server_clock, "QUIET_SECONDS", 0)

    def ring() -> None:
        requests[0] += begun
        revisions[0] += written
        monkeypatch.setattr(server_clock, "QUIET_SECONDS", inf)
        monkeypatch.setattr(server_clock, "LONGEST_WORK", inf)
        asyncio.get_running_loop().call_later(0.02 if written else 3600, arrive)

    steering = Steering(clock, lambda: False, lambda: (revisions[0], requests[0], clock.alarms_set))
    clock.freeze()
    clock.call_later(10, ring)
    clock.call_later(20, lambda: log.append("later"))
    async with asyncio.timeout(60):
        await steering.advance(30)
    await asyncio.sleep(0)  # the last alarm rings
    assert log == order
