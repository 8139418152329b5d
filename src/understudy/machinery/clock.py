"""The metadata that the server fills in: names, uids, times."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from random import SystemRandom

# No vowels and no look-alikes (k8s.io/apimachinery/pkg/util/rand).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_random = SystemRandom()


def generated_name(base: str) -> str:
    """`base`, shortened so that the name is a label, and five random characters."""
    return base[:_LONGEST_BASE] + "".join(_random.choices(_ALPHABET, k=_SUFFIX))


def new_uid() -> str:
    return str(uuid.uuid4())


def timestamp(seconds: float | None = None) -> str:
    """RFC 3339 in seconds, UTC; now by default."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if seconds is None else seconds))


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of a canonical timestamp."""
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()
