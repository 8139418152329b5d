"""Tells clients after how many seconds to try again: the more were refused lately, the later.

Upstream: `DroppedRequestsTracker`.
"""

from __future__ import annotations

from collections import deque

_LONGEST = 32  # seconds
_MANY = 3  # refused requests for each second, from which on the time doubles


class RetryAfter:
    """The seconds that refused clients of one priority level have to wait."""

    def __init__(self) -> None:
        self.seconds = 1
        self._history: deque[tuple[int, int]] = deque()  # (second, refused in it), the oldest first
        self._second = self._count = self._changed = 0

    def refuse(self, second: int) -> int:
        """Note a request that is refused in a second since 1970; return after how many it may come again."""
        if second == self._second:
            self._count += 1
            return self.seconds
        self._history.append((self._second, self._count))
        while self._history and second - self._history[0][0] > min(2 * self.seconds, _LONGEST):
            self._history.popleft()
        self._second, self._count = second, 1
        self._update(second)
        return self.seconds

    def _update(self, second: int) -> None:
        """Double the time when many were refused within it, shorten it when few were."""
        refused = sum(count for when, count in self._history if 0 < second - when <= self.seconds)
        if second - self._changed >= self.seconds and refused >= _MANY * self.seconds:
            self.seconds = min(2 * self.seconds, _LONGEST)
            self._changed = second
        elif refused < self.seconds and self.seconds > 1:
            self.seconds -= 1
