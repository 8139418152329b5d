"""The metrics of priority levels and flow schemas. Upstream: k8s.io/apiserver/pkg/util/flowcontrol/metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping

from understudy.apiserver.flowcontrol.fairqueuing.levels import PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import SCALE, Place
from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample

_BUCKETS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_SUBSYSTEM = "the API Priority and Fairness subsystem"
_BY_LEVEL: Mapping[str, tuple[str, Callable[[PriorityLevel], float]]] = {
    "current_limit_seats": (
        "[ALPHA] current derived number of execution seats available to each priority level",
        lambda level: level.queues.limit,
    ),
    "current_r": ("[ALPHA] R(time of last change)", lambda level: level.queues.virtual_time / SCALE),
    "demand_seats_average": (
        "[ALPHA] Time-weighted average, over last adjustment period, of demand_seats",
        lambda level: level.queues.demand.last.average,
    ),
    "demand_seats_high_watermark": (
        "[ALPHA] High watermark, over last adjustment period, of demand_seats",
        lambda level: level.queues.demand.last.highest,
    ),
    "demand_seats_smoothed": ("[ALPHA] Smoothed seat demands", lambda level: level.queues.demand.last.smoothed),
    "demand_seats_stdev": (
        "[ALPHA] Time-weighted standard deviation, over last adjustment period, of demand_seats",
        lambda level: level.queues.demand.last.deviation,
    ),
    "target_seats": ("[ALPHA] Seat allocation targets", lambda level: level.target),
}
_REQUESTS: Mapping[str, str] = {
    "current_inqueue_requests": f"[BETA] Number of requests currently pending in queues of {_SUBSYSTEM}",
    "current_inqueue_seats": f"[ALPHA] Number of seats currently pending in queues of {_SUBSYSTEM}",
    "current_executing_requests": "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) "
    f"execution stage in {_SUBSYSTEM}",
    "current_executing_seats": "[BETA] Concurrency (number of seats) occupied by the currently executing (initial "
    f"stage for a WATCH, any stage otherwise) requests in {_SUBSYSTEM}",
}


class _Waits:
    """Counts the waits of requests: by bucket in `counts`, and their sum in `seconds`."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.seconds = 0.0


class FlowMetrics:
    """Counts the requests to the priority levels of one server.

    rejected  how many were refused, by flow schema, priority level and reason
    """

    def __init__(self, levels: PriorityLevels) -> None:
        self._levels = levels
        self._waits: dict[tuple[str, str, bool], _Waits] = {}
        self.rejected = Counts[tuple[str, str, str]]()

    def note_wait(self, place: Place, level: str, *, executed: bool) -> None:
        """Note how long a request has waited, which then was executed or refused."""
        key = place.schema, level, executed
        waits = self._waits.get(key)
        if waits is None:
            waits = self._waits[key] = _Waits()
        seconds = 0.0 if place.began is None else place.began - place.came
        waits.counts[bisect_left(_BUCKETS, seconds)] += 1
        waits.seconds += seconds

    def families(self) -> Iterable[Family]:
        """Yield the families of what was refused, of waits, and of what there is now."""
        levels = sorted(self._levels.by_name.values(), key=lambda level: level.name)
        prefix = "apiserver_flowcontrol"
        about = "[BETA] Number of requests rejected by API Priority and Fairness subsystem"
        yield Family(f"{prefix}_rejected_requests_total", COUNTER, about, self._rejections())
        about = "[BETA] Length of time a request spent waiting in its queue"
        yield Family(f"{prefix}_request_wait_duration_seconds", HISTOGRAM, about, self._durations())
        about = "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it"
        yield Family(f"{prefix}_seat_fair_frac", GAUGE, about, [Sample({}, self._levels.fair_part)])
        for name, (about, value) in _BY_LEVEL.items():
            samples = [Sample({"priority_level": level.name}, value(level)) for level in levels]
            yield Family(f"{prefix}_{name}", GAUGE, about, samples)
        for name, counts in self._current(levels).items():
            samples = [Sample(_labels(*flow), count) for flow, count in sorted(counts.items())]
            yield Family(f"{prefix}_{name}", GAUGE, _REQUESTS[name], samples)

    def _current(self, levels: Iterable[PriorityLevel]) -> dict[str, Counts[tuple[str, str]]]:
        """Return the requests that wait and are executed, and their seats; 0 for flows that have had any."""
        counts = {name: Counts[tuple[str, str]]() for name in _REQUESTS}
        for schema, name, executed in self._waits:
            for family in _REQUESTS:
                level = self._levels.by_name.get(name)
                if (level is not None and level.queues.queues) if "inqueue" in family else executed:
                    counts[family][schema, name] = 0
        for level in levels:
            for name, places in (("inqueue", level.queues.all_waiting()), ("executing", level.queues.all_executing())):
                for place in places:
                    counts[f"current_{name}_requests"][place.schema, level.name] += 1
                    counts[f"current_{name}_seats"][place.schema, level.name] += place.work.most_seats
        return counts

    def _rejections(self) -> Iterator[Sample]:
        for (schema, level, reason), count in sorted(self.rejected.items()):
            yield Sample({**_labels(schema, level), "reason": reason}, count)

    def _durations(self) -> Iterator[Sample]:
        for (schema, level, executed), waits in sorted(self._waits.items()):
            labels = {"execute": str(executed).lower(), **_labels(schema, level)}
            yield Sample(labels, Observations(_BUCKETS, waits.counts, waits.seconds))


def _labels(schema: str, level: str) -> dict[str, str]:
    return {"flow_schema": schema, "priority_level": level}
