"""Pods whose gates are still closed. https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/"""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, Kind, Trigger
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable


class SchedulingGates(Plugin):
    """Keeps pods with scheduling gates back."""

    name = "SchedulingGates"
    triggers = (Trigger(Kind.POD, Action.UPDATE_GATES),)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return the gates that are closed."""
        gates = pod.spec.get("schedulingGates")
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate['name'] for gate in gates)}]")
