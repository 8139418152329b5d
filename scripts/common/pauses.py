"""What a server's metrics tell of the times in which its event loop answered nobody."""

from __future__ import annotations

import re

_FIGURE = r"^understudy_event_loop_{} (\S+)$"


def longest_pauses(metrics: str) -> tuple[float, float]:
    """Return the longest such time, and the most CPU of the loop in one, in seconds; 0 where /metrics has none."""
    return _figure(metrics, "longest_pause_seconds"), _figure(metrics, "busiest_pause_cpu_seconds")


def _figure(metrics: str, name: str) -> float:
    found = re.search(_FIGURE.format(name), metrics, re.MULTILINE)
    return float(found[1]) if found else 0.0
