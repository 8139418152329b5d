"""What is counted of requests: how many there were, how long they took, and the sizes of bodies and answers.

Upstream: `MonitorRequest` of k8s.io/apiserver/pkg/endpoints/metrics. Counting is cheap; families are made when they are
asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import field

from understudy.apiserver.server.pages.exposition import COUNTER, GAUGE, HISTOGRAM, Family, Observations, Sample
from understudy.apiserver.server.pages.native_histogram import NativeHistogram
from understudy.apiserver.serving.monitoring import LABELS, WATCH, RequestLabels
from understudy.machinery.errors import group_resource_text
from understudy.machinery.releases.version import V1_34, V1_35, Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.memory import gives_back
from understudy.machinery.util.metrics import REQUEST_SECONDS, SLI_SECONDS, Series

ANSWER_BYTES = tuple(1000.0 * 10**power for power in range(7))
BODY_BYTES = tuple(50000.0 + 100000 * number for number in range(31))
_FASTER = len(REQUEST_SECONDS) - len(SLI_SECONDS)  # buckets that the indicators of the service level have not
_BODIES = {"POST": "create", "PUT": "update", "PATCH": "patch", "APPLY": "patch"}  # the verbs of bodies

_EACH = "group, version, resource, subresource, scope and component"
_ABOUT_TOTALS = (
    "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
    "component, and HTTP response code."
)
_ABOUT_TIMES = (
    "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
    "subresource, scope and component."
)
_ABOUT_SLIS = (
    "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in "
    f"seconds for each verb, {_EACH}."
)
_ABOUT_OPEN = (
    "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope "
    "and component. Not all requests are tracked this way."
)
_ABOUT_ANSWERS = (
    "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and "
    "component."
)
_ABOUT_BODIES = "[ALPHA] Apiserver request body size in bytes broken out by resource and verb."
_ABOUT_OWN = "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource."
_ABOUT_VALIDATION = "[ALPHA] Response latency distribution in seconds for each field validation value"


@dataclass(slots=True)
class _Counted:
    """Counts the requests with the same labels: by code in `codes`, by bucket of seconds in `durations`.

    created   since when, in seconds since 1970; `codes` has for each code its count, and since when it is counted
    waited    those that waited for webhooks or in a queue: by bucket with that time, less those without it
    answers   the sizes of answers, for requests that read
    bodies    the sizes of bodies
    own       requests of the server itself
    open      watches that have not ended
    """

    created: float
    native: NativeHistogram | None
    codes: Counts[int] = field(default_factory=Counts)
    created_codes: dict[int, float] = field(default_factory=dict)
    durations: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_SECONDS) + 1))
    seconds: float = 0.0  # sum over all requests
    waited: Counts[int] = field(default_factory=Counts)
    waited_seconds: float = 0.0
    answers: Series | None = None
    bodies: Series | None = None
    own: int = 0
    open: int = 0


class RequestCounts:
    """Counts the requests of one server.

    now     returns the time of day, in seconds since 1970
    native  whether durations are counted in native buckets, too (`NativeHistograms`)
    """

    def __init__(self, now: Callable[[], float], version: Version, *, native: bool = False) -> None:
        self._now = now
        self._version = version
        self._native = native
        self._series: dict[RequestLabels, _Counted] = {}
        self._validations = {""}
        gives_back(self)

    def observe(self, labels: RequestLabels, code: int, seconds: float, size: int = -1, *, own: bool = False) -> None:
        """Count a request that was answered after `seconds`.

        size  of the answer in bytes, -1 for one that is not counted
        own   whether the server itself has sent the request
        """
        series = self._series.get(labels)
        if series is None:
            series = self._new(labels)
        if code not in series.codes:
            series.created_codes[code] = self._now()
        series.codes[code] += 1
        series.durations[bisect_left(REQUEST_SECONDS, seconds)] += 1
        series.seconds += seconds
        if series.native is not None:
            series.native.observe(seconds)
        if size >= 0:
            answers = series.answers
            if answers is None:
                answers = series.answers = Series.of(ANSWER_BYTES)
            answers.counts[bisect_left(ANSWER_BYTES, size)] += 1
            answers.sum += size
        if own:
            series.own += 1

    def _new(self, labels: RequestLabels) -> _Counted:
        series = self._series[labels] = _Counted(self._now(), NativeHistogram() if self._native else None)
        return series

    def _of(self, labels: RequestLabels) -> _Counted:
        return self._series.get(labels) or self._new(labels)

    def drop(self, labels: RequestLabels, code: int) -> None:
        """Count a request for which there is no room, which is not timed (`RecordDroppedRequest`)."""
        series = self._of(labels)
        series.created_codes.setdefault(code, self._now())
        series.codes[code] += 1

    def observe_wait(self, labels: RequestLabels, seconds: float, waited: float) -> None:
        """Note that a request, which was counted, has waited for a part of its seconds."""
        series = self._of(labels)
        series.waited[bisect_left(REQUEST_SECONDS, seconds)] -= 1
        series.waited[bisect_left(REQUEST_SECONDS, seconds - waited)] += 1
        series.waited_seconds += waited

    def observe_body(self, labels: RequestLabels, size: int) -> None:
        """Count the body of a request, by its size (`RecordRequestBodySize`)."""
        series = self._of(labels)
        if series.bodies is None:
            series.bodies = Series.of(BODY_BYTES)
        series.bodies.observe(size, BODY_BYTES)

    def validate(self, directive: str) -> None:
        """Note how a request wants fields to be validated, if it says so. kube-apiserver times none of them."""
        self._validations.add(directive)

    def open(self, labels: RequestLabels) -> None:
        """Count a watch that begins (`RecordLongRunning`)."""
        self._of(labels).open += 1

    def close(self, labels: RequestLabels) -> None:
        """Count a watch as ended."""
        self._of(labels).open -= 1

    @property
    def requested(self) -> set[tuple[str, str, str, str]]:
        """Return (group, version, resource, subresource) of all that was asked for."""
        return {labels[1:5] for labels in self._series}

    def give_back(self) -> None:
        """Put what is counted where other small things are."""
        self._series = deepcopy(self._series)

    def families(self) -> Iterator[Family]:
        """Yield all families."""
        yield Family("apiserver_request_total", COUNTER, _ABOUT_TOTALS, self._totals())
        yield Family("apiserver_request_duration_seconds", HISTOGRAM, _ABOUT_TIMES, self._times())
        yield Family("apiserver_request_sli_duration_seconds", HISTOGRAM, _ABOUT_SLIS, self._indicators())
        yield Family("apiserver_longrunning_requests", GAUGE, _ABOUT_OPEN, self._open())
        yield Family("apiserver_response_sizes", HISTOGRAM, _ABOUT_ANSWERS, self._answers())
        yield Family("apiserver_request_body_size_bytes", HISTOGRAM, _ABOUT_BODIES, self._bodies())
        yield Family("apiserver_selfrequest_total", COUNTER, _ABOUT_OWN, self._own())
        name, none = (
            "field_validation_request_duration_seconds",
            Observations(SLI_SECONDS, [0] * (len(SLI_SECONDS) + 1), 0),
        )
        samples = [Sample({"field_validation": each}, none) for each in sorted(self._validations)]
        yield Family(name, HISTOGRAM, _ABOUT_VALIDATION, samples)

    def _totals(self) -> Iterator[Sample]:
        for labels in sorted(self._series):
            series = self._series[labels]
            for code, count in sorted(series.codes.items()):
                yield Sample({"code": str(code), **_labels(labels)}, count, series.created_codes[code])

    def _times(self) -> Iterator[Sample]:
        for labels in sorted(self._series):
            series = self._series[labels]
            if any(series.durations):
                observations = Observations(REQUEST_SECONDS, series.durations, series.seconds, series.native)
                yield Sample(_labels(labels), observations, series.created)

    def _indicators(self) -> Iterator[Sample]:
        """Yield the durations without what was waited for, of whatever is no watch; since 1.35 of no dry run."""
        merged = dict[RequestLabels, Series]()
        for labels, series in self._series.items():
            if labels[0] == WATCH or (labels[-1] and self._version >= V1_35) or not any(series.durations):
                continue
            counts = [count + series.waited[bucket] for bucket, count in enumerate(series.durations)]
            into = merged.setdefault((*labels[:-1], ""), Series.of(SLI_SECONDS))
            slow = (sum(counts[: _FASTER + 1]), *counts[_FASTER + 1 :])
            into.counts = [before + count for before, count in zip(into.counts, slow, strict=True)]
            into.sum += series.seconds - series.waited_seconds
        for labels in sorted(merged):
            yield Sample(_labels(labels, dry_run=False), _observations(SLI_SECONDS, merged[labels]))

    def _open(self) -> Iterator[Sample]:
        for labels in sorted(labels for labels in self._series if labels[0] == WATCH):
            yield Sample(_labels(labels, dry_run=False), self._series[labels].open)

    def _answers(self) -> Iterator[Sample]:
        merged = dict[RequestLabels, Series]()
        for labels, series in self._series.items():
            if series.answers is not None:
                _add(merged.setdefault((*labels[:-1], ""), Series.of(ANSWER_BYTES)), series.answers)
        for labels in sorted(merged):
            yield Sample(_labels(labels, dry_run=False), _observations(ANSWER_BYTES, merged[labels]))

    def _bodies(self) -> Iterator[Sample]:
        merged = dict[tuple[str, str, str], Series]()
        for labels, series in self._series.items():
            if series.bodies is not None:
                verb, group, _, resource, _, scope, _ = labels
                name = _BODIES.get(verb, "delete" if scope == "resource" else "delete_collection")
                _add(merged.setdefault((group, resource, name), Series.of(BODY_BYTES)), series.bodies)
        for (group, resource, name), sizes in sorted(merged.items(), key=lambda item: item[0]):
            named = resource if self._version >= V1_34 else group_resource_text(group, resource)
            yield Sample({**self._group(group), "resource": named, "verb": name}, _observations(BODY_BYTES, sizes))

    def _own(self) -> Iterator[Sample]:
        counts = Counts[tuple[str, str, str, str]]()
        for (verb, group, _, resource, subresource, *_), series in self._series.items():
            counts[verb, group, resource, subresource] += series.own
        for (verb, group, resource, subresource), count in sorted(counts.items()):
            if count:
                named = {**self._group(group), "resource": resource, "subresource": subresource}
                yield Sample({**named, "verb": verb}, count)

    def _group(self, group: str) -> Mapping[str, str]:
        """Return the label of an API group, which some families have since 1.34."""
        return {"group": group} if self._version >= V1_34 else {}


def _add(to: Series, more: Series) -> None:
    to.counts = [before + count for before, count in zip(to.counts, more.counts, strict=True)]
    to.sum += more.sum


def _observations(bounds: tuple[float, ...], series: Series) -> Observations:
    return Observations(bounds, series.counts, series.sum)


def _labels(labels: RequestLabels, *, dry_run: bool = True) -> dict[str, str]:
    """Return the labels of a request by name: those of pages have no component, but for discovery."""
    named = dict(zip(LABELS, labels, strict=True))
    if not dry_run:
        del named["dry_run"]
    return {"component": "apiserver" if labels[3] or labels[4] in ("api", "apis") else "", **named}
