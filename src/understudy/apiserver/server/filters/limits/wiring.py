"""Builds what lets the requests of a server wait for seats."""

from __future__ import annotations

from functools import partial

from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.flowcontrol.fairqueuing.levels import Clocks, PriorityLevels
from understudy.apiserver.flowcontrol.work_estimator import Stats, WorkEstimator
from understudy.apiserver.registry.keys import key_of, prefix_of
from understudy.apiserver.server.filters.limits.fair_queuing import FairQueuing
from understudy.machinery.auth.authorization import Attributes
from understudy.machinery.releases import features
from understudy.machinery.util.timers import call_later

_SAMPLE = 20  # objects whose size stands for that of all


def new_fair_queuing(state: ServerState, concurrency: int) -> tuple[FlowControl, FairQueuing]:
    """Return the classification of the requests of a server, and what lets them wait for seats."""
    clocks = Clocks(state.clock.monotonic, partial(call_later, state.clock))
    levels = PriorityLevels(concurrency, clocks)
    flow_control = FlowControl(state.registry, state.release.version, concurrency, levels)
    by_size = state.gates[features.SIZE_BASED_LIST_COST_ESTIMATE]
    lists = state.gates[features.WATCH_LIST]
    stats = _ResourceStats(state, flow_control)
    estimator = WorkEstimator(stats, partial(_watches, state), by_size=by_size, lists=lists)
    return flow_control, FairQueuing(flow_control, levels, estimator, state.clock, state.release.version)


class _ResourceStats:
    """Counts the objects of resources. The counts are kept until the next write.

    A reset ends at a revision that there was before, with other objects; what flow control has read is read again then.
    """

    def __init__(self, state: ServerState, flow_control: FlowControl) -> None:
        self._state = state
        self._flow_control = flow_control
        self._kept: dict[tuple[str, str, str], Stats] = {}
        self._known = (0, 0)  # revision, digests

    def __call__(self, request: Attributes) -> Stats | None:
        """Return the number of objects of a resource, and their size; None for a resource that is not stored."""
        known = self._state.registry.store.revision, self._flow_control.digests
        if known != self._known:
            self._kept.clear()
            self._known = known
        key = request.group, request.version, request.resource
        stats = self._kept.get(key)
        if stats is None and (kind := self._state.serving.resource(*key)) is not None and not kind.virtual:
            stats = self._kept[key] = self._count(prefix_of(kind))
        return stats

    def _count(self, prefix: str) -> Stats:
        store = self._state.registry.store
        count = store.count(prefix)
        if not count or not self._state.gates[features.SIZE_BASED_LIST_COST_ESTIMATE]:
            return Stats(count, 0)
        sample = store.scan(prefix)[:_SAMPLE]
        return Stats(count, sum(entry.encoded_size for entry in sample) // max(len(sample), 1))


def _watches(state: ServerState, request: Attributes) -> int:
    """Return the number of watches that may be sent the write of an object (`GetInterestedWatchCount`)."""
    kind = state.serving.resource(request.group, request.version, request.resource)
    if kind is None:
        return 0
    return state.registry.store.watching(prefix_of(kind), key_of(kind, request.namespace, request.name))
