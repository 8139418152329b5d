"""The seats that a priority level asks for over time. Upstream: `Integrator`, `seatDemandStats`."""

from __future__ import annotations

from collections import defaultdict
from math import sqrt

from understudy.apiserver.flowcontrol.timed_ratios import TimedRatios
from understudy.machinery.types import NamedTuple

_SMOOTHING = 0.977  # part of the smoothed demand that is kept in each period (`seatDemandSmoothingCoefficient`)
_DEMANDS = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)
_REQUESTS = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
_SEATS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)

# What there is in a queue set: requests that are executed, the seats taken, requests that wait, the seats that these
# ask for.
Load = tuple[int, int, int, int]
IDLE: Load = (0, 0, 0, 0)
LONE: Load = (1, 1, 0, 0)


class Demand(NamedTuple):
    """The seats that were asked for in the last period, and before it.

    smoothed  average and deviation together, which falls slowly
    """

    average: float = 0.0
    deviation: float = 0.0
    highest: int = 0
    smoothed: float = 0.0


class Limits(NamedTuple):
    """The most that there can be: seats, and requests that wait."""

    seats: int
    waiting: int


class Utilization:
    """The parts of the seats and queues that were used, and for how long."""

    def __init__(self) -> None:
        self.demand = TimedRatios(_DEMANDS)
        self.executing, self.waiting = TimedRatios(_REQUESTS), TimedRatios(_REQUESTS)
        self.seats = TimedRatios(_SEATS)

    def observe(self, load: Load, limits: Limits, seconds: float) -> None:
        """Count the time in which there was a load."""
        executing, seats, waiting, seats_waiting = load
        self.demand.observe((seats + seats_waiting) / limits.seats, seconds)
        self.executing.observe(executing / limits.seats, seconds)
        self.waiting.observe(waiting / limits.waiting, seconds)
        self.seats.observe(seats / limits.seats, seconds)


class SeatDemand:
    """Follows how many seats are asked for: those that are taken, and those that requests wait for.

    now  the time in seconds
    """

    def __init__(self, now: float) -> None:
        self._begun = self._counted = self._since = now
        self._load = IDLE
        self._seconds = defaultdict[Load, float](float)  # since the last count
        self._asked = defaultdict[int, float](float)  # seconds of the period, by how many seats were asked for
        self.last = Demand()
        self.utilization = Utilization()

    def set(self, load: Load, now: float) -> None:
        """Note what there is from now on."""
        self._seconds[self._load] += now - self._since
        self._since, self._load = now, load

    def add_lone(self, seconds: float) -> None:
        """Note for how long there was one request with one seat, while the load was that of nothing."""
        self._seconds[LONE] += seconds

    def count(self, now: float, limits: Limits) -> None:
        """Count what there was until now, while limits were in force."""
        self.set(self._load, now)
        self._seconds.pop(IDLE, None)  # the time of lone requests is in it
        idle = now - self._counted - sum(self._seconds.values())
        self.utilization.observe(IDLE, limits, max(idle, 0.0))
        for load, seconds in self._seconds.items():
            self.utilization.observe(load, limits, seconds)
            self._asked[load[1] + load[3]] += seconds
        self._seconds.clear()
        self._counted = now

    def end_period(self, now: float, limits: Limits) -> None:
        """Begin a new period; `last` is the demand in the one that ends."""
        self.count(now, limits)
        period = now - self._begun
        average, deviation, _, smoothed = self.last
        if period > 0:
            average = sum(seats * seconds for seats, seconds in self._asked.items()) / period
            squares = sum(seats * seats * seconds for seats, seconds in self._asked.items()) / period
            deviation = sqrt(max(squares - average * average, 0.0))
            envelope = average + deviation
            smoothed = max(envelope, _SMOOTHING * smoothed + (1 - _SMOOTHING) * envelope)
        self.last = Demand(average, deviation, max(self._asked, default=0), smoothed)
        self._begun = now
        self._asked.clear()
