"""Metrics: the families of /metrics and /metrics/slis (Prometheus)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from understudy.apiserver.flowcontrol.classification import Usage
from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample
from understudy.apiserver.server.pages.healthz import Checks
from understudy.apiserver.server.pages.loop_pauses import BUCKETS as PAUSES
from understudy.apiserver.server.pages.loop_pauses import LoopPauses
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.machinery.util.metrics import AnyFamily, Histogram

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


class Metrics:
    """The metrics of one server. Families are made when they are asked for.

    requests  counts them
    """

    def __init__(self, requests: RequestCounts) -> None:
        self._requests = requests

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
        return sorted(families, key=lambda family: family.name)


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
