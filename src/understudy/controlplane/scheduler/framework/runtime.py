"""Runs plugins one after the other, at each point of an attempt. Upstream: `framework/runtime`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import CycleState, GroupState, Plugin, Skip
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from understudy.machinery.types import Obj


class Framework:
    """The plugins of a scheduler in their order."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.plugins = plugins
        self._pre_filters = [p for p in plugins if type(p).pre_filter is not Plugin.pre_filter]
        self._filters = [p for p in plugins if type(p).filter is not Plugin.filter]
        self._post_filters = [p for p in plugins if type(p).post_filter is not Plugin.post_filter]
        self._group_post_filters = [p for p in plugins if type(p).post_filter_group is not Plugin.post_filter_group]
        self._reserves = [p for p in plugins if type(p).reserve is not Plugin.reserve]

    def pre_filter(self, state: CycleState, pod: PodInfo) -> tuple[Status | None, frozenset[str] | None]:
        """Return the reason that no node fits, and the only nodes that may. Upstream: `RunPreFilterPlugins`."""
        names: frozenset[str] | None = None
        for plugin in self._pre_filters:
            answer = plugin.pre_filter(state, pod)
            if isinstance(answer, Skip):
                state.skips.add(plugin.name)
            elif isinstance(answer, Status):
                if answer.is_rejected:
                    return answer.of(plugin.name), None
                return error(f'running PreFilter plugin "{plugin.name}": {answer.message}'), None
            elif answer is not None:
                names = answer if names is None else names & answer
        return None, names

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the reasons of the first plugin that turns a node down. Upstream: `RunFilterPlugins`."""
        for plugin in self._filters:
            if plugin.name in state.skips:
                continue
            status = plugin.filter(state, pod, node)
            if status is not None:
                if status.is_rejected:
                    return status.of(plugin.name)
                return error(f'running "{plugin.name}" filter plugin: {status.message}')
        return None

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: Mapping[str, Status]) -> str:
        """Return the answers of all plugins about a remedy, as one text. Upstream: `RunPostFilterPlugins`."""
        reasons: list[str] = []
        for plugin in self._post_filters:
            status = plugin.post_filter(state, pod, nodes)
            if status is not None:
                if status.code is Code.ERROR:
                    return status.message
                reasons += status.reasons
        return ", ".join(reasons)

    def placement_feasible(self, group: Obj, scheduled: int, remaining: int) -> Status | None:
        """Return the first reason that too few pods of a group can get a node.

        Upstream: `RunPlacementFeasiblePlugins`.
        """
        answers = (plugin.placement_feasible(group, scheduled, remaining) for plugin in self.plugins)
        return next((answer for answer in answers if answer is not None), None)

    def post_filter_group(self, state: GroupState, group: Obj, pods: Sequence[PodInfo]) -> Status:
        """Return the answers of all plugins about a remedy for a group; the first that leaves no hope is the only one.

        Upstream: `RunPodGroupPostFilterPlugins`.
        """
        reasons: list[str] = []
        for plugin in self._group_post_filters:
            status = plugin.post_filter_group(state, group, pods)
            if status is None:
                continue
            if status.code is Code.UNRESOLVABLE:
                return status.of(plugin.name)
            if status.code is Code.ERROR:
                return error(f'error in "{plugin.name}" PodGroupPostFilter plugins: {status.message}')
            reasons += status.reasons
        return unschedulable(*reasons)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Let every plugin take what the pod needs; if one cannot, all give back.

        Upstream: `RunReservePluginsReserve`.
        """
        for plugin in self._reserves:
            status = plugin.reserve(state, pod, node)
            if status is not None:
                self.unreserve(state, pod, node)
                if status.is_rejected:
                    return status.of(plugin.name)
                return error(f'running Reserve plugin "{plugin.name}": {status.message}')
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Let every plugin give back what it has taken, the last one first."""
        for plugin in reversed(self._reserves):
            plugin.unreserve(state, pod, node)


def only_named_nodes(plugins: Sequence[str]) -> Status:
    """Return the status of the nodes that a plugin has left out by naming the others."""
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")
