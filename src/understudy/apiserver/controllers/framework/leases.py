"""Read Leases."""

from __future__ import annotations

from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp


def is_expired(spec: Obj, now: float) -> bool:
    """Report whether the time of a Lease is over. One that does not say how long it lasts is. `now` is in seconds."""
    renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
    return not renewed or seconds is None or parse_timestamp(renewed) + seconds < now
