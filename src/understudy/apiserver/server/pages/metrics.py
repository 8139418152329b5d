"""Metrics: what is counted of requests, and the families of /metrics and /metrics/slis (Prometheus)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field

from understudy.apiserver.flowcontrol.classification import Usage
from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample
from understudy.apiserver.server.pages.healthz import Checks
from understudy.apiserver.server.pages.loop_pauses import BUCKETS as PAUSES
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.native_histogram import NativeHistogram
from understudy.machinery.util.memory import gives_back
from understudy.machinery.util.metrics import REQUEST_SECONDS, AnyFamily, Histogram

_DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"
_ABOUT_DISPATCHED = "[BETA] Number of requests executed by API Priority and Fairness subsystem"
# The bounds of a priority level's seats, and what kube-apiserver says of them.
_SEATS = {
    "nominal": "[BETA] Nominal number of execution seats configured for each priority level",
    "lower": "[ALPHA] Configured lower bound on number of execution seats available to each priority level",
    "upper": "[ALPHA] Configured upper bound on number of execution seats available to each priority level",
}

_ABOUT_TOTALS = (
    "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
    "component, and HTTP response code."
)
_ABOUT_TIMES = (
    "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
    "subresource, scope and component."
)
_ABOUT_WATCHES = (
    "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope "
    "and component. Not all requests are tracked this way."
)

# Of understudy, not of kube-apiserver.
_LONGEST_PAUSE, _PAUSES = "understudy_event_loop_longest_pause_seconds", "understudy_event_loop_pause_seconds"
_BUSIEST_PAUSE = "understudy_event_loop_busiest_pause_cpu_seconds"
_ABOUT_LONGEST_PAUSE = "Longest time since the start in which understudy's event loop answered nobody."
_ABOUT_BUSIEST_PAUSE = "Most CPU that understudy used in a time in which its event loop answered nobody."
_ABOUT_PAUSES = "Times in which understudy's event loop answered nobody, measured every 20 ms."

# Values of LABELS: the verb in capitals (LIST, WATCH, APPLY), the scope cluster, namespace, resource or "", dry_run
# "All" or "".
RequestLabels = tuple[str, str, str, str, str, str, str]
WATCH = "WATCH"
LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run")
_ABOUT_SLIS = "[STABLE] This metric records the result of a single healthcheck."


@dataclass(slots=True)
class _Series:
    """Count the requests with the same labels: by code in `codes`, by bucket of seconds in `durations`.

    created  since when, in seconds since 1970; `codes` has for each code its count, and since when it is counted
    """

    created: float
    native: NativeHistogram | None
    codes: Counts[int] = field(default_factory=Counts)
    created_codes: dict[int, float] = field(default_factory=dict)
    durations: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_SECONDS) + 1))
    seconds: float = 0.0  # sum over all requests


class Metrics:
    """The metrics of one server's requests. Counting is cheap; families are made when they are asked for.

    now     returns the time of day, in seconds since 1970
    native  whether durations are counted in native buckets, too (`NativeHistograms`)
    """

    def __init__(self, now: Callable[[], float], *, native: bool = False) -> None:
        self._now = now
        self._native = native
        self._series: dict[RequestLabels, _Series] = {}
        gives_back(self)

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        """Count a request that was answered after `seconds`. Watches, which end when they like, are not timed."""
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(self._now(), NativeHistogram() if self._native else None)
        if code not in series.codes:
            series.created_codes[code] = self._now()
        series.codes[code] += 1
        if labels[0] != WATCH:
            series.durations[bisect_left(REQUEST_SECONDS, seconds)] += 1
            series.seconds += seconds
            if series.native is not None:
                series.native.observe(seconds)

    @property
    def requested(self) -> set[tuple[str, str, str, str]]:
        """Return (group, version, resource, subresource) of all that was asked for."""
        return {labels[1:5] for labels in self._series}

    def give_back(self) -> None:
        """Put what is counted where other small things are."""
        self._series = deepcopy(self._series)

    def families(
        self,
        *,
        held: Iterable[Family],
        watches: Mapping[tuple[str, str, str], int],
        admission: Iterable[AnyFamily],
        flow_control: Usage | None,
        limiter: Iterable[Family],
        pauses: LoopPauses,
    ) -> Iterable[Family]:
        """Return the families of /metrics, in the order of their names.

        held        the families about what the server is and holds
        watches     {(group, version, resource): how many are open}
        admission   the families of webhooks and policies; one without samples is left out
        flow_control  how requests are classified, None where they are not
        limiter     the families of requests that are admitted; one without samples is left out
        pauses      those of the event loop
        """
        families = (
            *(_admission(family) for family in admission if family.series),
            *(() if flow_control is None else _flow_control(flow_control)),
            *(family._replace(samples=samples) for family in limiter if (samples := [*family.samples])),
            *held,
            Family("apiserver_request_total", COUNTER, _ABOUT_TOTALS, self._totals()),
            Family("apiserver_request_duration_seconds", HISTOGRAM, _ABOUT_TIMES, self._times()),
            Family("apiserver_longrunning_requests", GAUGE, _ABOUT_WATCHES, _watches(watches)),
            Family(_LONGEST_PAUSE, GAUGE, _ABOUT_LONGEST_PAUSE, [Sample({}, pauses.longest)]),
            Family(_BUSIEST_PAUSE, GAUGE, _ABOUT_BUSIEST_PAUSE, [Sample({}, pauses.busiest)]),
            Family(
                _PAUSES, HISTOGRAM, _ABOUT_PAUSES, [Sample({}, Observations(PAUSES, pauses.counts, pauses.seconds))]
            ),
        )
        return sorted(families, key=lambda family: family.name)

    def _totals(self) -> Iterator[Sample]:
        for labels in sorted(self._series):
            series = self._series[labels]
            for code, count in sorted(series.codes.items()):
                yield Sample({"code": str(code), **_labels(labels)}, count, series.created_codes[code])

    def _times(self) -> Iterator[Sample]:
        for labels in sorted(labels for labels in self._series if labels[0] != WATCH):
            series = self._series[labels]
            observations = Observations(REQUEST_SECONDS, series.durations, series.seconds, series.native)
            yield Sample(_labels(labels), observations, series.created)


def slis(checks: Checks, failing: Collection[str] = ()) -> Family:
    """Return the family of /metrics/slis: the state of every health check."""
    samples = (
        Sample({"name": check, "type": name}, int(check not in failing))
        for name, below in checks.items()
        for check in sorted(below)
    )
    return Family("kubernetes_healthcheck", GAUGE, _ABOUT_SLIS, samples)


def _admission(family: AnyFamily) -> Family:
    """Return a family of admission metrics."""
    kind = type(family).__name__.lower()
    return Family(family.name, kind, family.about, _admission_samples(family))


def _admission_samples(family: AnyFamily) -> Iterator[Sample]:
    for values in sorted(family.series):
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(family, Histogram):
            series = family.series[values]
            yield Sample(labels, Observations(family.buckets, series.counts, series.sum))
        else:
            yield Sample(labels, family.series[values])


def _labels(labels: RequestLabels) -> dict[str, str]:
    return {"component": "apiserver" if labels[3] else "", **dict(zip(LABELS, labels, strict=True))}


def _flow_control(usage: Usage) -> Iterator[Family]:
    """Yield the families of the limits of priority levels, and of the requests of flow schemas."""
    for bound, about in _SEATS.items():
        limits = {level: getattr(of_level, bound) for level, of_level in sorted(usage.seats.items())}
        samples = [Sample({"priority_level": level}, limit) for level, limit in limits.items()]
        yield Family(f"apiserver_flowcontrol_{bound}_limit_seats", GAUGE, about, samples)
    yield Family(_DISPATCHED, COUNTER, _ABOUT_DISPATCHED, _dispatched(usage.dispatched))


def _dispatched(dispatched: Mapping[tuple[str, str], int]) -> Iterator[Sample]:
    for (schema, level), count in sorted(dispatched.items()):
        yield Sample({"flow_schema": schema, "priority_level": level}, count)


def _watches(watches: Mapping[tuple[str, str, str], int]) -> Iterator[Sample]:
    for (group, version, resource), count in sorted(watches.items()):
        labels = {"group": group, "version": version, "resource": resource, "verb": WATCH, "component": "apiserver"}
        yield Sample(labels, count)
