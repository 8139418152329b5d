"""The messages about preemption. No pod is ever preempted here: pods of lower priority stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.framework.plugin import CycleState, GroupState, Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Code, Diagnosis, Status, unresolvable, unschedulable
from understudy.machinery.types import Obj

NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class DefaultPreemption(Plugin):
    """Says why no other pod has to go for a pod. kube-scheduler says the same if no pod has a lower priority."""

    name = "DefaultPreemption"

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: Mapping[str, Status]) -> Status:
        """Return the message about all nodes. Upstream: `Evaluator.Preempt`."""
        if pod.preemption_policy == "Never":
            return unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
        no_victims = {name: NO_VICTIMS for name, status in nodes.items() if status.code is Code.UNSCHEDULABLE}
        text = Diagnosis(no_victims, absent=NOT_HELPFUL).message(len(self._cache.nodes))
        return unschedulable(f"preemption: {text}")

    def post_filter_group(self, state: GroupState, group: Obj, pods: Sequence[PodInfo]) -> Status:
        """Return the message about a group of pods. Upstream: `PodGroupEvaluator.Preempt`."""
        if pods[0].preemption_policy == "Never":
            return unschedulable("pod group preemption: not eligible due to preemptionPolicy=Never.")
        return unresolvable("pod group preemption: No preemption victims found for incoming preemptor")
