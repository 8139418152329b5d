"""Native histograms of Prometheus: buckets that grow by a factor, of which only those with observations are kept.

The buckets of schema n have the bounds 2^(i/2^n), for all integers i; bucket i has what is above bound i-1, up to bound
i. Upstream: `NativeHistogramConfig` of k8s.io/component-base/metrics (a factor of 1.1 at the most, 160 buckets), and
github.com/prometheus/client_golang, which halves the number of buckets where there would be more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from math import frexp

from understudy.machinery.types import NamedTuple

SCHEMA = 3  # the coarsest one whose factor, 2^(1/8), is not above 1.1
MOST_BUCKETS = 160
ZERO_THRESHOLD = 2.0**-128  # observations up to this fall into the zero bucket
_GAP = 2  # empty buckets between two others that are written as zeros, instead of a new span

# The bounds of schema 3 from 0.5 to 1 as upstream has them, a last digit lower than the nearest numbers here and there.
_EIGHTHS = (
    *(0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048),
    *(0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711),
)
_FRACTIONS = {schema: _EIGHTHS[:: 2 ** (SCHEMA - schema)] for schema in range(1, SCHEMA + 1)}


class Span(NamedTuple):
    """A run of buckets: how far it begins behind the end of the run before, or behind bucket 0; and its length."""

    offset: int
    length: int


class NativeHistogram:
    """Counts observations that are not negative.

    schema  of the buckets
    zero    count of the zero bucket
    """

    def __init__(self) -> None:
        self.schema = SCHEMA
        self.zero = 0
        self._counts: defaultdict[int, int] = defaultdict(int)

    def observe(self, value: float) -> None:
        """Count a value."""
        if value <= ZERO_THRESHOLD:
            self.zero += 1
            return
        self._counts[self._bucket(value)] += 1
        if len(self._counts) > MOST_BUCKETS:
            self._widen()

    def _bucket(self, value: float) -> int:
        fraction, exponent = frexp(value)
        if self.schema > 0:
            bounds = _FRACTIONS[self.schema]
            return bisect_left(bounds, fraction) + (exponent - 1) * len(bounds)
        key = exponent - 1 if fraction == 0.5 else exponent  # the bucket by powers of two
        return -(-key >> -self.schema)

    def _widen(self) -> None:
        """Join each two buckets (`doubleBucketWidth`)."""
        counts: defaultdict[int, int] = defaultdict(int)
        for bucket, count in self._counts.items():
            counts[-(-bucket // 2)] += count
        self.schema -= 1
        self._counts = counts

    def buckets(self) -> tuple[Sequence[Span], Sequence[int]]:
        """Return the spans of the buckets, and the difference of each count to the one before (`makeBuckets`)."""
        spans: list[list[int]] = []
        counts: list[int] = []
        end = 0
        for bucket in sorted(self._counts):
            gap = bucket - end
            if not spans or gap > _GAP:
                spans.append([gap, 0])
                gap = 0
            counts += [0] * gap + [self._counts[bucket]]
            spans[-1][1] += gap + 1
            end = bucket + 1
        deltas = [count - before for before, count in zip([0, *counts], counts, strict=False)]
        return [Span(*span) for span in spans], deltas
