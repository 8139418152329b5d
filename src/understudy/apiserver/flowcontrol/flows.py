"""The requests of one flow schema at one priority level, as /metrics counts them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts

from understudy.machinery.util.metrics import Series

SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)  # bounds of the buckets of durations
REGULAR, WATCH = "regular", "watch"  # a watch is executed until it has begun


class Flow:
    """The requests of a flow schema at a priority level, where these are named.

    dispatched     how many were executed
    rejected       how many were refused, by reason
    executions     how long they were executed, by their type, REGULAR or WATCH
    waits          how long they have waited, by whether they were executed then
    queue_lengths  how often a queue has had so many requests after one of these came into it
    seats          how often a request was estimated to take so many seats
    watches        how often a write was sent to so many watches
    """

    __slots__ = (
        *("schema", "level", "dispatched", "rejected", "executions", "waits"),
        *("queue_lengths", "seats", "watches"),
    )

    def __init__(self, schema: str, level: str) -> None:
        self.schema = schema
        self.level = level
        self.dispatched = 0
        self.rejected = Counts[str]()
        self.executions = {kind: _durations() for kind in (REGULAR, WATCH)}
        self.waits = {executed: _durations() for executed in (False, True)}
        self.queue_lengths, self.seats, self.watches = Counts[int](), Counts[int](), Counts[int]()

    @property
    def is_known(self) -> bool:
        """Report whether there ever was a request of it; seats are only counted where these are limited."""
        return bool(self.dispatched or self.seats)


def observe(durations: Series, seconds: float) -> None:
    """Count a duration."""
    durations.counts[bisect_left(SECONDS, seconds)] += 1
    durations.sum += seconds


def _durations() -> Series:
    return Series([0] * (len(SECONDS) + 1))
