"""Names and uids that the server generates for new objects."""

from __future__ import annotations

import uuid
from random import SystemRandom

# No vowels and no digits that look like letters, so that no words arise (k8s.io/apimachinery/pkg/util/rand).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_random = SystemRandom()


def generate_name(base: str) -> str:
    """Return `metadata.generateName`, cut to fit a DNS label, with five random characters behind it.

    Upstream: `names.SimpleNameGenerator`.
    """
    return base[:_LONGEST_BASE] + "".join(_random.choices(_ALPHABET, k=_SUFFIX))


def new_uid() -> str:
    """Return a random UUID (RFC 9562, version 4). Upstream: `uuid.NewUUID`."""
    return str(uuid.uuid4())
