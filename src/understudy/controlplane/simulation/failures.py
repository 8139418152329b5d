"""Nodes and drivers that fail by chance, and come back."""

from __future__ import annotations

import asyncio
from random import Random

from understudy.controlplane.simulation.settings import check_above, check_not_below, parse
from understudy.machinery.types import dataclass
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import sleep

DAY, MINUTE = 86400.0, 60.0  # seconds


@dataclass(frozen=True)
class Failures:
    """Sets how often the nodes and drivers of a simulation fail. All numbers are averages; chance decides when.

    nodes_per_day    how often each node is switched off: its kubelet and its drivers are gone without a word
    node_minutes     until it is switched on
    drivers_per_day  how often each driver of a node ends
    driver_minutes   until it is started again
    """

    nodes_per_day: float = 0.0
    node_minutes: float = 15.0
    drivers_per_day: float = 0.0
    driver_minutes: float = 1.0

    def __post_init__(self) -> None:
        check_not_below(self, "failures", "nodes_per_day", "drivers_per_day")
        check_above(self, "failures", "node_minutes", "driver_minutes")

    @classmethod
    def parse(cls, text: str) -> Failures:
        """Return the failures of a text such as "nodes_per_day=2,drivers_per_day=12". Raises ValueError."""
        return parse(cls, "failures have", text)


class Fate:
    """Decides when one node or driver fails, and for how long.

    key      which one: another one has another fate with the same seed
    per_day  how often it fails, 0 for never
    minutes  how long it is away, on average
    """

    def __init__(self, seed: int, key: str, clock: Clock, per_day: float, minutes: float) -> None:
        self._random = Random(f"{seed}/{key}")
        self._clock = clock
        self._per_day = per_day
        self._minutes = minutes

    async def until_failure(self) -> None:
        """Wait until it fails."""
        if self._per_day:
            await sleep(self._clock, self._random.expovariate(self._per_day / DAY))
        else:
            await asyncio.Event().wait()

    async def until_return(self) -> None:
        """Wait until it is back."""
        await sleep(self._clock, self._random.expovariate(1 / (self._minutes * MINUTE)))
