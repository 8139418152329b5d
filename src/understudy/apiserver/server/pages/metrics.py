"""Metrics: what is counted of requests, and the text of /metrics and /metrics/slis (Prometheus)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from understudy.admission.metrics import Counter, Gauge, Histogram
from understudy.apiserver.flowcontrol.seats import SeatLimits
from understudy.apiserver.server.pages.healthz import Checks
from understudy.apiserver.server.pages.loop_pauses import BUCKETS as PAUSES
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease

_TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping="
CONTENT_TYPE = ByRelease({V1_33: f"{_TEXT}underscores", V1_31: f"{_TEXT}values"})
BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)

_DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"
_ABOUT_DISPATCHED = "[BETA] Number of requests executed by API Priority and Fairness subsystem"
# The bounds of a priority level's seats, and what kube-apiserver says of them.
_SEATS = {
    "nominal": "[BETA] Nominal number of execution seats configured for each priority level",
    "lower": "[ALPHA] Configured lower bound on number of execution seats available to each priority level",
    "upper": "[ALPHA] Configured upper bound on number of execution seats available to each priority level",
}

# Of understudy, not of kube-apiserver.
_LONGEST_PAUSE, _PAUSES = "understudy_event_loop_longest_pause_seconds", "understudy_event_loop_pause_seconds"
_ABOUT_LONGEST_PAUSE = "Longest time since the start in which understudy's event loop answered nobody."
_ABOUT_PAUSES = "Times in which understudy's event loop answered nobody, measured every 20 ms."

# Values of LABELS: the verb in capitals (LIST, WATCH, APPLY), the scope cluster, namespace, resource or "", dry_run
# "All" or "".
RequestLabels = tuple[str, str, str, str, str, str, str]
WATCH = "WATCH"
LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run")


@dataclass(slots=True)
class _Series:
    """Count the requests with the same labels: by code in `codes`, by bucket of seconds in `durations`."""

    codes: Counts[int] = field(default_factory=Counts)
    durations: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0  # sum over all requests


class Metrics:
    """The metrics of one server's requests. Counting is cheap; text is made when it is asked for."""

    def __init__(self) -> None:
        self._series: defaultdict[RequestLabels, _Series] = defaultdict(_Series)

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        """Count a request that was answered after `seconds`. Watches, which end when they like, are not timed."""
        series = self._series[labels]
        series.codes[code] += 1
        if labels[0] != WATCH:
            series.durations[bisect_left(BUCKETS, seconds)] += 1
            series.seconds += seconds

    async def text(
        self,
        *,
        version: Mapping[str, str],
        gates: Mapping[str, tuple[str, bool]],
        objects: Mapping[str, int],
        watches: Mapping[tuple[str, str, str], int],
        admission: Iterable[Counter | Gauge | Histogram],
        seats: Mapping[str, SeatLimits],
        dispatched: Mapping[tuple[str, str], int],
        pauses: LoopPauses,
    ) -> bytes:
        """Return the text of /metrics. Others have their turn meanwhile.

        version     what /version answers
        gates       {name: (stage, on)}
        objects     {resource: how many are stored}
        watches     {(group, version, resource): how many are open}
        admission   the families of webhooks and policies; one without samples is left out
        seats       {priority level: its seats}
        dispatched  {(flow schema, priority level): how many requests there were}
        pauses      those of the event loop
        """
        families = (
            *(_admission(family) for family in admission if family.series),
            *_seats(seats),
            (_DISPATCHED, "counter", _ABOUT_DISPATCHED, _dispatched(dispatched)),
            ("apiserver_request_total", "counter", "Requests by what they asked for and their code.", self._totals()),
            ("apiserver_request_duration_seconds", "histogram", "Seconds to the answer.", self._times()),
            ("apiserver_longrunning_requests", "gauge", "Open watches.", _watches(watches)),
            ("apiserver_storage_objects", "gauge", "Stored objects by resource.", _objects(objects)),
            ("kubernetes_build_info", "gauge", "The version that is answered for.", _build(version)),
            ("kubernetes_feature_enabled", "gauge", "Feature gates, 1 if on.", _gates(gates)),
            (_LONGEST_PAUSE, "gauge", _ABOUT_LONGEST_PAUSE, [_sample(_LONGEST_PAUSE, {}, pauses.longest)]),
            (_PAUSES, "histogram", _ABOUT_PAUSES, _histogram(_PAUSES, {}, PAUSES, pauses.counts, pauses.seconds)),
        )
        lines: list[str] = []
        turns = Turns()
        for name, kind, about, samples in families:
            lines += _head(name, kind, about)
            for sample in samples:
                lines.append(sample)
                if turns.is_over:
                    await turns.next()
        return "\n".join((*lines, "")).encode()

    def _totals(self) -> Iterator[str]:
        for labels in sorted(self._series):
            for code, count in sorted(self._series[labels].codes.items()):
                yield _sample("apiserver_request_total", {"code": str(code), **_labels(labels)}, count)

    def _times(self) -> Iterator[str]:
        name = "apiserver_request_duration_seconds"
        for labels in sorted(labels for labels in self._series if labels[0] != WATCH):
            series = self._series[labels]
            yield from _histogram(name, _labels(labels), BUCKETS, series.durations, series.seconds)


