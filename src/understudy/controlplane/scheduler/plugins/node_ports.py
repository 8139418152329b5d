"""Ports of the node that containers take."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import SKIP, CycleState, Plugin, Skip
from understudy.controlplane.scheduler.framework.pods import HostPort, PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unschedulable


class NodePorts(Plugin):
    """Keeps pods off nodes on which a port that they take is taken already."""

    name = "NodePorts"
    triggers = (Trigger(Kind.POD, Action.DELETE), Trigger(Kind.NODE, Action.ADD))

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Skip | None:
        """Skip pods without ports of the node."""
        return None if pod.host_ports else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node on which one of the ports is taken."""
        if not _conflict(pod, node.used_ports):
            return None
        return unschedulable("node(s) didn't have free ports for the requested pod ports")

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a pod that is gone took one of the ports."""
        return event.kind is Kind.NODE or (event.old is not None and _conflict(pod, PodInfo(event.old).host_ports))


def _conflict(pod: PodInfo, used: list[HostPort] | tuple[HostPort, ...]) -> bool:
    return any(port.conflicts_with(other) for port in pod.host_ports for other in used)
