"""Node selectors and the required node affinity of pods.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import SKIP, CycleState, Plugin, Skip
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable
from understudy.machinery.types import Obj


class NodeAffinity(Plugin):
    """Keeps pods to nodes that match their `nodeSelector` and required node affinity."""

    name = "NodeAffinity"
    triggers = (Trigger(Kind.NODE, Action.ADD), Trigger(Kind.NODE, Action.UPDATE_LABELS))

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | Skip | frozenset[str] | None:
        """Return the names of the nodes that the pod asks for by name, if every term of its affinity names some."""
        required = pod.required_nodes
        terms = required.selector.get("nodeSelectorTerms") if required is not None else None
        if terms is None and not pod.spec.get("nodeSelector"):
            return SKIP
        names: frozenset[str] = frozenset()
        for term in terms or ():
            of_term = _named_nodes(term)
            if of_term is None:
                return None
            names |= of_term
        if terms and not names:
            return unresolvable("pod affinity terms conflict")
        return names or None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node that does not match."""
        return None if _matches(pod, node.obj) else unresolvable("node(s) didn't match Pod's node affinity/selector")

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a node matches now that did not before."""
        if event.new is None or not _matches(pod, event.new):
            return False
        return event.old is None or not _matches(pod, event.old)


def _named_nodes(term: Obj) -> frozenset[str] | None:
    """Return the nodes that a term names, None if it names none. All its requirements have to agree."""
    names: frozenset[str] | None = None
    for requirement in term.get("matchFields") or ():
        if requirement["key"] == "metadata.name" and requirement["operator"] == "In":
            values = frozenset(requirement["values"])
            names = values if names is None else names & values
    return names


def _matches(pod: PodInfo, node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod.spec.get("nodeSelector") or {}).items()):
        return False
    return pod.required_nodes is None or pod.required_nodes.matches(node)
