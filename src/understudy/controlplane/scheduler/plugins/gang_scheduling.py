"""Gangs: groups of pods of which so many at least are scheduled together.

https://kubernetes.io/docs/concepts/scheduling-eviction/gang-scheduling/
"""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable, unschedulable
from understudy.controlplane.scheduler.pod_groups import PodGroups, key_of, minimum_of
from understudy.machinery.types import Obj


class GangScheduling(Plugin):
    """Keeps the pods of a gang back until there are enough of them, and until there is room for so many."""

    name = "GangScheduling"
    triggers = (
        Trigger(Kind.POD, Action.ADD),
        Trigger(Kind.POD_GROUP, Action.ADD),
        Trigger(Kind.POD_GROUP, Action.UPDATE),
    )

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Keep a pod back that has no group yet, or whose gang is not complete."""
        if not pod.group_key:
            return None
        group = self._groups.get(pod.group_key)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{pod.group}" to appear in scheduling queue')
        if self._groups.count(pod.group_key) < minimum_of(group):
            return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def placement_feasible(self, group: Obj, scheduled: int, remaining: int) -> Status | None:
        """Return the reason that there will not be enough pods with a node, even if all that remain get one."""
        minimum = minimum_of(group)
        if remaining + scheduled >= minimum:
            return None
        return unschedulable(f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining")

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a pod of the same group is new, or the group is, or the group needs fewer pods."""
        if event.new is None:
            return False
        if event.kind is Kind.POD:
            return PodInfo(event.new).group_key == pod.group_key != ""
        if key_of(event.new) != pod.group_key:
            return False
        return event.old is None or minimum_of(event.new) < minimum_of(event.old)
