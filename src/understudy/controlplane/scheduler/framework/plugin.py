"""The interface of plugins. A plugin overrides the methods of the extension points at which it decides something.

Upstream: `framework.Plugin`, and one interface for each extension point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from understudy.controlplane.scheduler.framework.events import ClusterEvent, Trigger
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status
from understudy.machinery.types import Obj, dataclass

GroupState = dict[str, Any]  # what each plugin works out about a group of pods, by its name: `PodGroupCycleState`


@dataclass
class CycleState:
    """The notes of plugins about a pod during one attempt to schedule it. Upstream: `framework.CycleState`.

    data        what each plugin works out before it looks at nodes, by the plugin's name
    skips       the names of the plugins that have nothing to say about the pod
    group       the notes about the group with which the pod is being scheduled, None without one and while it is bound
    pod_status  fields that are going to be written into the status of the pod, and that count as soon as it has a node
    """

    data: dict[str, Any] = field(default_factory=dict)
    skips: set[str] = field(default_factory=set)
    group: GroupState | None = None
    pod_status: Obj = field(default_factory=dict)


class Skip:
    """The answer of `pre_filter` of a plugin whose `filter` has nothing to say about the pod."""


SKIP = Skip()


class Plugin:
    """A part of the decision about a pod. None stands for success everywhere.

    triggers  the events that may help a pod which the plugin has turned down
    """

    name: ClassVar[str]
    triggers: tuple[Trigger, ...] = ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return the reason to make no attempt for a pod. It gets no condition and no event."""
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | Skip | frozenset[str] | None:
        """Work out what concerns all nodes. Return why no node will do, or the names of the only nodes that might."""
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the reason that a pod cannot go to a node."""
        return None

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: Mapping[str, Status]) -> Status | None:
        """Return the outcome of making room for a pod that no node can take."""
        return None

    def placement_feasible(self, group: Obj, scheduled: int, remaining: int) -> Status | None:
        """Return the reason that too few pods of a group can get a node.

        scheduled  how many pods have one, in memory at least
        remaining  how many pods are still to be looked at
        """
        return None

    def post_filter_group(self, state: GroupState, group: Obj, pods: Sequence[PodInfo]) -> Status | None:
        """Return the outcome of making room for a group of pods, too few of which get a node."""
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Take what the pod needs of a node, in memory. Return why that failed."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Give back what `reserve` took."""

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether one of the triggering events may help a pod (upstream: `QueueingHintFn`)."""
        return True