def slis(checks: Checks, failing: Collection[str] = ()) -> bytes:
    """Return the text of /metrics/slis: the state of every health check."""
    samples = (
        _sample("kubernetes_healthcheck", {"name": check, "type": name}, int(check not in failing))
        for name, below in checks.items()
        for check in sorted(below)
    )
    about = "[STABLE] This metric records the result of a single healthcheck."
    return "\n".join((*_head("kubernetes_healthcheck", "gauge", about), *samples, "")).encode()


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    """Return the lines in front of the samples of a family."""
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _admission(family: Counter | Gauge | Histogram) -> tuple[str, str, str, Iterator[str]]:
    """Return the name, type, description and samples of a family of admission metrics."""
    return family.name, type(family).__name__.lower(), family.about, _admission_samples(family)


def _admission_samples(family: Counter | Gauge | Histogram) -> Iterator[str]:
    for values in sorted(family.series):
        labels = dict(zip(family.labels, values, strict=True))
        if not isinstance(family, Histogram):
            yield _sample(family.name, labels, family.series[values])
        else:
            series = family.series[values]
            yield from _histogram(family.name, labels, family.buckets, series.counts, series.seconds)


def _histogram(
    name: str, labels: Mapping[str, str], buckets: Sequence[float], counts: Sequence[int], seconds: float
) -> Iterator[str]:
    """Yield the samples of a histogram. `counts`: how many fell into each bucket, and beyond the last."""
    seen = 0
    for bound, count in zip((*buckets, inf), counts, strict=True):
        seen += count
        yield _sample(f"{name}_bucket", labels, seen, bound)
    yield _sample(f"{name}_sum", labels, seconds)
    yield _sample(f"{name}_count", labels, seen)


def _labels(labels: RequestLabels) -> dict[str, str]:
    return {"component": "apiserver" if labels[3] else "", **dict(zip(LABELS, labels, strict=True))}


def _sample(name: str, labels: Mapping[str, str], value: float, bound: float | None = None) -> str:
    """Return a sample. `bound`: the upper bound of a histogram's bucket."""
    pairs = [f"{key}={go_quote(text)}" for key, text in sorted(labels.items())]
    if bound is not None:
        pairs.append('le="+Inf"' if bound == inf else f'le="{bound:g}"')
    return f"{name}{{{','.join(pairs)}}} {value}" if pairs else f"{name} {value}"


def _seats(seats: Mapping[str, SeatLimits]) -> Iterator[tuple[str, str, str, Iterable[str]]]:
    """Yield the families of the limits of priority levels."""
    for bound, about in _SEATS.items():
        name = f"apiserver_flowcontrol_{bound}_limit_seats"
        limits = {level: getattr(of_level, bound) for level, of_level in sorted(seats.items())}
        yield name, "gauge", about, [_sample(name, {"priority_level": level}, n) for level, n in limits.items()]


def _dispatched(dispatched: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for (schema, level), count in sorted(dispatched.items()):
        yield _sample(_DISPATCHED, {"flow_schema": schema, "priority_level": level}, count)


def _watches(watches: Mapping[tuple[str, str, str], int]) -> Iterator[str]:
    for (group, version, resource), count in sorted(watches.items()):
        labels = {"group": group, "version": version, "resource": resource, "verb": WATCH, "component": "apiserver"}
        yield _sample("apiserver_longrunning_requests", labels, count)


def _objects(objects: Mapping[str, int]) -> Iterator[str]:
    for resource, count in sorted(objects.items()):
        yield _sample("apiserver_storage_objects", {"resource": resource}, count)


def _build(version: Mapping[str, str]) -> Iterator[str]:
    labels = {"major": "major", "minor": "minor", "git_version": "gitVersion", "platform": "platform"}
    yield _sample("kubernetes_build_info", {key: version[name] for key, name in labels.items()}, 1)


def _gates(gates: Mapping[str, tuple[str, bool]]) -> Iterator[str]:
    for name, (stage, on) in sorted(gates.items()):
        yield _sample("kubernetes_feature_enabled", {"name": name, "stage": stage}, int(on))
