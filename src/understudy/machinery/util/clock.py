"""The clock that a server asks for the time, and the text in which Kubernetes writes times."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Tells the time, so that a test can say what time it is. Upstream: `clock.PassiveClock`."""

    def now(self) -> float:
        """Return the time of day, in seconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Return seconds since some moment in the past; never set back, for durations and deadlines."""


class SystemClock:
    """The clock of the machine. Upstream: `clock.RealClock`."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK = SystemClock()


def timestamp(seconds: float) -> str:
    """Return a time, in seconds since 1970, as `metav1.Time` is written: RFC 3339, UTC, whole seconds."""
    return _timestamp(math.floor(seconds))


@lru_cache(1)  # every write asks for the time, thousands in a second
def _timestamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def micro_timestamp(seconds: float) -> str:
    """Return a time, in seconds since 1970, as `metav1.MicroTime` is written: RFC 3339, UTC, six digits."""
    micros = int(seconds * 1_000_000)
    return f"{timestamp(micros // 1_000_000)[:-1]}.{micros % 1_000_000:06}Z"


def parse_timestamp(text: str) -> float:
    """Return an RFC 3339 time in seconds since 1970. Raises ValueError for any other text."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
