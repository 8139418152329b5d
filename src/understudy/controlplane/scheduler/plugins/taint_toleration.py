"""Nodes with taints that keep pods out."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger, is_about
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, Plugin
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable
from understudy.controlplane.scheduler.plugins.taints import first_untolerated
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.types import Obj

TEXT = ByRelease(
    {
        V1_31: "node(s) had untolerated taint {{{key}: {value}}}",
        V1_34: "node(s) had untolerated taint(s)",
    }
)


class TaintToleration(Plugin):
    """Keeps pods off nodes with a taint NoSchedule or NoExecute that they do not tolerate."""

    name = "TaintToleration"
    triggers = (
        Trigger(Kind.NODE, Action.ADD),
        Trigger(Kind.NODE, Action.UPDATE_TAINTS),
        Trigger(Kind.POD, Action.UPDATE_TOLERATIONS),
    )

    def __init__(self, version: Version, gates: Gates) -> None:
        self._text = TEXT[version]
        self._gates = gates

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node with a taint that the pod does not tolerate."""
        taint = self._untolerated(node.taints, pod)
        if taint is None:
            return None
        return unresolvable(self._text.format(key=taint["key"], value=taint.get("value") or ""))

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a node has no such taint any more, or is new and has none, or the pod tolerates more."""
        if event.kind is Kind.POD or event.new is None:
            return is_about(event, pod)
        was_open = event.old is not None and self._untolerated(event.old["spec"].get("taints") or [], pod) is None
        return not was_open and self._untolerated(event.new["spec"].get("taints") or [], pod) is None

    def _untolerated(self, taints: list[Obj], pod: PodInfo) -> Obj | None:
        comparing = self._gates[features.TAINT_TOLERATION_COMPARISON_OPERATORS]
        return first_untolerated(taints, pod.spec.get("tolerations") or (), comparing=comparing)
