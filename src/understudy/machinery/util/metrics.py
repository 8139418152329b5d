"""Counters, gauges and histograms, which the page /metrics writes. Upstream: k8s.io/component-base/metrics.

Whatever counts something has families of its own, and stands beside what it counts.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import exp, log, nan
from time import monotonic
from typing import TypeAlias

from understudy.machinery.types import NamedTuple, dataclass

# Upper bounds of the buckets of durations, in seconds: those of match conditions and of requests.
CONDITION_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
SLI_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
REQUEST_SECONDS = (0.005, 0.025, *SLI_SECONDS)

DEFAULT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)  # of Prometheus
# Of authentication and authorization.
ACCESS_SECONDS = tuple(0.001 * 2**power for power in range(15))

_HOUR, _HOURS = 3600, 5  # the quantiles of a summary are those of the last five hours
_FINE = 50  # parts of a factor of e in which summaries count values: quantiles are right to one percent
_LEAST, _MOST = 1e-9, 1e9  # as which summaries count lower and higher values
_FIRST = round(log(_LEAST) * _FINE)  # the number of their first fine bucket

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


class NamedFamilies:
    """Families that are named when something is counted, so that what counts need not have them."""

    def __init__(self, *families: Counter | Histogram) -> None:
        self.families = families
        self._counters = {family.name: family for family in families if isinstance(family, Counter)}
        self._histograms = {family.name: family for family in families if isinstance(family, Histogram)}

    def __getitem__(self, name: str) -> Mapping[Labels, int]:
        """Return the counts of a counter by the values of its labels."""
        return self._counters[name].series

    def count(self, name: str, *labels: str) -> None:
        """Add one to a counter."""
        self._counters[name].add(*labels)

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Count seconds in a histogram."""
        self._histograms[name].observe(seconds, *labels)


@dataclass
class SampledHistogram(Histogram):
    """A family of histograms of which some values are measured: each stands for all since the one before.

    totals   returns how many values there are by now, so that all count, and none of the others costs anything
    summary  counts the same values, None where there is none
    """

    totals: Callable[[], Mapping[Labels, int]]
    summary: Summary | None = None
    _counted: Counts[Labels] = field(default_factory=Counts)
    _last: float = 0.0

    def observe(self, value: float, *values: str) -> None:
        """Count a value that stands for itself, and is among the totals by now."""
        self._counted[values] += 1
        self.add(value, values)

    def measure(self, value: float) -> None:
        """Count a value that was measured, and those since the one before as if they were the same."""
        self._last = value
        self.settle()

    def settle(self) -> None:
        """Count the values since the last one that was measured."""
        for labels, total in self.totals().items():
            if more := total - self._counted[labels]:
                self._counted[labels] = total
                self.add(self._last, labels, more)

    def add(self, value: float, labels: Labels, times: int = 1) -> None:
        """Count a value that is not among the totals, once or as often as it was there."""
        self.series[labels].observe(value, self.buckets, times)
        if self.summary is not None:
            self.summary.observe(value, labels, times)


def merged(histograms: Sequence[SampledHistogram]) -> Histogram:
    """Return one family with the series of several that have the same name and different labels."""
    first = histograms[0]
    family = Histogram(first.name, first.about, first.labels, first.buckets)
    for each in histograms:
        each.settle()
        family.series.update(each.series)
    return family


class Quantiles(NamedTuple):
    """Some observations: their number, their sum, and in `recent` how many of late, by fine buckets of values."""

    number: int
    sum: float
    recent: Mapping[int, int]

    def at(self, share: float) -> float:
        """Return the value that a share of the recent observations does not exceed, NaN if there are none."""
        rank, seen = share * sum(self.recent.values()), 0
        for bucket, count in sorted(self.recent.items()):
            seen += count
            if seen >= rank:
                return exp(bucket / _FINE)
        return nan


def _no_counts() -> array[int]:
    """Return the counts of all fine buckets, in one array.

    As Python's numbers, made over a long time, each would keep a mebibyte of memory from going back to the system.
    """
    return array("q", bytes(8 * (round(log(_MOST) * _FINE) - _FIRST + 1)))


@dataclass
class _Summed:
    """The observations with the same labels: how many, their sum, and by hour how many fell into each fine bucket."""

    count: int = 0
    sum: float = 0.0
    hours: defaultdict[int, array[int]] = field(default_factory=lambda: defaultdict(_no_counts))

    def forget_until(self, hour: int) -> None:
        for old in [each for each in self.hours if each <= hour]:
            del self.hours[old]


@dataclass
class Summary:
    """A family of summaries: number and sum of values, and quantiles of those of late.

    now  returns a time in seconds
    """

    name: str
    about: str
    labels: Labels
    now: Callable[[], float] = monotonic
    _summed: defaultdict[Labels, _Summed] = field(default_factory=lambda: defaultdict(_Summed))

    def observe(self, value: float, labels: Labels, times: int = 1) -> None:
        """Count a value under these values of the labels, once or as often as it was there."""
        summed, hour = self._summed[labels], self._hour()
        summed.count += times
        summed.sum += value * times
        summed.hours[hour][round(log(min(max(value, _LEAST), _MOST)) * _FINE) - _FIRST] += times
        summed.forget_until(hour - _HOURS)

    @property
    def series(self) -> Mapping[Labels, Quantiles]:
        """Return the observations by now, by their labels."""
        hour = self._hour()
        return {labels: _quantiles(summed, hour) for labels, summed in self._summed.items()}

    def _hour(self) -> int:
        return int(self.now() // _HOUR)


def _quantiles(summed: _Summed, hour: int) -> Quantiles:
    summed.forget_until(hour - _HOURS)
    recent = enumerate(map(sum, zip(*summed.hours.values(), strict=True)), _FIRST)
    return Quantiles(summed.count, summed.sum, {bucket: count for bucket, count in recent if count})


AnyFamily: TypeAlias = Counter | Gauge | Histogram | Summary
