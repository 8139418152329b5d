"""The events in a cluster that may help a pod that waits. Upstream: `framework.ClusterEvent`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from understudy.controlplane.scheduler.framework.pods import PodInfo, amounts
from understudy.machinery.types import NamedTuple, Obj


class Kind(Enum):
    """The kinds of objects that pods wait for."""

    POD = auto()
    NODE = auto()
    CLAIM = auto()
    CLASS = auto()
    SLICE = auto()
    POD_GROUP = auto()


class Action(Enum):
    """The kinds of changes to an object that may help a pod. Upstream: `framework.ActionType`."""

    ADD = auto()
    UPDATE = auto()
    DELETE = auto()
    UPDATE_ALLOCATABLE = auto()  # of a node, as the next three
    UPDATE_FEATURES = auto()
    UPDATE_LABELS = auto()
    UPDATE_TAINTS = auto()
    UPDATE_GATES = auto()  # of a pod that waits, as the next two
    UPDATE_TOLERATIONS = auto()
    UPDATE_CLAIMS = auto()
    SCALE_DOWN = auto()  # of any pod


class Trigger(NamedTuple):
    """An event that a plugin wants to know of."""

    kind: Kind
    action: Action


class ClusterEvent(NamedTuple):
    """An event with the object before and after; None where there is none."""

    kind: Kind
    action: Action
    old: Obj | None = None
    new: Obj | None = None

    @property
    def trigger(self) -> Trigger:
        """Return the kind of the event, without its objects."""
        return Trigger(self.kind, self.action)


def is_about(event: ClusterEvent, pod: PodInfo) -> bool:
    """Report whether an event is a change of a pod itself."""
    return event.kind is Kind.POD and event.new is not None and event.new["metadata"]["uid"] == pod.uid


def node_changes(old: Obj, new: Obj) -> Iterator[ClusterEvent]:
    """Yield the events for a changed node. Upstream: `NodeSchedulingPropertiesChange`."""
    if old["spec"].get("unschedulable") and not new["spec"].get("unschedulable"):
        yield ClusterEvent(Kind.NODE, Action.UPDATE_TAINTS, old, new)
    if _allocatable(old) != _allocatable(new):
        yield ClusterEvent(Kind.NODE, Action.UPDATE_ALLOCATABLE, old, new)
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        yield ClusterEvent(Kind.NODE, Action.UPDATE_LABELS, old, new)
    if old["spec"].get("taints") != new["spec"].get("taints"):
        yield ClusterEvent(Kind.NODE, Action.UPDATE_TAINTS, old, new)
    if declared_features(old) != declared_features(new):
        yield ClusterEvent(Kind.NODE, Action.UPDATE_FEATURES, old, new)


def declared_features(node: Obj) -> list[str]:
    """Return the features that a node declares."""
    declared: list[str] = (node.get("status") or {}).get("declaredFeatures") or []
    return declared


def _allocatable(node: Obj) -> dict[str, int]:
    return amounts((node.get("status") or {}).get("allocatable"))


def pod_changes(before: PodInfo, after: PodInfo) -> Iterator[ClusterEvent]:
    """Yield the events for a changed pod. Upstream: `PodSchedulingPropertiesChange`."""
    old, new = before.obj, after.obj
    if any(amount > after.resized.get(name, 0) for name, amount in before.resized.items()):
        yield ClusterEvent(Kind.POD, Action.SCALE_DOWN, old, new)
    if old["spec"].get("schedulingGates") and not new["spec"].get("schedulingGates"):
        yield ClusterEvent(Kind.POD, Action.UPDATE_GATES, old, new)
    if old["spec"].get("tolerations") != new["spec"].get("tolerations"):
        yield ClusterEvent(Kind.POD, Action.UPDATE_TOLERATIONS, old, new)
    if before.status.get("resourceClaimStatuses") != after.status.get("resourceClaimStatuses"):
        yield ClusterEvent(Kind.POD, Action.UPDATE_CLAIMS, old, new)
