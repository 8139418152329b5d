"""The queue of pods that wait: order, pauses, and what wakes a pod."""

from __future__ import annotations

import pytest

from tests.controlplane.scheduler.objects import node_obj, pod
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable
from understudy.controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from understudy.controlplane.scheduler.queue import SchedulingQueue
from understudy.controlplane.scheduler.queued import Place

NODE_ADDED = ClusterEvent(Kind.NODE, Action.ADD, None, node_obj("n"))
CLASS_ADDED = ClusterEvent(Kind.CLASS, Action.ADD, None, {})
CLAIM_ADDED = ClusterEvent(Kind.CLAIM, Action.ADD, None, {})


class Picky(Plugin):
    """Waits for nodes and claims, but only with pods whose name is not `stubborn`."""

    name = "Picky"
    triggers = (Trigger(Kind.NODE, Action.ADD), Trigger(Kind.CLAIM, Action.ADD))

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        return pod.name != "stubborn"


class Lazy(Plugin):
    """Holds back pods that are labelled so."""

    name = "Lazy"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable("lazy") if pod.obj["metadata"].get("labels") else None


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[False, True], ids=["", "pops-from-backoff"])
def pops(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def queue(clock: Clock, pops: bool) -> SchedulingQueue:
    return SchedulingQueue([SchedulingGates(), Lazy(), Picky()], clock, pops_from_backoff=pops, has_hints=True)


def reject(queue: SchedulingQueue, *plugins: str) -> None:
    """Look at the next pod, which plugins turn down."""
    queued = queue.pop()
    assert queued is not None
    queue.put_back(queued.members[0], frozenset(plugins))


def names(queue: SchedulingQueue) -> list[str]:
    """Return the names of all pods that are to be looked at now."""
    out = []
    while queued := queue.pop():
        out += [member.pod.name for member in queued.members]
    return out


def test_higher_priority_comes_first_then_earlier_pods(queue: SchedulingQueue, clock: Clock) -> None:
    """Pods of one priority come in the order in which they were created."""
    for name, priority in (("a", 0), ("b", 0), ("urgent", 9)):
        queue.add(pod(name, priority=priority))
        clock.now += 1
    assert names(queue) == ["urgent", "a", "b"]


def test_rejected_pod_waits_for_an_event_of_its_plugin(queue: SchedulingQueue, clock: Clock) -> None:
    """Other events do not help, nor do those that the plugin says are no help."""
    queue.add(pod("a"))
    queue.add(pod("stubborn"))
    reject(queue, "Picky")
    reject(queue, "Picky")
    clock.now += 60
    assert not queue.move([CLASS_ADDED])
    assert names(queue) == []
    assert queue.move([NODE_ADDED])
    assert names(queue) == ["a"]


def test_without_hints_every_event_of_its_plugin_helps_a_pod(clock: Clock) -> None:
    """Without SchedulerQueueingHints plugins are asked about nodes only; a pod's own changes help it, too."""
    queue = SchedulingQueue([Picky()], clock, pops_from_backoff=False, has_hints=False)
    queue.add(pod("stubborn"))
    reject(queue, "Picky")
    clock.now += 60
    assert not queue.move([CLASS_ADDED])
    assert not queue.move([NODE_ADDED])
    assert queue.move([CLAIM_ADDED])
    reject(queue, "Picky")
    clock.now += 60
    queue.update(pod("stubborn"), pod("stubborn", metadata={"finalizers": ["example.com/a"]}))
    assert names(queue) == []
    queue.update(pod("stubborn"), pod("stubborn", metadata={"labels": {"a": "b"}}))
    assert names(queue) == ["stubborn"]


def test_pause_doubles_up_to_ten_seconds(queue: SchedulingQueue, clock: Clock, pops: bool) -> None:
    """A pod that an event may help is looked at when its pause has ended; from 1.33 on also if nothing else is."""
    queue.add(pod("a"))
    for pause in (1, 2, 4, 8, 10, 10):
        reject(queue, "Picky")
        queue.move([NODE_ADDED])
        assert queue.place_of("a") is Place.BACKOFF
        if not pops:
            clock.now += pause - 0.01
            assert queue.pop() is None
            assert queue.seconds_to_next() == pytest.approx(0.01)
            clock.now += 0.01


def test_error_is_tried_again_after_a_pause_without_any_event(queue: SchedulingQueue, clock: Clock) -> None:
    """A pod with which something went wrong always has its pause, and needs no event."""
    queue.add(pod("a"))
    reject(queue)
    assert queue.pop() is None
    assert queue.seconds_to_next() == 1
    clock.now += 1
    reject(queue)
    assert queue.seconds_to_next() == 2


def test_pods_that_wait_are_looked_at_every_five_minutes(queue: SchedulingQueue, clock: Clock) -> None:
    """Hints may be wrong, so nothing waits for ever."""
    queue.add(pod("stubborn"))
    reject(queue, "Picky")
    assert queue.seconds_to_next() == 300
    clock.now += 300
    assert names(queue) == ["stubborn"]


def test_gated_pod_waits_for_its_gates(queue: SchedulingQueue, clock: Clock) -> None:
    """A pod whose gates are removed is looked at at once; until then time does not help either."""
    gated = pod("a", schedulingGates=[{"name": "example.com/g"}])
    queue.add(gated)
    clock.now += 301
    assert names(queue) == []
    assert queue.seconds_to_next() == 300
    queue.update(gated, pod("a"))
    assert names(queue) == ["a"]


def test_change_of_the_pod_is_seen_by_the_next_attempt(queue: SchedulingQueue, clock: Clock) -> None:
    """A pod that changes while it waits, or is looked at, is looked at as it is then."""
    queue.add(pod("a"))
    queue.update(pod("a"), pod("a", priority=5))
    queued = queue.pop()
    assert queued is not None
    assert queued.members[0].pod.priority == 5
    queue.update(pod("a"), pod("a", metadata={"labels": {"held": "back"}}))
    queue.put_back(queued.members[0], frozenset({"Picky"}))
    clock.now += 60
    queue.move([NODE_ADDED])
    assert names(queue) == []


def test_deleted_pod_does_not_come_back(queue: SchedulingQueue, clock: Clock) -> None:
    """A pod that is deleted while it is looked at, or while it waits, is forgotten."""
    queue.add(pod("a"))
    queue.add(pod("b"))
    queued = queue.pop()
    assert queued is not None
    queue.delete("a")
    queue.delete("b")
    queue.put_back(queued.members[0], frozenset())
    clock.now += 400
    assert names(queue) == []
    assert queue.seconds_to_next() is None
