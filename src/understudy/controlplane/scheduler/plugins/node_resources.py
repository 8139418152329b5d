"""Room for a pod on a node: cpu, memory, storage, extended resources, and the number of pods.

https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
"""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Code, Status
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import ClassOf
from understudy.machinery.releases.version import V1_34, Version


class Fit(Plugin):
    """Compares what a pod requests with what a node has left. Upstream: `noderesources.Fit`.

    From 1.34 on a node that would be too small without any pod is left alone by preemption.
    """

    name = "NodeResourcesFit"
    triggers = (
        Trigger(Kind.POD, Action.DELETE),
        Trigger(Kind.POD, Action.SCALE_DOWN),
        Trigger(Kind.NODE, Action.ADD),
        Trigger(Kind.NODE, Action.UPDATE_ALLOCATABLE),
        Trigger(Kind.CLASS, Action.ADD),
        Trigger(Kind.CLASS, Action.UPDATE),
    )

    def __init__(self, version: Version, class_of: ClassOf) -> None:
        self._knows_small_nodes = version >= V1_34
        self._class_of = class_of

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node with all its reasons: "Too many pods", "Insufficient cpu", …"""
        reasons = ["Too many pods"] if len(node.pods) >= node.allowed_pods else []
        too_small = False
        for name, amount in pod.requests.items():
            allocatable = node.allocatable.get(name, 0)
            if not allocatable and self._class_of(name) is not None:
                continue  # devices provide it, which another plugin looks for
            if amount > allocatable - node.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                too_small |= amount > allocatable
        if not reasons:
            return None
        hopeless = too_small and self._knows_small_nodes
        return Status(Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, tuple(reasons))

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether there is more room than before, for what the pod requests."""
        if event.kind is Kind.POD:
            return True
        if event.kind is Kind.CLASS:
            return event.new is not None and any(map(self._class_of, pod.requests))
        if event.new is None or self.filter(CycleState(), pod, NodeInfo(event.new)) is not None:
            return False
        if event.old is None:
            return True
        before, after = NodeInfo(event.old), NodeInfo(event.new)
        names = [*pod.requests, "pods"]
        return any(after.allocatable.get(name, 0) > before.allocatable.get(name, 0) for name in names)
