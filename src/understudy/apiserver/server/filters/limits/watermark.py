"""The most requests that there were at once within a second. Upstream: `requestWatermark`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from understudy.apiserver.flowcontrol.timed_ratios import TimedRatios
from understudy.apiserver.server.pages.exposition import GAUGE, Family, Observations, Sample

MUTATING, READ_ONLY = "mutating", "readOnly"
READS = frozenset(("get", "list", "watch"))
_BUCKETS = (0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)


def kind_of(verb: str) -> str:
    """Return the kind of a request with a verb, `mutating` or `readOnly`, as metrics name it."""
    return READ_ONLY if verb in READS else MUTATING


class Watermark:
    """A number of requests, the largest that it was in the last whole second at its changes, and for how long it was.

    now  returns the time in seconds
    """

    __slots__ = ("_before", "_counted", "_end", "_highest", "_now", "_seconds", "_since", "number", "ratios")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._end = 0
        self._highest = self._before = self.number = 0
        self._counted = self._since = now()
        self._seconds = defaultdict[int, float](float)  # by number, since the last count
        self.ratios = TimedRatios(_BUCKETS)

    def add(self, change: int, now: float) -> None:
        """Change the number."""
        self._seconds[self.number] += now - self._since
        self._since = now
        self.number = number = self.number + change
        if now >= self._end:
            self._turn(now)
        if number > self._highest:
            self._highest = number

    def add_lone(self, seconds: float, began: float) -> None:
        """Note that the number was 1 for some seconds, for the last time from `began` on, in which 0 is noted."""
        self._seconds[1] += seconds
        if began >= self._end:
            self._turn(began)
        self._highest = max(self._highest, 1)

    @property
    def level(self) -> int:
        """Return the largest number of the last whole second, 0 if it has not changed then."""
        now = self._now()
        if now >= self._end:
            self._turn(now)
        return self._before

    def count(self, limit: int) -> None:
        """Count for how long the number was which part of a limit until now."""
        now = self._now()
        self._seconds[self.number] += now - self._since
        self._since = now
        self._seconds[0] = now - self._counted - sum(seconds for number, seconds in self._seconds.items() if number)
        for number, seconds in self._seconds.items():
            self.ratios.observe(number / limit, max(seconds, 0.0))
        self._seconds.clear()
        self._counted = now

    def _turn(self, now: float) -> None:
        """Begin a new second."""
        second = int(now)
        self._before = self._highest if second == self._end else 0
        self._end, self._highest = second + 1, 0


class Watermarks(dict[str, Watermark]):
    """The numbers of requests that are executed, or wait, by kind."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__({kind: Watermark(now) for kind in (MUTATING, READ_ONLY)})

    def family(self, name: str, about: str) -> Family:
        """Return a family of these numbers."""
        return Family(name, GAUGE, about, self._samples())

    def ratios(self, phase: str) -> Iterator[Sample]:
        """Yield histograms of the parts of their limits that they were, as far as that is counted."""
        for kind, watermark in self.items():
            ratios = watermark.ratios
            observations = Observations(ratios.buckets, ratios.counts, ratios.sum)
            yield Sample({"phase": phase, "request_kind": kind}, observations)

    def _samples(self) -> Iterator[Sample]:
        for kind, watermark in self.items():
            yield Sample({"request_kind": kind}, watermark.level)


def inflight_family(executing: Watermarks) -> Family:
    """Return the family of the requests that are executed."""
    about = (
        "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last"
    )
    return executing.family("apiserver_current_inflight_requests", f"{about} second.")
