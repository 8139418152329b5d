"""Cordoned nodes."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger, is_about
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable
from understudy.controlplane.scheduler.plugins.taints import is_tolerated
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class NodeUnschedulable(Plugin):
    """Keeps pods off nodes with `spec.unschedulable`, unless they tolerate the taint that such nodes get."""

    name = "NodeUnschedulable"
    triggers = (
        Trigger(Kind.NODE, Action.ADD),
        Trigger(Kind.NODE, Action.UPDATE_TAINTS),
        Trigger(Kind.POD, Action.UPDATE_TOLERATIONS),
    )

    def __init__(self, gates: Gates) -> None:
        self._gates = gates

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a cordoned node."""
        if not node.obj["spec"].get("unschedulable"):
            return None
        comparing = self._gates[features.TAINT_TOLERATION_COMPARISON_OPERATORS]
        if is_tolerated(CORDON, pod.spec.get("tolerations") or (), comparing=comparing):
            return None
        return unresolvable("node(s) were unschedulable")

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a node may be used again, or is new and may be used, or the pod tolerates more."""
        if event.kind is Kind.POD:
            return is_about(event, pod)
        was_closed = event.old is None or bool(event.old["spec"].get("unschedulable"))
        return was_closed and event.new is not None and not event.new["spec"].get("unschedulable")
