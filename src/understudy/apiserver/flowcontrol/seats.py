"""How many seats each priority level has: as many requests as kube-apiserver would execute at once.

https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#priority-levels (upstream:
`finishQueueSetReconfigsLocked`). Nothing is queued here, so seats are only told, in /metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

from understudy.machinery.types import NamedTuple, Obj


class SeatLimits(NamedTuple):
    """The numbers of seats of a priority level.

    nominal  its share of those of the server
    lower    what stays if it lends as many as it may
    upper    what it has if it borrows as many as it may
    """

    nominal: int
    lower: int
    upper: int


def seat_limits(levels: Mapping[str, Obj], concurrency: int) -> dict[str, SeatLimits]:
    """Return the limits of priority levels by name.

    levels       the specs of all that there are, in any version
    concurrency  the seats of the whole server
    """
    configurations = {name: spec.get("limited") or spec.get("exempt") or {} for name, spec in levels.items()}
    total = sum(map(_shares, configurations.values()))
    return {name: _limits(configuration, total, concurrency) for name, configuration in configurations.items()}


def _shares(configuration: Obj) -> int:
    return configuration.get("nominalConcurrencyShares") or 0


def _limits(configuration: Obj, total: int, concurrency: int) -> SeatLimits:
    shares = _shares(configuration)
    nominal = ceil(concurrency * shares / total) if shares else 0
    lendable = _percent(nominal, configuration.get("lendablePercent") or 0)
    borrowing = configuration.get("borrowingLimitPercent")  # without a limit, all seats of the server
    upper = nominal + (concurrency if borrowing is None else _percent(nominal, borrowing))
    return SeatLimits(nominal, nominal - lendable, upper)


def _percent(seats: int, percent: int) -> int:
    """Return a part of some seats, rounded half up."""
    return floor(seats * percent / 100 + 0.5)
