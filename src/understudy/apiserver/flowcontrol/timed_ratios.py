"""The time that a number was in each part of its limit. Upstream: `TimingRatioHistogram`.

A sample is taken at the end of every nanosecond, so that counts are nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

_NANOSECONDS = 10**9


class TimedRatios:
    """The nanoseconds in which a ratio was in each bucket, and `sum`, those of all multiplied by the ratio.

    buckets  their upper bounds
    """

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, ratio: float, seconds: float) -> None:
        """Count the time in which the ratio was the same."""
        nanoseconds = round(seconds * _NANOSECONDS)
        self.counts[bisect_left(self.buckets, ratio)] += nanoseconds
        self.sum += ratio * nanoseconds
