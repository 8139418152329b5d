"""The most requests that there were at once within a second. Upstream: `requestWatermark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.apiserver.server.pages.exposition import GAUGE, Family, Sample

MUTATING, READ_ONLY = "mutating", "readOnly"
_READS = frozenset(("get", "list", "watch"))


def kind_of(verb: str) -> str:
    """Return the kind of a request with a verb, `mutating` or `readOnly`, as metrics name it."""
    return READ_ONLY if verb in _READS else MUTATING


class Watermark:
    """A number of requests, and the largest that it was in the last whole second at its changes.

    now  returns the time in seconds
    """

    __slots__ = ("_before", "_end", "_highest", "_now", "number")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._end = 0
        self._highest = self._before = self.number = 0

    def add(self, change: int, now: float) -> None:
        """Change the number."""
        self.number = number = self.number + change
        if now >= self._end:
            self._turn(now)
        if number > self._highest:
            self._highest = number

    @property
    def level(self) -> int:
        """Return the largest number of the last whole second, 0 if it has not changed then."""
        now = self._now()
        if now >= self._end:
            self._turn(now)
        return self._before

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

    def _samples(self) -> Iterator[Sample]:
        for kind, watermark in self.items():
            yield Sample({"request_kind": kind}, watermark.level)


def inflight_family(executing: Watermarks) -> Family:
    """Return the family of the requests that are executed."""
    about = (
        "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last"
    )
    return executing.family("apiserver_current_inflight_requests", f"{about} second.")
