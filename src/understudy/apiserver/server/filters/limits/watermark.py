"""The most requests that there were at once within a second. Upstream: `requestWatermark`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.apiserver.server.pages.exposition import GAUGE, Family, Sample

_ABOUT = {
    "inflight": "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind "
    "in last second.",
}
MUTATING, READ_ONLY = "mutating", "readOnly"
_READS = frozenset(("get", "list", "watch"))


def kind_of(verb: str) -> str:
    """Return the kind of a request with a verb, `mutating` or `readOnly`, as metrics name it."""
    return READ_ONLY if verb in _READS else MUTATING


class Watermark:
    """The largest of the numbers that were noted in the last whole second; 0 if there was none.

    now  returns the time in seconds
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._second = -1
        self._highest = self._before = 0

    def note(self, number: int) -> None:
        """Note a number that there is now."""
        self._turn()
        self._highest = max(self._highest, number)

    @property
    def level(self) -> int:
        """Return the largest number of the last whole second."""
        self._turn()
        return self._before

    def _turn(self) -> None:
        """Begin a new second, if the last one is over."""
        second = int(self._now())
        if second != self._second:
            self._before = self._highest if second == self._second + 1 else 0
            self._second, self._highest = second, 0


def family(phase: str, watermarks: dict[str, Watermark]) -> Family:
    """Return the family of the watermarks of a phase, by kind of request."""
    return Family(f"apiserver_current_{phase}_requests", GAUGE, _ABOUT[phase], _samples(watermarks))


def _samples(watermarks: dict[str, Watermark]) -> Iterator[Sample]:
    for kind, watermark in sorted(watermarks.items()):
        yield Sample({"request_kind": kind}, watermark.level)
