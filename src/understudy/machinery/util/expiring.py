"""Results that are kept for a while. Upstream: `LRUExpireCache` of k8s.io/apimachinery/pkg/util/cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from understudy.machinery.util.clock import Clock

K = TypeVar("K")
T = TypeVar("T")


class ExpiringResults(Generic[K, T]):
    """Results by key, each until its time is over or until `most` others were asked for since."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[K, tuple[T, float]] = OrderedDict()

    def get(self, key: K) -> T | None:
        """Return a result, None without one."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        if self._clock.monotonic() > entry[1]:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return entry[0]

    def add(self, key: K, result: T, seconds: float) -> None:
        """Keep a result for some seconds; none of them keeps nothing."""
        if seconds <= 0:
            return
        self._kept[key] = result, self._clock.monotonic() + seconds
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
