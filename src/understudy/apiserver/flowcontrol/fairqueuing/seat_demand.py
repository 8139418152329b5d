"""The seats that a priority level asks for over time. Upstream: `Integrator`, `seatDemandStats`."""

from __future__ import annotations

from collections.abc import Callable
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

    now  returns the time in seconds
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._begun = self._since = now()
        self._seats = self._highest = 0
        self._sum = self._sum_of_squares = 0.0
        self.last = Demand()

    def set(self, seats: int) -> None:
        """Note how many seats are asked for from now on."""
        now, before = self._now(), self._seats
        if before:
            seat_seconds = before * (now - self._since)
            self._sum += seat_seconds
            self._sum_of_squares += before * seat_seconds
        self._since, self._seats = now, seats
        if seats > self._highest:
            self._highest = seats

    def end_period(self) -> Demand:
        """Begin a new period; return the demand in the one that ends."""
        self.set(self._seats)
        seconds = self._since - self._begun
        average, deviation, smoothed = self.last.average, self.last.deviation, self.last.smoothed
        if seconds > 0:
            average = self._sum / seconds
            deviation = sqrt(max(self._sum_of_squares / seconds - average * average, 0.0))
            envelope = average + deviation
            smoothed = max(envelope, _SMOOTHING * smoothed + (1 - _SMOOTHING) * envelope)
        self.last = Demand(average, deviation, self._highest, smoothed)
        self._begun, self._highest, self._sum, self._sum_of_squares = self._since, self._seats, 0.0, 0.0
        return self.last
