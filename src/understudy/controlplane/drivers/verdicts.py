"""The outcomes of a case other than success, as exceptions, and the patience of all cases."""

from __future__ import annotations

# Seconds for each thing that is waited for. Upstream's helper of drivers publishes again 30 seconds after somebody has
# deleted its slices, and up to 0.36 not before they would be a minute old.
TIMEOUT = 90.0


class FailedError(Exception):
    """The driver did something else than it has to; the text says what."""


class SkippedError(Exception):
    """The case says nothing about this driver; the text says why."""


def require(holds: object, failure: str) -> None:
    """Raise FailedError with a text unless something holds."""
    if not holds:
        raise FailedError(failure)
