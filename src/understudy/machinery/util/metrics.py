"""Counters, gauges and histograms, which the page /metrics writes. Upstream: k8s.io/component-base/metrics.

Whatever counts something has families of its own, and stands beside what it counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

# Upper bounds of the buckets of durations, in seconds: those of match conditions and of requests.
CONDITION_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
SLI_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
REQUEST_SECONDS = (0.005, 0.025, *SLI_SECONDS)

DEFAULT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # of Prometheus
# Of authentication and authorization.
ACCESS_SECONDS = tuple(0.001 * 2**power for power in range(15))

Labels = tuple[str, ...]  # the values of a family's labels, in their order


@dataclass
class Counter:
    """A family of counters: a number for each set of labels."""

    name: str
    about: str
    labels: Labels
    series: Counts[Labels] = field(default_factory=Counts)

    def add(self, *values: str) -> None:
        """Add one to the counter with these values of the labels."""
        self.series[values] += 1


@dataclass
class Gauge:
    """A family of gauges: the value that was set last for each set of labels."""

    name: str
    about: str
    labels: Labels
    series: dict[Labels, float] = field(default_factory=dict)

    def set(self, value: float, *values: str) -> None:
        """Set the gauge with these values of the labels."""
        self.series[values] = value


@dataclass
class Series:
    """The observations with the same labels: how many fell into each bucket and beyond the last, and their sum."""

    counts: list[int]
    sum: float = 0.0

    @classmethod
    def of(cls, buckets: Sequence[float]) -> Series:
        """Return one without observations, for buckets with these upper bounds."""
        return cls([0] * (len(buckets) + 1))

    def observe(self, value: float, buckets: Sequence[float], times: int = 1) -> None:
        """Count a value, once or as often as it was there."""
        self.counts[bisect_left(buckets, value)] += times
        self.sum += value * times


@dataclass
class Histogram:
    """A family of histograms. `buckets` are their upper bounds."""

    name: str
    about: str
    labels: Labels
    buckets: Sequence[float]
    series: defaultdict[Labels, Series] = field(init=False)

    def __post_init__(self) -> None:
        self.series = defaultdict(lambda: Series.of(self.buckets))

    def observe(self, value: float, *values: str) -> None:
        """Count a value, such as a duration in seconds, under these values of the labels."""
        self.series[values].observe(value, self.buckets)


@dataclass
class SampledHistogram(Histogram):
    """A family of histograms of which some values are measured: each stands for all since the one before.

    `totals` returns how many values there are by now, so that all count, and none of the others costs anything.
    """

    totals: Callable[[], Mapping[Labels, int]]
    _counted: Counts[Labels] = field(default_factory=Counts)
    _last: float = 0.0

    def measure(self, value: float) -> None:
        """Count a value that was measured, and those since the one before as if they were the same."""
        self._last = value
        self.settle()

    def settle(self) -> None:
        """Count the values since the last one that was measured."""
        for labels, total in self.totals().items():
            if more := total - self._counted[labels]:
                self._counted[labels] = total
                self.series[labels].observe(self._last, self.buckets, more)


AnyFamily: TypeAlias = Counter | Gauge | Histogram
