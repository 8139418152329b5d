"""The seats that a priority level asks for over time. Upstream: `Integrator`, `seatDemandStats`."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from typing import NamedTuple

_SMOOTHING = 0.977  # part of the smoothed demand that is kept in each period (`seatDemandSmoothingCoefficient`)


class Demand(NamedTuple):
    """The seats that were asked for in the last period, and before it.

    smoothed  average and deviation together, which falls slowly
    """

    average: float = 0.0
    deviation: float = 0.0
    highest: int = 0
    smoothed: float = 0.0


class SeatDemand:
    """Follows how many seats are asked for: those that are taken, and those that requests wait for.

    now  the time in seconds
    """

    def __init__(self, now: float) -> None:
        self._begun = self._since = now
        self._asked = 0
        self._seconds = defaultdict[int, float](float)  # of the period, by how many seats were asked for
        self.last = Demand()

    def set(self, seats: int, now: float) -> None:
        """Note how many seats are asked for from now on."""
        if self._asked:
            self._seconds[self._asked] += now - self._since
        self._since, self._asked = now, seats

    def end_period(self, now: float) -> Demand:
        """Begin a new period; return the demand in the one that ends."""
        self.set(self._asked, now)
        period = now - self._begun
        average, deviation, highest, smoothed = self.last
        if period > 0:
            average = sum(seats * seconds for seats, seconds in self._seconds.items()) / period
            squares = sum(seats * seats * seconds for seats, seconds in self._seconds.items()) / period
            deviation = sqrt(max(squares - average * average, 0.0))
            envelope = average + deviation
            smoothed = max(envelope, _SMOOTHING * smoothed + (1 - _SMOOTHING) * envelope)
        highest = max(self._seconds, default=0)
        self.last = Demand(average, deviation, highest, smoothed)
        self._begun = now
        self._seconds.clear()
        return self.last
