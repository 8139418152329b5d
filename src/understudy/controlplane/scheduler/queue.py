"""The pods that wait for a node. Upstream: `backend/queue`, `PriorityQueue`.

A pod is in one of three places, or out of the queue while it is being looked at:

    active         to be looked at now, the highest priority first, then the one that has waited longest
    backing off    to be looked at after a pause, which doubles with each failed attempt
    unschedulable  not to be looked at before something happens that may help, or five minutes have passed

Events are handed to the plugins that turned the pod down. Time comes from a clock, so nothing here waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice, takewhile

from understudy.controlplane.scheduler.framework.events import ClusterEvent, Kind, pod_changes
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.machinery.types import Obj

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0  # seconds
LONGEST_UNSCHEDULABLE = 300.0  # seconds after which a pod is looked at although nothing has happened


class Place(Enum):
    """The places in the queue where a pod may be."""

    ACTIVE = auto()
    BACKOFF = auto()
    UNSCHEDULABLE = auto()
    OUT = auto()  # being looked at, or no longer of interest


@dataclass(eq=False)
class QueuedPod:
    """A pod with its history in the queue. Upstream: `QueuedPodInfo`.

    since          when it was created or last tried
    parked         when it came to the unschedulable ones
    rejections     how often plugins have turned it down
    errors         how often in a row something went wrong instead
    plugins        the names of the plugins that turned it down last
    """

    pod: PodInfo
    since: float
    parked: float = 0.0
    rejections: int = 0
    errors: int = 0
    plugins: frozenset[str] = frozenset()
    place: Place = Place.OUT
    ticket: int = 0  # of its newest entry in a heap; older ones are passed over

    @property
    def backoff_ends(self) -> float:
        """Return the time at which the pause after the last attempt ends."""
        count = self.errors or self.rejections
        return self.since + min(FIRST_BACKOFF * 2 ** (count - 1), LONGEST_BACKOFF) if count else 0.0


@dataclass
class _Heap:
    """Pods by an order. An entry counts as long as its pod is in the place that the heap is for, with that ticket."""

    place: Place
    entries: list[tuple[tuple[float, float], int, QueuedPod]] = field(default_factory=list)

    def push(self, order: tuple[float, float], ticket: int, queued: QueuedPod) -> None:
        queued.place, queued.ticket = self.place, ticket
        heapq.heappush(self.entries, (order, ticket, queued))

    def peek(self) -> QueuedPod | None:
        """Return the first pod, and leave it."""
        while self.entries:
            _, ticket, queued = self.entries[0]
            if queued.place is self.place and queued.ticket == ticket:
                return queued
            heapq.heappop(self.entries)
        return None


class SchedulingQueue:
    """Holds pods, and hands them out one by one.

    clock              returns seconds
    pops_from_backoff  whether pods that were turned down are looked at before their pause ends, if nothing else is to
                       be done (feature gate SchedulerPopFromBackoffQ)
    has_hints          whether plugins say of an event if it may help a pod (feature gate SchedulerQueueingHints); else
                       every event does that triggers them, and every change of the pod itself. They are asked about
                       nodes all the same: upstream looks then whether the pod might run there (`preCheckForNode`)
    """

    def __init__(
        self, plugins: Iterable[Plugin], clock: Callable[[], float], *, pops_from_backoff: bool, has_hints: bool
    ) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}
        self._clock = clock
        self._pops_from_backoff = pops_from_backoff
        self._has_hints = has_hints
        self._pods: dict[str, QueuedPod] = {}
        self._unschedulable: dict[str, QueuedPod] = {}  # those first that have been there longest
        self._active = _Heap(Place.ACTIVE)
        self._backoff = _Heap(Place.BACKOFF)
        self._tickets = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def place_of(self, uid: str) -> Place:
        """Return the part of the queue that a pod is in."""
        return self._pods[uid].place if uid in self._pods else Place.OUT

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod."""
        queued = self._pods[pod.uid] = QueuedPod(pod, self._clock())
        self._activate(queued)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take in a changed pod. Its own changes may be what it has waited for."""
        queued = self._pods.get(new.uid)
        if queued is None:
            return
        queued.pod = new
        if queued.place is Place.UNSCHEDULABLE and self._helps_itself(queued, old.obj, new.obj):
            self._requeue(queued)

    def delete(self, uid: str) -> None:
        """Forget a pod."""
        queued = self._pods.pop(uid, None)
        if queued:
            self._unschedulable.pop(uid, None)
            queued.place = Place.OUT

    def pop(self) -> QueuedPod | None:
        """Return the next pod to look at, None if there is none now."""
        self._wake_the_long_forgotten()
        while (queued := self._backoff.peek()) and queued.backoff_ends <= self._clock():
            self._activate(queued)
        queued = self._active.peek()
        if queued is None and self._pops_from_backoff:
            queued = self._backoff.peek()
            if queued and not queued.plugins:
                return None
        if queued:
            queued.place = Place.OUT
        return queued

    def seconds_to_next(self) -> float | None:
        """Return after how many seconds `pop` is worth a try without any event; None if no pod waits."""
        queued = self._backoff.peek()
        moments = [queued.backoff_ends] if queued else []
        moments += [queued.parked + LONGEST_UNSCHEDULABLE for queued in islice(self._unschedulable.values(), 1)]
        return max(0.0, min(moments) - self._clock()) if moments else None

    def put_back(self, queued: QueuedPod, plugins: frozenset[str]) -> None:
        """Take a pod back after an attempt that failed because of plugins, or of an error if there are none.

        Upstream: `AddUnschedulableIfNotPresent`.
        """
        if self._pods.get(queued.pod.uid) is not queued:
            return  # deleted in the meantime
        queued.since = self._clock()
        if plugins:
            queued.rejections += 1
            queued.errors = 0
            self._park(queued, plugins)
        else:
            queued.errors += 1
            queued.plugins = plugins
            self._requeue(queued)

    def move(self, events: Sequence[ClusterEvent]) -> bool:
        """Look again at the pods that one of some events may help; return whether there are any.

        Upstream: `MoveAllToActiveOrBackoffQueue`.
        """
        helped = [q for q in self._unschedulable.values() if any(self._helps(q, event) for event in events)]
        for queued in helped:
            self._requeue(queued)
        return bool(helped)

    def _helps(self, queued: QueuedPod, event: ClusterEvent) -> bool:
        """Report whether an event may help a pod, as the plugins that turned it down see it."""
        asks = self._has_hints or event.kind is Kind.NODE
        return any(
            event.trigger in plugin.triggers and (not asks or plugin.is_schedulable_after(queued.pod, event))
            for plugin in map(self._plugins.__getitem__, queued.plugins)
        )

    def _helps_itself(self, queued: QueuedPod, old: Obj, new: Obj) -> bool:
        """Report whether a change of a pod may help it."""
        if not self._has_hints:
            return _without_bookkeeping(old) != _without_bookkeeping(new)
        return any(self._helps(queued, event) for event in pod_changes(old, new))

    def _requeue(self, queued: QueuedPod) -> None:
        """Have a pod looked at, after its pause if that has not ended."""
        self._unschedulable.pop(queued.pod.uid, None)
        if queued.backoff_ends > self._clock():
            self._backoff.push((queued.backoff_ends, 0.0), self._ticket(), queued)
        else:
            self._activate(queued)

    def _activate(self, queued: QueuedPod) -> None:
        """Have a pod looked at next, unless a plugin holds it back before."""
        for plugin in self._plugins.values():
            status = plugin.pre_enqueue(queued.pod)
            if status:
                self._park(queued, frozenset({plugin.name}))
                return
        self._active.push((-queued.pod.priority, queued.since), self._ticket(), queued)

    def _wake_the_long_forgotten(self) -> None:
        """Have pods looked at that have waited for too long."""
        latest = self._clock() - LONGEST_UNSCHEDULABLE
        for queued in list(takewhile(lambda queued: queued.parked <= latest, self._unschedulable.values())):
            self._requeue(queued)

    def _park(self, queued: QueuedPod, plugins: frozenset[str]) -> None:
        """Leave a pod alone until something happens that may help."""
        queued.place, queued.plugins, queued.parked = Place.UNSCHEDULABLE, plugins, self._clock()
        self._unschedulable[queued.pod.uid] = queued

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def _without_bookkeeping(pod: Obj) -> Obj:
    """Return the parts of a pod whose change may help it. Upstream: `isPodUpdated`."""
    ignored = {"resourceVersion", "generation", "managedFields", "finalizers"}
    metadata = {name: value for name, value in pod["metadata"].items() if name not in ignored}
    claims = (pod.get("status") or {}).get("resourceClaimStatuses")
    return {"metadata": metadata, "spec": pod["spec"], "claims": claims}
