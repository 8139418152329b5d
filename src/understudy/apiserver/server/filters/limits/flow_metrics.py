"""The metrics of priority levels and flow schemas. Upstream: k8s.io/apiserver/pkg/util/flowcontrol/metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from understudy.apiserver.flowcontrol.classification import FlowControl
from understudy.apiserver.flowcontrol.fairqueuing.levels import PriorityLevel, PriorityLevels
from understudy.apiserver.flowcontrol.fairqueuing.queue_set import SCALE, Dispatch
from understudy.apiserver.flowcontrol.flows import SECONDS, Flow
from understudy.apiserver.flowcontrol.timed_ratios import TimedRatios
from understudy.apiserver.server.filters.limits.watermark import Watermarks
from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample
from understudy.machinery.releases.version import V1_31, V1_34, ByRelease, Version
from understudy.machinery.util.metrics import Series

_SUBSYSTEM = "the API Priority and Fairness subsystem"
_TIMED = "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of"
_SEATS = ByRelease[Sequence[float]]({V1_34: (1, 2, 4, 8, 16, 32, 64, 100), V1_31: (1, 2, 4, 10)})
_LENGTHS = (0, 10, 25, 50, 100, 250, 500, 1000)
_WATCHES = (0, 1, 10, 100, 1000, 10000)

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
_DISPATCHES: Mapping[str, tuple[str, Callable[[Dispatch], int]]] = {
    "dispatch_r": ("[ALPHA] R(time of last dispatch)", lambda dispatch: dispatch.r),
    "latest_s": ("[ALPHA] S(most recently dispatched request)", lambda dispatch: dispatch.start),
}
_OLDEST = "[ALPHA] min and max, over queues, of S(oldest waiting request in queue)"
_BOUNDS: Mapping[str, tuple[str, Callable[[Dispatch], tuple[int, int]]]] = {
    "next_s_bounds": (_OLDEST, lambda dispatch: dispatch.starts),
    "next_discounted_s_bounds": (
        f"{_OLDEST} - estimated work in progress",
        lambda dispatch: dispatch.discounted,
    ),
}
_REQUESTS: Mapping[str, str] = {
    "current_inqueue_requests": f"[BETA] Number of requests currently pending in queues of {_SUBSYSTEM}",
    "current_inqueue_seats": f"[ALPHA] Number of seats currently pending in queues of {_SUBSYSTEM}",
    "current_executing_requests": "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) "
    f"execution stage in {_SUBSYSTEM}",
    "current_executing_seats": "[BETA] Concurrency (number of seats) occupied by the currently executing (initial "
    f"stage for a WATCH, any stage otherwise) requests in {_SUBSYSTEM}",
}


class FlowMetrics:
    """The metrics of one server's flow control: of its priority levels, and of the requests of each flow schema."""

    def __init__(
        self,
        levels: PriorityLevels,
        flow_control: FlowControl,
        executing: Watermarks,
        waiting: Watermarks,
        release: Version,
    ) -> None:
        self._levels = levels
        self._flow_control = flow_control
        self._executing, self._waiting = executing, waiting
        self._seats = _SEATS[release]

    def count(self) -> None:
        """Count for how long requests that read, and those that write, were executed and have waited until now."""
        for watermark in self._executing.values():
            watermark.count(max(self._levels.nominal, 1))
        for watermark in self._waiting.values():
            watermark.count(self._levels.capacity)

    def families(self) -> Iterable[Family]:
        """Yield the families of what was executed and refused, of waits, and of what there is now."""
        levels = sorted(self._levels.by_name.values(), key=lambda level: level.name)
        prefix = "apiserver_flowcontrol"
        for name, kind, about, samples in (
            *self._of_flows(),
            *self._of_use(levels),
            *self._of_levels(levels),
            *self._of_dispatches(levels),
        ):
            yield Family(f"{prefix}_{name}", kind, about, samples)
        for name, counts in self._current(levels).items():
            samples = [Sample(_labels(*flow), count) for flow, count in sorted(counts.items())]
            yield Family(f"{prefix}_{name}", GAUGE, _REQUESTS[name], samples)

    def _of_flows(self) -> Iterator[Family]:
        """Yield the families of the requests of flow schemas that there were."""
        about = "Number of requests rejected by API Priority and Fairness subsystem"
        yield Family("rejected_requests_total", COUNTER, f"[BETA] {about}", self._rejections())
        about = "[BETA] Length of time a request spent waiting in its queue"
        waits = self._durations("execute", lambda flow: {str(key).lower(): value for key, value in flow.waits.items()})
        yield Family("request_wait_duration_seconds", HISTOGRAM, about, waits)
        about = "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in"
        executions = self._durations("type", lambda flow: flow.executions)
        yield Family("request_execution_seconds", HISTOGRAM, f"[ALPHA] {about} {_SUBSYSTEM}", executions)
        about = f"[ALPHA] Length of queue in {_SUBSYSTEM}, as seen by each request after it is enqueued"
        lengths = self._numbers(_LENGTHS, lambda flow: flow.queue_lengths)
        yield Family("request_queue_length_after_enqueue", HISTOGRAM, about, lengths)
        about = "Number of estimated seats (maximum of initial and final seats) associated with requests in API "
        seats = self._numbers(self._seats, lambda flow: flow.seats)
        yield Family("work_estimated_seats", HISTOGRAM, f"[ALPHA] {about}Priority and Fairness", seats)
        about = "[ALPHA] count of watchers for mutating requests in API Priority and Fairness"
        yield Family("watch_count_samples", HISTOGRAM, about, self._numbers(_WATCHES, lambda flow: flow.watches))

    def _of_use(self, levels: Sequence[PriorityLevel]) -> Iterator[Family]:
        """Yield the families of the parts of seats and queues that were used, and for how long."""
        uses = {level.name: level.queues.demand.utilization for level in levels}
        about = "(the number of seats each priority level could use) / (nominal number of seats for that level)"
        samples = [_timed(use.demand, priority_level=name) for name, use in uses.items()]
        yield Family("demand_seats", HISTOGRAM, f"{_TIMED} {about}", samples)
        about = "number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but "
        samples = [_timed(use.executing, phase="executing", priority_level=name) for name, use in uses.items()]
        samples += [_timed(use.waiting, phase="waiting", priority_level=name) for name, use in uses.items()]
        about = f"{_TIMED} {about}only initial stage for WATCHes)"
        yield Family("priority_level_request_utilization", HISTOGRAM, about, samples)
        about = "utilization of seats for any stage of execution (but only initial stage for WATCHes)"
        samples = [_timed(use.seats, phase="executing", priority_level=name) for name, use in uses.items()]
        yield Family("priority_level_seat_utilization", HISTOGRAM, f"{_TIMED} {about}", samples)
        about = "the number of requests (as a fraction of the relevant limit) waiting or in regular stage of execution"
        samples = [*self._executing.ratios("executing"), *self._waiting.ratios("waiting")]
        yield Family("read_vs_write_current_requests", HISTOGRAM, f"{_TIMED} {about}", samples)

    def _of_levels(self, levels: Sequence[PriorityLevel]) -> Iterator[Family]:
        """Yield the numbers of each priority level: its seats, its demand and its virtual time."""
        about = "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it"
        yield Family("seat_fair_frac", GAUGE, about, [Sample({}, self._levels.fair_part)])
        for name, (about, value) in _BY_LEVEL.items():
            yield Family(name, GAUGE, about, [_of_level(level, value(level)) for level in levels])

    def _of_dispatches(self, levels: Iterable[PriorityLevel]) -> Iterator[Family]:
        """Yield the virtual times of the last dispatch of each priority level that has had one from a queue."""
        last = [(level, dispatch) for level in levels if (dispatch := level.queues.last_dispatch) is not None]
        for name, (about, value) in _DISPATCHES.items():
            samples = [_of_level(level, value(dispatch) / SCALE) for level, dispatch in last]
            yield Family(name, GAUGE, about, samples)
        for name, (about, bounds) in _BOUNDS.items():
            samples = [
                _of_level(level, at / SCALE, bound=bound)
                for level, dispatch in last
                for bound, at in zip(("min", "max"), bounds(dispatch), strict=True)
            ]
            yield Family(name, GAUGE, about, samples)

    def _current(self, levels: Iterable[PriorityLevel]) -> dict[str, Counts[tuple[str, str]]]:
        """Return the requests that wait and are executed, and their seats; 0 for flows that have had any."""
        counts = {name: Counts[tuple[str, str]]() for name in _REQUESTS}
        for flow in self._flow_control.flows:
            for family in _REQUESTS:
                if flow.queue_lengths if "inqueue" in family else flow.dispatched:
                    counts[family][flow.schema, flow.level] = 0
        for level in levels:
            for name, places in (("inqueue", level.queues.all_waiting()), ("executing", level.queues.all_executing())):
                for place in places:
                    counts[f"current_{name}_requests"][place.schema, level.name] += 1
                    counts[f"current_{name}_seats"][place.schema, level.name] += place.work.most_seats
        return counts

    def _rejections(self) -> Iterator[Sample]:
        for flow in self._flow_control.flows:
            for reason, count in sorted(flow.rejected.items()):
                yield Sample({**_labels(flow.schema, flow.level), "reason": reason}, count)

    def _durations(self, label: str, durations: Callable[[Flow], Mapping[str, Series]]) -> Iterator[Sample]:
        """Yield durations of the requests of flows, of each kind of which there were any."""
        for flow in self._flow_control.flows:
            for kind, series in durations(flow).items():
                if any(series.counts):
                    labels = {label: kind, **_labels(flow.schema, flow.level)}
                    yield Sample(labels, Observations(SECONDS, series.counts, series.sum))

    def _numbers(self, bounds: Sequence[float], numbers: Callable[[Flow], Counts[int]]) -> Iterator[Sample]:
        """Yield histograms of numbers that requests of flows had, and how often they had them."""
        for flow in self._flow_control.flows:
            if times := numbers(flow):
                counts = [0] * (len(bounds) + 1)
                for number, count in times.items():
                    counts[bisect_left(bounds, number)] += count
                total = sum(number * count for number, count in times.items())
                yield Sample(_labels(flow.schema, flow.level), Observations(bounds, counts, total))


def _labels(schema: str, level: str) -> dict[str, str]:
    return {"flow_schema": schema, "priority_level": level}


def _of_level(level: PriorityLevel, value: float, **labels: str) -> Sample:
    return Sample({**labels, "priority_level": level.name}, value)


def _timed(ratios: TimedRatios, **labels: str) -> Sample:
    return Sample(labels, Observations(ratios.buckets, ratios.counts, ratios.sum))
