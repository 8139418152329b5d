"""The priority levels of a server with their queues, and how they lend each other seats. Upstream: `configController`.

A level that is gone stays until its last request has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor

from understudy.apiserver.flowcontrol.fairqueuing.allocation import Claim, allocate
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import EXEMPT, NO_QUEUES, QueueSet, QueuingConfig
from understudy.apiserver.flowcontrol.seats import SeatLimits, seat_limits
from understudy.machinery.types import NamedTuple, Obj

PERIOD = 10.0  # seconds after which seats are lent anew (`borrowingAdjustmentPeriod`)
_PARTS = 10  # of the seats of the server, in one of which the use of a level is measured that has none now
_MOST_OF_ONE = 0.15  # part of a level's seats that one request takes at most (`priorityLevelMaxSeatsPercent`)


class Clocks(NamedTuple):
    """The times of a server: seconds of a clock that goes on, and a call after some seconds."""

    now: Callable[[], float]
    later: Callable[[float, Callable[[], None]], object]


class PriorityLevel:
    """A priority level.

    limits      its nominal, lowest and highest number of seats
    is_exempt   whether its requests are never refused
    most_seats  the seats that one request takes at most, 0 where only general limits count (`GetMaxSeats`)
    target      the seats that it was to have when they were lent last
    quiescing   whether it is gone, and only ends what it has begun
    """

    def __init__(self, name: str, spec: Obj, limits: SeatLimits, clocks: Clocks, share: int = 1) -> None:
        self.name = name
        self.target = 0.0
        self.set(spec, limits)
        lendable = limits.nominal - limits.lower
        self.queues = QueueSet(self._config, limits.nominal - lendable // 2, *clocks, share)

    def set(self, spec: Obj, limits: SeatLimits, *, quiescing: bool = False) -> None:
        """Set what is stored of it, and the limits that follow."""
        self.spec, self.limits, self.quiescing = spec, limits, quiescing
        self.is_exempt = spec["type"] == "Exempt"
        self._config = config = _queuing(spec)
        part = min(ceil(limits.nominal * _MOST_OF_ONE), limits.nominal // config.hand_size)
        self.most_seats = max(1, part) if config.queues >= 1 else 0

    def lend(self, limit: int) -> None:
        """Give it its queues, and some seats."""
        self.queues.configure(self._config, limit)

    def least(self) -> int:
        """Return the seats that it keeps, by its demand in the last period."""
        highest = self.queues.demand.last.highest
        return max(self.limits.lower, highest if self.is_exempt else min(self.limits.nominal, highest))


class PriorityLevels:
    """The priority levels of one server, by name.

    concurrency    the seats of the server
    fair_part      the multiple of their targets that levels got when seats were lent last (`seat_fair_frac`)
    before_change  is called before anything changes, for those who have not told the queues all yet
    """

    def __init__(self, concurrency: int, clocks: Clocks) -> None:
        self._concurrency = concurrency
        self._clocks = clocks
        self._share = max(1, floor(concurrency / _PARTS + 0.5))
        self.before_change: Callable[[], None] = lambda: None
        self.by_name: dict[str, PriorityLevel] = {}
        self.fair_part = 0.0

    def digest(self, specs: Mapping[str, Obj]) -> None:
        """Read the specs of all priority levels, those that must be there included."""
        self.before_change()
        busy = {name: level for name, level in self.by_name.items() if name not in specs and not level.queues.is_idle}
        limits = seat_limits({**specs, **{name: level.spec for name, level in busy.items()}}, self._concurrency)
        for name, level in busy.items():
            level.set(level.spec, limits[name], quiescing=True)
        for name, spec in specs.items():
            level = self.by_name.get(name) or PriorityLevel(name, spec, limits[name], self._clocks, self._share)
            level.set(spec, limits[name])
            busy[name] = level
        self.by_name = busy
        self.adjust()

    @property
    def nominal(self) -> int:
        """Return the nominal seats of all levels, which are those of the server or a few more."""
        return sum(level.limits.nominal for level in self.by_name.values())

    @property
    def capacity(self) -> int:
        """Return the number of requests that can wait in all queues, 1 where none can."""
        return max(1, sum(c.capacity for level in self.by_name.values() if (c := level.queues.config).queues > 0))

    def count(self) -> None:
        """Count for how long what there is was used until now."""
        self.before_change()
        for level in self.by_name.values():
            level.queues.demand.count(self._clocks.now(), level.queues.limits)

    def adjust(self) -> None:
        """Lend seats anew, by the demand since the last time (`updateBorrowing`)."""
        self.before_change()
        levels, now = list(self.by_name.values()), self._clocks.now()
        for level in levels:
            level.queues.demand.end_period(now, level.queues.limits)
        exempt = [level for level in levels if level.is_exempt]
        limited = [level for level in levels if not level.is_exempt]
        for level in exempt:
            level.lend(level.least())
        for level, seats in zip(limited, self._shared(self.nominal, exempt, limited), strict=True):
            level.lend(floor(seats + 0.5))

    def _shared(self, nominal: int, exempt: list[PriorityLevel], limited: list[PriorityLevel]) -> list[float]:
        """Return the seats of the limited levels: what exempt ones leave, no less than they may lend."""
        left = nominal - sum(level.least() for level in exempt)
        lower, least = sum(level.limits.lower for level in limited), sum(level.least() for level in limited)
        for level in limited:
            level.target = max(level.least(), level.queues.demand.last.smoothed)
        self.fair_part = 0.0
        if left <= lower:
            return [level.limits.lower for level in limited]
        if left <= least:
            part = (left - lower) / (least - lower)
            return [level.limits.lower + (level.least() - level.limits.lower) * part for level in limited]
        claims = [Claim(level.target, level.least(), level.limits.upper) for level in limited]
        seats, self.fair_part = allocate(nominal, claims)
        return seats


def _queuing(spec: Obj) -> QueuingConfig:
    """Return the queues that a priority level asks for (`queueSetCompleterForPL`)."""
    if spec["type"] == "Exempt":
        return QueuingConfig(EXEMPT)
    queuing = spec["limited"]["limitResponse"].get("queuing")
    if queuing is None:
        return QueuingConfig(NO_QUEUES)
    return QueuingConfig(queuing["queues"], queuing["handSize"], queuing["queueLengthLimit"])
