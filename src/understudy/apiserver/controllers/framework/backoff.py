"""Delays between tries that get longer. Upstream: `wait.Backoff`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable


class Backoff:
    """Delays that double up to a limit, each with a random part on top, and start over after a quiet time.

    By default those of client-go's reflector. All in seconds.
    """

    def __init__(
        self,
        first: float = 0.8,
        longest: float = 30.0,
        reset_after: float = 120.0,
        jitter: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = self._next = first
        self._longest = longest
        self._reset_after = reset_after
        self._jitter = jitter
        self._clock = clock
        self._last = clock()

    def delay(self) -> float:
        """Return the seconds to wait before the next try."""
        now = self._clock()
        if now - self._last > self._reset_after:
            self._next = self._first
        self._last = now
        delay = self._next
        self._next = min(2 * self._next, self._longest)
        return delay * (1 + random.random() * self._jitter)
