"""One attempt to find nodes for the pods of a group, all of it in memory. Upstream: `schedule_one_podgroup.go`.

Pods are placed one after the other. If too few of them get a node, all give theirs back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from understudy.controlplane.scheduler.cycle import Failure, Placement, Scheduler
from understudy.controlplane.scheduler.framework.plugin import CycleState, GroupState
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.framework.status import Code, Status, error, unschedulable
from understudy.controlplane.scheduler.pod_groups import PodGroups, key_of, minimum_of
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj, dataclass

UNSCHEDULABLE = "pod group is unschedulable"  # upstream: `errPodGroupUnschedulable`
SAME = "all pods in a single pod group should have the same "
SAME_NAME = SAME + ".spec.schedulerName set, got: {} and {}"
SAME_PRIORITY = SAME + "priority as the pod group's priority, got {} and {}"
SAME_POLICY = SAME + "preemption policy, got {} and {}"


@dataclass(frozen=True)
class GroupOutcome:
    """The outcome of an attempt for a group. Upstream: `podGroupAlgorithmResult`.

    placements  the pods that are to be bound
    failures    the pods that get no node now
    status      why the group is not scheduled, None if enough pods have a node
    state       what the plugins have found out about the group
    """

    group: Obj
    placements: list[Placement]
    failures: list[Failure]
    status: Status | None
    state: GroupState


class GroupScheduler:
    """Finds nodes for the pods of a group, for enough of them at once."""

    def __init__(self, scheduler: Scheduler, framework: Framework, groups: PodGroups) -> None:
        self._scheduler = scheduler
        self._framework = framework
        self._groups = groups

    def schedule(self, group: Obj, pods: Sequence[PodInfo]) -> GroupOutcome:
        """Find nodes for the waiting pods of a group and take what they need of these."""
        state: GroupState = {}
        outcomes: list[Placement | Failure] = []
        status = self._mismatch(group, pods) or self._place(group, pods, state, outcomes)
        if status is None:
            return GroupOutcome(group, self._permitted(group, outcomes), _failures(outcomes), None, state)
        for outcome in reversed(outcomes):
            if isinstance(outcome, Placement):
                self._scheduler.give_back(outcome)
        unseen = status
        if status.code is Code.UNSCHEDULABLE:
            remedy = self._framework.post_filter_group(state, group, pods)
            reasons = (*status.reasons, remedy.message)
            status = remedy if remedy.code is Code.ERROR else unschedulable(*reasons)
        failures = [_final(outcome, status) for outcome in outcomes]
        failures += [_failure(pod, status if status.code is Code.ERROR else unseen) for pod in pods[len(outcomes) :]]
        return GroupOutcome(group, [], failures, status, state)

    def _permitted(self, group: Obj, outcomes: list[Placement | Failure]) -> list[Placement]:
        """Return the placements of a group; the first ones have had to wait for those that complete a gang."""
        placements = [outcome for outcome in outcomes if isinstance(outcome, Placement)]
        before = len(self._groups.scheduled(key_of(group))) - len(placements)
        for placement in placements:
            placement.state.group = None
        missing = minimum_of(group) - before - 1
        return [replace(placement, has_waited=i < missing) for i, placement in enumerate(placements)]

    def _mismatch(self, group: Obj, pods: Sequence[PodInfo]) -> Status | None:
        """Return the error of a pod that does not go with its group. Upstream: `validatePodGroup`."""
        first, key = pods[0], key_of(group)
        priority = self._groups.priority(key)
        for pod in (*pods, *self._groups.scheduled(key)):
            names = [str(each.spec.get("schedulerName") or "") for each in (pod, first)]
            if names[0] != names[1]:
                return error(SAME_NAME.format(*map(go_quote, names)))
            if pod.priority != priority:
                return error(SAME_PRIORITY.format(pod.priority, priority))
            if pod.preemption_policy != first.preemption_policy:
                return error(SAME_POLICY.format(pod.preemption_policy, first.preemption_policy))
        return None

    def _place(
        self, group: Obj, pods: Sequence[PodInfo], state: GroupState, outcomes: list[Placement | Failure]
    ) -> Status | None:
        """Place one pod after the other; return why too few have a node, None if enough have.

        outcomes  what has become of each pod; those behind one that ends the attempt are not looked at

        Upstream: `podGroupSchedulingDefaultAlgorithm`.
        """
        scheduled = len(self._groups.scheduled(key_of(group)))
        status = self._framework.placement_feasible(group, scheduled, len(pods))
        if status is not None:
            return unschedulable(UNSCHEDULABLE, *status.reasons)
        for pod in pods:
            outcome = self._scheduler.schedule(pod, state)
            outcomes.append(outcome)
            if isinstance(outcome, Placement):
                scheduled += 1
            elif not outcome.is_rejected:
                return error(f"failed to schedule other pod from a pod group: {outcome.message}")
            status = self._framework.placement_feasible(group, scheduled, len(pods) - len(outcomes))
            if status is not None:
                return status
        if not any(isinstance(outcome, Placement) for outcome in outcomes):
            return unschedulable(UNSCHEDULABLE)
        return None


def _failures(outcomes: list[Placement | Failure]) -> list[Failure]:
    return [outcome for outcome in outcomes if isinstance(outcome, Failure)]


def _final(outcome: Placement | Failure, status: Status) -> Failure:
    """Return the failure of a pod whose group is not scheduled: its own, or that of the group."""
    if isinstance(outcome, Failure):
        return outcome if outcome.is_rejected is status.is_rejected else _failure(outcome.pod, status, outcome.state)
    said = unschedulable(UNSCHEDULABLE, status.message) if status.is_rejected else status
    return _failure(outcome.pod, said, outcome.state)


def _failure(pod: PodInfo, status: Status, state: CycleState | None = None) -> Failure:
    return Failure(pod, status.message, status.is_rejected, frozenset(), state or CycleState())
