"""A limit on how often something happens. Upstream: `rate.Limiter`."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Lets `burst` things happen at once, and then `per_second` of them, by a clock that returns seconds."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._last = clock()

    def try_accept(self) -> bool:
        """Report whether one more may happen now, and count it if so."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self) -> float:
        """Count one more, and return after how many seconds it may happen."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._per_second)

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(float(self._burst), self._tokens + max(now - self._last, 0.0) * self._per_second)
        self._last = now
