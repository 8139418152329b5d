"""Measures how long the event loop lets everybody wait, by the lateness of a timer."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left

INTERVAL = 0.02  # seconds between two measurements; of a pause that begins between them, up to so much is not seen
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # seconds


class LoopPauses:
    """The pauses of one event loop since the server has started.

    longest  in seconds
    busiest  the most of a pause, in seconds, in which the loop's thread computed: the rest is the work of others
    seconds  sum of all
    counts   how many fell into each bucket, and beyond the last
    """

    def __init__(self) -> None:
        self.longest = self.busiest = self.seconds = 0.0
        self.counts = [0] * (len(BUCKETS) + 1)

    def observe(self, seconds: float, cpu: float) -> None:
        """Count a pause, before the end of which the loop's thread has used so many seconds of CPU."""
        self.longest = max(self.longest, seconds)
        self.busiest = max(self.busiest, min(seconds, cpu))
        self.seconds += seconds
        self.counts[bisect_left(BUCKETS, seconds)] += 1

    async def measure(self) -> None:
        """Measure the pauses of the running loop until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, cpu = loop.time() + INTERVAL, time.thread_time()
            await asyncio.sleep(INTERVAL)
            self.observe(max(loop.time() - due, 0.0), time.thread_time() - cpu)
