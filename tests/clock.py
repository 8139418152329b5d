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
    """Shows the time of its creation for ever, while durations and deadlines are real.

    Two writes then never fall into different seconds, which the order of managed fields would show.
    """

    seconds: float = field(default_factory=time.time)

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return time.monotonic()
