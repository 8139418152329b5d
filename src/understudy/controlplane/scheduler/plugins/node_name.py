"""Pods that name their node. They are bound already, so no scheduler sees them; the field is checked all the same."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, Kind, Trigger
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable


class NodeName(Plugin):
    """Compares `spec.nodeName` with the node's name."""

    name = "NodeName"
    triggers = (Trigger(Kind.NODE, Action.ADD),)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down every node but the one that is named, if one is."""
        if pod.node_name in ("", node.name):
            return None
        return unresolvable("node(s) didn't match the requested node name")
