"""The pods that wait for a node. Upstream: `backend/queue`, `PriorityQueue`.

A pod, or the waiting pods of a group together, is in one of three places, or out of the queue while it is looked at:

    active         to be looked at now, the highest priority first, then what has waited longest
    backing off    to be looked at after a pause, which doubles with each failed attempt
    unschedulable  not to be looked at before something happens that may help, or five minutes have passed

Events are handed to the plugins that turned a pod down. Time comes from a clock, so nothing here waits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import islice, takewhile

from understudy.controlplane.scheduler.framework.events import ClusterEvent, Kind, pod_changes
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status
from understudy.controlplane.scheduler.pod_groups import PodGroups
from understudy.controlplane.scheduler.queued import Entity, Place, QueuedPod
from understudy.machinery.types import Obj, dataclass

LONGEST_UNSCHEDULABLE = 300.0  # seconds after which a pod is looked at although nothing has happened


@dataclass
class _Heap:
    """Entities by an order. An entry counts as long as its entity is in the place of the heap, with that ticket."""

    place: Place
    entries: list[tuple[tuple[float, float], int, Entity]] = field(default_factory=list)

    def push(self, order: tuple[float, float], ticket: int, entity: Entity) -> None:
        entity.place, entity.ticket = self.place, ticket
        heapq.heappush(self.entries, (order, ticket, entity))

    def peek(self) -> Entity | None:
        """Return the first entity, and leave it."""
        while self.entries:
            _, ticket, entity = self.entries[0]
            if entity.place is self.place and entity.ticket == ticket:
                return entity
            heapq.heappop(self.entries)
        return None


class SchedulingQueue:
    """Holds pods, and hands them out one by one, or all pods of a group at once.

    clock              returns seconds
    pops_from_backoff  whether pods that were turned down are looked at before their pause ends, if nothing else is to
                       be done (feature gate SchedulerPopFromBackoffQ)
    has_hints          whether plugins say of an event if it may help a pod (feature gate SchedulerQueueingHints); else
                       every event does that triggers them, and every change of the pod itself. They are asked about
                       nodes all the same: upstream looks then whether the pod might run there (`preCheckForNode`)
    groups             the groups of pods; None if pods have none
    """

    def __init__(
        self,
        plugins: Iterable[Plugin],
        clock: Callable[[], float],
        *,
        pops_from_backoff: bool,
        has_hints: bool,
        groups: PodGroups | None = None,
    ) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}
        self._clock = clock
        self._pops_from_backoff = pops_from_backoff
        self._has_hints = has_hints
        self._groups = groups
        self._pods: dict[str, QueuedPod] = {}
        self._entities: dict[str, Entity] = {}  # groups with waiting pods, by key
        self._unschedulable: dict[int, Entity] = {}  # by id; those first that have been there longest
        self._active = _Heap(Place.ACTIVE)
        self._backoff = _Heap(Place.BACKOFF)
        self._tickets = 0

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def place_of(self, uid: str) -> Place:
        """Return the part of the queue that a pod is in."""
        return self._pods[uid].entity.place if uid in self._pods else Place.OUT

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod."""
        member = self._pods[pod.uid] = QueuedPod(pod, self._clock())
        if self._groups is not None and pod.group_key:
            self._join_group(member)
            return
        entity = Entity([], "", member.since)
        entity.add(member)
        self._activate(entity)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take in a changed pod. Its own changes may be what it has waited for."""
        member = self._pods.get(new.uid)
        if member is None:
            return
        member.pod = new
        if member.entity.place is Place.UNSCHEDULABLE and self._helps_itself(member.entity, old, new):
            self._requeue(member.entity)

    def delete(self, uid: str) -> None:
        """Forget a pod."""
        member = self._pods.pop(uid, None)
        if member is None or member.entity.place is Place.OUT:
            return
        entity = member.entity
        entity.members.remove(member)
        if entity.members:
            self._put_into_its_place(entity)
            return
        self._unschedulable.pop(id(entity), None)
        self._forget_group(entity)
        entity.place = Place.OUT

    def pop(self) -> Entity | None:
        """Return the next pod or group to look at, None if there is none now."""
        self._wake_the_long_forgotten()
        while (entity := self._backoff.peek()) and entity.backoff_ends <= self._clock():
            if self._pops_from_backoff:
                self._push_active(entity)  # it was not held back when its pause began
            else:
                self._activate(entity)
        entity = self._active.peek()
        if entity is None and self._pops_from_backoff:
            entity = self._backoff.peek()
            if entity and entity.has_failed:
                return None
        if entity:
            entity.place = Place.OUT
            self._forget_group(entity)
            for member in entity.members:
                member.attempts += 1
        return entity

    def seconds_to_next(self) -> float | None:
        """Return after how many seconds `pop` is worth a try without any event; None if no pod waits."""
        entity = self._backoff.peek()
        moments = [entity.backoff_ends] if entity else []
        moments += [entity.parked + LONGEST_UNSCHEDULABLE for entity in islice(self._unschedulable.values(), 1)]
        return max(0.0, min(moments) - self._clock()) if moments else None

    def put_back(self, member: QueuedPod, plugins: frozenset[str]) -> None:
        """Take a pod back after an attempt that failed because of plugins, or of an error if there are none.

        A pod of a group waits with the others again. Upstream: `AddUnschedulablePodIfNotPresent`.
        """
        if self._pods.get(member.pod.uid) is not member:
            return  # deleted in the meantime
        entity = member.entity
        member.since, member.plugins = self._clock(), plugins
        if entity.group:
            self._join_group(member, errors=1)
            return
        entity.since = member.since
        if plugins:
            entity.rejections += 1
            entity.errors = 0
            self._park(entity)
        else:
            entity.errors += 1
            self._requeue(entity)

    def put_back_group(self, entity: Entity, failed: Mapping[str, frozenset[str]], status: Status | None) -> None:
        """Take pods of a group back after an attempt. They are looked at again without any event.

        failed  the plugins that turned a pod down, by uid, for those that have no node now
        status  why the group could not be scheduled; None if enough pods have a node, so that it is the others' turn

        Upstream: `AddAttemptedPodGroupIfNeeded`.
        """
        back = [m for m in entity.members if m.pod.uid in failed and self._pods.get(m.pod.uid) is m]
        if not back:
            return
        again = Entity([], entity.group, entity.since if status is None else self._clock())
        if status is not None:
            again.rejections = entity.rejections + status.is_rejected
            again.errors = 0 if status.is_rejected else entity.errors + 1
        for member in back:
            member.since, member.plugins = self._clock(), failed[member.pod.uid]
            again.add(member)
        self._entities[again.group] = again
        self._requeue(again)

    def delete_group(self, key: str) -> None:
        """Hold the waiting pods of a group back that is gone."""
        if entity := self._entities.get(key):
            self._requeue(entity)

    def move(self, events: Sequence[ClusterEvent]) -> bool:
        """Look again at the pods that one of some events may help; return whether there are any.

        Upstream: `MoveAllToActiveOrBackoffQueue`.
        """
        helped = [e for e in self._unschedulable.values() if any(self._helps(e, event) for event in events)]
        for entity in helped:
            self._requeue(entity)
        return bool(helped)

    def _join_group(self, member: QueuedPod, errors: int = 0) -> None:
        """Have a pod wait with the other pods of its group. Upstream: `addPodGroupMember`."""
        key = member.pod.group_key
        entity = self._entities.get(key)
        if entity is None:
            entity = self._entities[key] = Entity([], key, member.since, errors=errors)
            entity.add(member)
            self._requeue(entity)
            return
        entity.add(member)
        self._put_into_its_place(entity)

    def _put_into_its_place(self, entity: Entity) -> None:
        """Have the pods of a group wait as before, after their number has changed."""
        if entity.place is not Place.UNSCHEDULABLE:
            self._requeue(entity)

    def _forget_group(self, entity: Entity) -> None:
        if self._entities.get(entity.group) is entity:
            del self._entities[entity.group]

    def _helps(self, entity: Entity, event: ClusterEvent) -> bool:
        """Report whether an event may help a pod, as the plugins that turned it down see it."""
        return any(self._helps_pod(member, event) for member in entity.members)

    def _helps_pod(self, member: QueuedPod, event: ClusterEvent) -> bool:
        if not member.plugins:
            return not member.entity.is_gated
        asks = self._has_hints or event.kind is Kind.NODE
        return any(
            event.trigger in plugin.triggers and (not asks or plugin.is_schedulable_after(member.pod, event))
            for plugin in map(self._plugins.__getitem__, member.plugins)
        )

    def _helps_itself(self, entity: Entity, old: PodInfo, new: PodInfo) -> bool:
        """Report whether a change of a pod may help it."""
        if not self._has_hints:
            return _without_bookkeeping(old.obj) != _without_bookkeeping(new.obj)
        return any(self._helps(entity, event) for event in pod_changes(old, new))

    def _requeue(self, entity: Entity) -> None:
        """Have something looked at, after its pause if that has not ended."""
        self._unschedulable.pop(id(entity), None)
        if entity.backoff_ends <= self._clock():
            self._activate(entity)
        elif not (self._pops_from_backoff and self._is_held_back(entity)):
            self._backoff.push((entity.backoff_ends, 0.0), self._ticket(), entity)

    def _activate(self, entity: Entity) -> None:
        """Have something looked at next, unless plugins hold it back."""
        if not self._is_held_back(entity):
            self._push_active(entity)

    def _is_held_back(self, entity: Entity) -> bool:
        """Park something that plugins hold back before it is looked at, all of a group for one of its pods."""
        gates = {member: gate for member in entity.members if (gate := self._gate(member.pod))}
        entity.is_gated = bool(gates)
        for member, gate in gates.items():
            member.plugins = frozenset({gate})
        if gates:
            self._park(entity)
        return bool(gates)

    def _push_active(self, entity: Entity) -> None:
        self._unschedulable.pop(id(entity), None)
        priority = entity.members[0].pod.priority
        if self._groups is not None and entity.group:
            priority = self._groups.priority(entity.group)
        self._active.push((-priority, entity.since), self._ticket(), entity)

    def _gate(self, pod: PodInfo) -> str:
        """Return the name of the first plugin that holds a pod back, "" if none does."""
        return next((plugin.name for plugin in self._plugins.values() if plugin.pre_enqueue(pod)), "")

    def _wake_the_long_forgotten(self) -> None:
        """Have pods looked at that have waited for too long."""
        now = self._clock()
        entities = self._unschedulable.values()
        for entity in list(takewhile(lambda entity: entity.parked + LONGEST_UNSCHEDULABLE <= now, entities)):
            self._requeue(entity)

    def _park(self, entity: Entity) -> None:
        """Leave something alone until something happens that may help."""
        entity.place, entity.parked = Place.UNSCHEDULABLE, self._clock()
        self._unschedulable.pop(id(entity), None)
        self._unschedulable[id(entity)] = entity

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def _without_bookkeeping(pod: Obj) -> Obj:
    """Return the parts of a pod whose change may help it. Upstream: `isPodUpdated`."""
    ignored = {"resourceVersion", "generation", "managedFields", "finalizers"}
    metadata = {name: value for name, value in pod["metadata"].items() if name not in ignored}
    claims = (pod.get("status") or {}).get("resourceClaimStatuses")
    return {"metadata": metadata, "spec": pod["spec"], "claims": claims}
