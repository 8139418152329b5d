"""One attempt to find a node for a pod, all of it in memory. Upstream: `schedulingCycle` in `schedule_one.go`."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, GroupState
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework, only_named_nodes
from understudy.controlplane.scheduler.framework.status import Diagnosis, Status, unresolvable
from understudy.controlplane.scheduler.plugins.node_affinity import NodeAffinity
from understudy.machinery.releases.version import V1_31, V1_32, ByRelease, Version
from understudy.machinery.types import dataclass

NO_NODES = "no nodes available to schedule pods"
# Whether the text about a pod counts the nodes that a plugin has left out by naming the others.
COUNTS_LEFT_OUT = ByRelease({V1_31: False, V1_32: True})


@dataclass(frozen=True)
class Placement:
    """A pod with the node that it is to be bound to; the node's room and the devices are taken already.

    has_waited  whether the pod had to wait for other pods of its gang (upstream: `Permit`)
    """

    pod: PodInfo
    node: str
    state: CycleState
    has_waited: bool = False


@dataclass(frozen=True)
class Failure:
    """A pod that gets no node now.

    message       the text of its condition and its event
    is_rejected   whether nodes were looked at and turned down; else something went wrong
    plugins       the names of the plugins that turned it down
    state         what the plugins have found out
    """

    pod: PodInfo
    message: str
    is_rejected: bool
    plugins: frozenset[str]
    state: CycleState


class Scheduler:
    """Finds nodes for pods, one pod after the other.

    It takes the first node that fits, beginning behind the one that it took last, so that pods are spread. There are no
    scores.
    """

    def __init__(self, framework: Framework, cache: NodeCache, version: Version) -> None:
        self._framework = framework
        self._cache = cache
        self._left_out = only_named_nodes([NodeAffinity.name]) if COUNTS_LEFT_OUT[version] else unresolvable()
        self._start = 0

    def schedule(self, pod: PodInfo, group: GroupState | None = None) -> Placement | Failure:
        """Find a node for a pod and take what the pod needs of it.

        group  the notes of plugins about the group with which the pod is scheduled, None for a pod on its own
        """
        state = CycleState(group=group)
        if not self._cache.nodes:
            return Failure(pod, NO_NODES, True, frozenset(), state)
        node = self._find_node(state, pod)
        if isinstance(node, Status):
            return Failure(pod, node.message, False, frozenset(), state)
        if isinstance(node, Diagnosis):
            return Failure(pod, node.message(len(self._cache.nodes)), True, node.plugins, state)
        status = self._framework.reserve(state, pod, node)
        if status is not None:
            return Failure(pod, status.message, status.is_rejected, frozenset({status.plugin} - {""}), state)
        self._cache.assume(pod.with_status(state.pod_status), node)
        return Placement(pod, node, state)

    def give_back(self, placement: Placement) -> None:
        """Give back what was taken for a pod that could not be bound."""
        self._framework.unreserve(placement.state, placement.pod, placement.node)
        self._cache.forget(placement.pod.uid)

    def _find_node(self, state: CycleState, pod: PodInfo) -> str | Diagnosis | Status:
        """Return the name of a node that fits, or why none does, or what went wrong."""
        rejection, names = self._framework.pre_filter(state, pod)
        if rejection is not None:
            if not rejection.is_rejected:
                return rejection
            return self._diagnosis(state, pod, {}, rejection, rejection.message)
        absent = None if names is None else self._left_out
        statuses: dict[str, Status] = {}
        for index, node in self._nodes():
            if names is not None and node.name not in names:
                continue
            status = self._framework.filter(state, pod, node)
            if status is None:
                self._start = index + 1
                return node.name
            if not status.is_rejected:
                return status
            statuses[node.name] = status
        return self._diagnosis(state, pod, statuses, absent, "")

    def _nodes(self) -> Iterator[tuple[int, NodeInfo]]:
        """Yield all nodes with their places in the list, beginning where the last search ended."""
        nodes = list(self._cache.nodes.values())
        for i in range(len(nodes)):
            index = (self._start + i) % len(nodes)
            yield index, nodes[index]

    def _diagnosis(
        self, state: CycleState, pod: PodInfo, statuses: dict[str, Status], absent: Status | None, pre_filter: str
    ) -> Diagnosis:
        plugins = {status.plugin for status in statuses.values()}
        if pre_filter and absent is not None:
            plugins.add(absent.plugin)
        elif absent is not None:
            plugins.add(NodeAffinity.name)
        post_filter = self._framework.post_filter(state, pod, statuses) if state.group is None else ""
        return Diagnosis(statuses, absent, pre_filter, post_filter, frozenset(plugins))
