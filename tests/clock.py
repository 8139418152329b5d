"""A clock for servers under test."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from understudy.machinery.util.clock import parse_timestamp


@dataclass
class FixedClock:
    """Stands still until a test moves it on."""

    seconds: float

    @classmethod
    def at(cls, text: str) -> FixedClock:
        """Return a clock that shows an RFC 3339 time."""
        return cls(parse_timestamp(text))

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@dataclass
class FixedDate:
    """Shows the time of its creation until it is moved on, while durations and deadlines are real.

    Two writes then fall into different seconds, which the order of managed fields shows, only where a test wants it.
    """

    seconds: float = field(default_factory=time.time)
    skipped: float = 0.0

    def skip(self, seconds: float) -> None:
        """Let seconds have passed."""
        self.skipped += seconds

    def now(self) -> float:
        return self.seconds + self.skipped

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped
