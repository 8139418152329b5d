"""Metrics: the families of /metrics and /metrics/slis (Prometheus), as the options of a server want them.

Source of the options: k8s.io/component-base/metrics, which leaves out what is registered after they have been read.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from understudy.apiserver.flowcontrol.classification import Usage
from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample
from understudy.apiserver.server.pages.healthz import Checks
from understudy.apiserver.server.pages.loop_pauses import BUCKETS as PAUSES
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.metric_options import MetricSettings
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.util.metrics import AnyFamily, Histogram, Quantiles

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
_BUSIEST_PAUSE = "understudy_event_loop_busiest_pause_cpu_seconds"
_ABOUT_LONGEST_PAUSE = "Longest time since the start in which understudy's event loop answered nobody."
_ABOUT_BUSIEST_PAUSE = "Most CPU that understudy's event loop used in a time in which it answered nobody."
_ABOUT_PAUSES = "Times in which understudy's event loop answered nobody, measured every 20 ms."

_ABOUT_SLIS = "[STABLE] This metric records the result of a single healthcheck."

_UNEXPECTED = "unexpected"
_EARLY = (
    *("aggregator_unavailable_*", "apiserver_audit_*", "apiserver_storage_size_bytes", "authentication_token_cache_*"),
    *("kubernetes_build_info", "kubernetes_feature_enabled", "process_*", "version_info"),
)
# Patterns of the families that are registered before the options are read.
_REGISTERED_EARLY = ByRelease(
    {
        V1_37: _EARLY,
        V1_31: (
            *_EARLY,
            *("apiserver_client_certificate_expiration_seconds", "authenticated_user_requests"),
            *("authentication_attempts", "authentication_duration_seconds", "authorization_*"),
        ),
    }
)


class Metrics:
    """The metrics of one server. Families are made when they are asked for.

    requests  counts them
    """

    def __init__(self, requests: RequestCounts, version: Version, settings: MetricSettings) -> None:
        self._requests = requests
        self._constraints = Constraints(settings, version)
        self.shows_hidden = settings.shows_hidden

    def families(
        self,
        *,
        held: Iterable[Family],
        admission: Iterable[AnyFamily],
        flow_control: Usage | None,
        limiter: Iterable[Family],
        pauses: LoopPauses,
    ) -> Iterable[Family]:
        """Return the families of /metrics, in the order of their names.

        held        the families about what the server is and holds
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
            *(
                family._replace(samples=samples)
                for family in self._requests.families()
                if (samples := [*family.samples])
            ),
            Family(_LONGEST_PAUSE, GAUGE, _ABOUT_LONGEST_PAUSE, [Sample({}, pauses.longest)]),
            Family(_BUSIEST_PAUSE, GAUGE, _ABOUT_BUSIEST_PAUSE, [Sample({}, pauses.busiest)]),
            Family(
                _PAUSES, HISTOGRAM, _ABOUT_PAUSES, [Sample({}, Observations(PAUSES, pauses.counts, pauses.seconds))]
            ),
        )
        return sorted(self._constraints.applied(families), key=lambda family: family.name)


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
    kind = HISTOGRAM if isinstance(family, Histogram) else type(family).__name__.lower()
    return Family(family.name, kind, family.about, _admission_samples(family))


def _admission_samples(family: AnyFamily) -> Iterator[Sample]:
    for values in sorted(family.series):
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(family, Histogram):
            series = family.series[values]
            yield Sample(labels, Observations(family.buckets, series.counts, series.sum))
        else:
            yield Sample(labels, family.series[values])


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


class Constraints:
    """Applies the options of one server to its families."""

    def __init__(self, settings: MetricSettings, version: Version) -> None:
        self._settings = settings
        self._early = _REGISTERED_EARLY[version]

    def applied(self, families: Iterable[Family]) -> Iterator[Family]:
        """Yield the families that are not left out, and those about all this."""
        unexpected = 0
        for family in families:
            if self._is_disabled(family.name):
                continue
            allowed = self._settings.allowed.get(family.name)
            if allowed:
                samples, others = _merged(family, allowed)
                family, unexpected = family._replace(samples=samples), unexpected + others
            yield family
        about = "[ALPHA] The count of unexpected categorizations during cardinality enforcement."
        name = "cardinality_enforcement_unexpected_categorizations_total"
        yield Family(name, COUNTER, about, [Sample({}, unexpected)])
        disabled = len(self._settings.disabled)
        yield Family("disabled_metrics_total", COUNTER, "[BETA] The count of disabled metrics.", [Sample({}, disabled)])

    def _is_disabled(self, name: str) -> bool:
        return name in self._settings.disabled and not any(fnmatchcase(name, early) for early in self._early)


def _merged(family: Family, allowed: Mapping[str, frozenset[str]]) -> tuple[list[Sample], int]:
    """Return the samples of a family with allowed values of labels, and how many values of others it has counted."""
    merged: dict[tuple[tuple[str, str], ...], Sample] = {}
    unexpected = 0
    for sample in family.samples:
        labels = {name: _allowed(value, allowed.get(name)) for name, value in sample.labels.items()}
        others = sum(labels[name] != value for name, value in sample.labels.items())
        unexpected += others * _times(family.kind, sample)
        key, constrained = tuple(labels.items()), sample._replace(labels=labels)
        merged[key] = _sum(merged[key], constrained) if key in merged and family.kind != GAUGE else constrained
    return [*merged.values()], unexpected


def _allowed(value: str, values: frozenset[str] | None) -> str:
    return value if values is None or value in values else _UNEXPECTED


def _times(kind: str, sample: Sample) -> int:
    """Return the number of times that a sample has been counted, one for a gauge."""
    if isinstance(sample.value, Quantiles):
        return sample.value.number
    if isinstance(sample.value, Observations):
        return sum(sample.value.counts)
    return 1 if kind == GAUGE else int(sample.value)


def _sum(one: Sample, other: Sample) -> Sample:
    """Return the sum of two samples of a counter, a summary or a histogram, whose native buckets are left out."""
    left, right = one.value, other.value
    created = min(one.created, other.created)
    if isinstance(left, Observations) and isinstance(right, Observations):
        counts = [a + b for a, b in zip(left.counts, right.counts, strict=True)]
        return Sample(one.labels, Observations(left.bounds, counts, left.sum + right.sum), created)
    if isinstance(left, Quantiles) and isinstance(right, Quantiles):
        recent = Counts(left.recent) + Counts(right.recent)
        return Sample(one.labels, Quantiles(left.number + right.number, left.sum + right.sum, recent), created)
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    return Sample(one.labels, left + right, created)
