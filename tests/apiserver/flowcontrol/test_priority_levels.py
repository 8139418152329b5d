"""Seats of priority levels: how many a request takes, how long, how levels lend them, and what refused clients hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clock import FixedClock
from understudy.apiserver.flowcontrol.fairqueuing.levels import PERIOD, Clocks, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import (
    ONE_SEAT,
    Place,
    QueueSet,
    QueuingConfig,
    Work,
    work_of,
)
from understudy.apiserver.flowcontrol.flows import Flow
from understudy.apiserver.flowcontrol.retry_after import RetryAfter
from understudy.apiserver.flowcontrol.work_estimator import Stats, WorkEstimator
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.options import Query

QUEUES = {"queues": 1, "handSize": 1, "queueLengthLimit": 100}
Alarm = tuple[float, Callable[[], None]]


def limited(**limits: int) -> dict[str, Any]:
    """Return the spec of a level with one queue."""
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": QUEUES}, **limits}}


def begun(queues: QueueSet, clock: FixedClock, work: Work = ONE_SEAT) -> Place:
    """Return the place of a new request, which is executed or waits."""
    place = Place("schema", "flow", work, None, clock.monotonic())
    assert queues.start(place) == ""
    return place


def test_idle_levels_lend_seats_to_a_busy_one() -> None:
    """A busy level borrows what the other need not keep, until that asks for its own again."""
    clock = FixedClock(0.0)
    levels = PriorityLevels(100, Clocks(clock.monotonic, lambda *_: None))
    levels.digest(dict.fromkeys(("busy", "idle"), limited(nominalConcurrencyShares=1, lendablePercent=50)))
    busy, idle = levels.by_name["busy"].queues, levels.by_name["idle"].queues
    assert (busy.limit, idle.limit) == (50, 50)
    places = [begun(busy, clock) for _ in range(80)]
    assert (busy.seats, busy.waiting) == (50, 30)
    clock.seconds += PERIOD
    levels.adjust()
    assert (busy.limit, idle.limit) == (75, 25)
    assert (busy.seats, busy.waiting, busy.demand.last.average, busy.demand.last.highest) == (75, 5, 80.0, 80)
    for place in places:
        busy.finish(place, clock.monotonic())
    clock.seconds += PERIOD
    for _ in range(60):
        begun(idle, clock)
    clock.seconds += PERIOD
    levels.adjust()
    assert (busy.limit, idle.limit) == (50, 50)


def test_final_seats_are_free_after_their_latency() -> None:
    """A request takes them from its begin on, so that what it causes at its end finds them."""
    clock, alarms = FixedClock(0.0), list[Alarm]()
    queues = QueueSet(QueuingConfig(1, 1, 9), 4, clock.monotonic, lambda *alarm: alarms.append(alarm))
    first, second = begun(queues, clock, work_of(1, 3, 0.5)), begun(queues, clock, work_of(2))
    assert (first.began, queues.waiting, queues.seats) == (0.0, 1, 3)
    clock.seconds = 1.0
    queues.finish(first, clock.monotonic())
    assert queues.waiting == 1
    [(seconds, ring)] = alarms
    assert seconds == 0.5
    clock.seconds = 1.5
    ring()
    assert (second.began, queues.seats) == (1.5, 2)


def test_final_seats_beyond_all_are_held_longer() -> None:
    clock = FixedClock(0.0)
    queues = QueueSet(QueuingConfig(1, 1, 9), 4, clock.monotonic, lambda *_: None)
    assert begun(queues, clock, work_of(1, 8, 0.5)).work == work_of(1, 4, 1.0)


STATS = Stats(1000, 5000)


@pytest.mark.parametrize(
    ("verb", "query", "most", "by_size", "work"),
    [
        ("get", "", 0, False, work_of(1)),
        ("list", "", 0, False, work_of(10)),
        ("list", "", 3, False, work_of(3)),
        ("list", "limit=150", 0, False, work_of(3)),
        ("list", "limit=150&resourceVersion=0", 0, False, work_of(10)),
        ("list", "limit=150&labelSelector=a", 20, False, work_of(10)),
        ("list", "", 0, True, work_of(10)),
        ("list", "limit=400", 0, True, work_of(20)),
        ("list", "limit=100&labelSelector=a", 0, True, work_of(25)),
        ("watch", "resourceVersion=5", 0, False, work_of(1)),
        ("watch", "sendInitialEvents=true", 0, False, work_of(10)),
        ("create", "", 0, False, work_of(1, 7, 0.005)),
        ("create", "", 2, False, work_of(1, 2, 0.0175)),
    ],
)
def test_wide_requests_take_several_seats(verb: str, query: str, most: int, by_size: bool, work: Work) -> None:
    """A list of 1,000 objects with 5,000 bytes each and a write that 65 watches are sent are estimated as upstream."""
    estimator = WorkEstimator(lambda _: STATS, lambda _: 65, by_size=by_size, lists=True)
    request = Attributes("/api/v1/pods", verb, is_resource=True, version="v1", resource="pods")
    flow = Flow("schema", "level")
    assert estimator.estimate(request, Query(query), most, flow) == work
    assert flow.watches == ({65: 1} if verb == "create" else {})


def test_refused_clients_wait_longer_the_more_there_are() -> None:
    """The time doubles while many are refused, not more often than it passes, and falls second by second."""
    tracker = RetryAfter()
    busy = [[tracker.refuse(second) for _ in range(20)][-1] for second in range(100, 109)]
    assert busy == [1, 2, 2, 4, 4, 4, 4, 8, 8]
    assert [tracker.refuse(second) for second in range(200, 206)] == [7, 6, 5, 4, 4, 4]
