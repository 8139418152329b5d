"""A clock for servers under test."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.machinery.clock import parse_timestamp


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
