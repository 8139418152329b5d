"""Health checks and metrics: /healthz, /livez, /readyz, each check below them, /metrics.

The checks have the names of the real server's. Nothing stands behind most of them: what is started here is ready.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from understudy.apiserver.endpoints.request import Request, Response
from understudy.machinery.golang.text import go_quote

TEXT = "text/plain; charset=utf-8"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8; escaping=values"
NO_SNIFF = ("X-Content-Type-Options", "nosniff")

BASIC = ("ping", "log", "etcd")
READY_ONLY = ("etcd-readiness", "informer-sync")
HOOKS = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)
CHECKS: Mapping[str, tuple[str, ...]] = {
    "healthz": (*BASIC, *HOOKS),
    "livez": (*BASIC, *HOOKS),
    "readyz": (*BASIC, *READY_ONLY, *HOOKS, "shutdown"),
}


def paths() -> Iterator[str]:
    """Every path of a health check."""
    for name, checks in CHECKS.items():
        yield f"/{name}"
        yield from (f"/{name}/{check}" for check in checks)


@lru_cache
def _paths() -> frozenset[str]:
    return frozenset(paths())


def health(request: Request, failing: Collection[str] = ()) -> Response | None:
    """The answer of a health check, None for another path. `failing` names the checks that are not well: such as
    "etcd" while the store does not answer, "shutdown" while the server stops."""
    if request.path not in _paths():
        return None
    name, _, check = request.path[1:].partition("/")
    if not check:
        return _summary(request, name, failing)
    if check in failing:
        return Response(500, b"internal server error: " + check.encode() + b" failed\n", TEXT, [NO_SNIFF])
    return Response(200, b"ok", TEXT)


def _summary(request: Request, name: str, failing: Collection[str]) -> Response:
    excluded = set(request.query.all("exclude"))
    failed = [check for check in CHECKS[name] if check in failing and check not in excluded]
    lines = [_line(check, excluded, failed) for check in CHECKS[name]]
    unknown = sorted(excluded - set(CHECKS[name]))
    if unknown:
        quoted = ", ".join(go_quote(text) for text in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    if failed:
        lines.append(f"{name} check failed")
    elif "verbose" in request.query:
        lines.append(f"{name} check passed")
    else:
        return Response(200, b"ok", TEXT, [NO_SNIFF])
    return Response(500 if failed else 200, "".join(f"{line}\n" for line in lines).encode(), TEXT, [NO_SNIFF])


def _line(check: str, excluded: Collection[str], failed: Collection[str]) -> str:
    if check in excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if check in failed else f"[+]{check} ok"


BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)

# Values of LABELS: the verb in capitals (LIST, WATCH, APPLY), the scope cluster, namespace, resource or "", dry_run
# "All" or "".
RequestLabels = tuple[str, str, str, str, str, str, str]
WATCH = "WATCH"
LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run")


@dataclass(slots=True)
class _Series:
    """Requests of the same labels. `codes`: how many had each; `durations`: how many fell into each bucket."""

    codes: Counter[int] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0  # of all together


class Metrics:
    """Counts requests, cheaply; text is made only when it is asked for."""

    def __init__(self) -> None:
        self._series: defaultdict[RequestLabels, _Series] = defaultdict(_Series)

    def observe(self, labels: RequestLabels, code: int, seconds: float) -> None:
        """A request was answered after `seconds`. Watches last as long as they like: they are counted, not timed."""
        series = self._series[labels]
        series.codes[code] += 1
        if labels[0] != WATCH:
            series.durations[bisect_left(BUCKETS, seconds)] += 1
            series.seconds += seconds

    def text(
        self,
        *,
        version: Mapping[str, str],
        gates: Mapping[str, tuple[str, bool]],
        objects: Mapping[str, int],
        watches: Mapping[tuple[str, str, str], int],
    ) -> bytes:
        """The Prometheus text. version: what /version answers; gates: {name: (stage, on)}; objects: {resource: how
        many are stored}; watches: {(group, version, resource): how many are open}."""
        families = (
            ("apiserver_request_total", "counter", "Requests by what they asked for and their code.", self._totals()),
            ("apiserver_request_duration_seconds", "histogram", "Seconds to the answer.", self._times()),
            ("apiserver_longrunning_requests", "gauge", "Open watches.", _watches(watches)),
            ("apiserver_storage_objects", "gauge", "Stored objects by resource.", _objects(objects)),
            ("kubernetes_build_info", "gauge", "The version that is answered for.", _build(version)),
            ("kubernetes_feature_enabled", "gauge", "Feature gates, 1 if on.", _gates(gates)),
        )
        return b"".join(_family(*family) for family in families)

    def _totals(self) -> Iterator[str]:
        for labels in sorted(self._series):
            for code, count in sorted(self._series[labels].codes.items()):
                yield _sample("apiserver_request_total", {"code": str(code), **_labels(labels)}, count)

    def _times(self) -> Iterator[str]:
        name = "apiserver_request_duration_seconds"
        for labels in sorted(labels for labels in self._series if labels[0] != WATCH):
            series, pairs, seen = self._series[labels], _labels(labels), 0
            for bound, count in zip((*BUCKETS, "+Inf"), series.durations, strict=True):
                seen += count
                yield _sample(f"{name}_bucket", {**pairs, "le": str(bound)}, seen)
            yield _sample(f"{name}_sum", pairs, series.seconds)
            yield _sample(f"{name}_count", pairs, seen)


def slis(failing: Collection[str] = ()) -> bytes:
    """/metrics/slis: the state of every check."""
    samples = (
        _sample("kubernetes_healthcheck", {"name": check, "type": name}, int(check not in failing))
        for name, checks in CHECKS.items()
        for check in sorted(checks)
    )
    return _family(
        "kubernetes_healthcheck", "gauge", "[STABLE] This metric records the result of a single healthcheck.", samples
    )


def _family(name: str, kind: str, about: str, samples: Iterable[str]) -> bytes:
    lines = (f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples, "")
    return "\n".join(lines).encode()


def _labels(labels: RequestLabels) -> dict[str, str]:
    return {"component": "apiserver" if labels[3] else "", **dict(zip(LABELS, labels, strict=True))}


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f"{key}={go_quote(text)}" for key, text in sorted(labels.items()))
    return f"{name}{{{pairs}}} {value}"


def _watches(watches: Mapping[tuple[str, str, str], int]) -> Iterator[str]:
    for (group, version, resource), count in sorted(watches.items()):
        labels = {"group": group, "version": version, "resource": resource, "verb": WATCH, "component": "apiserver"}
        yield _sample("apiserver_longrunning_requests", labels, count)


def _objects(objects: Mapping[str, int]) -> Iterator[str]:
    for resource, count in sorted(objects.items()):
        yield _sample("apiserver_storage_objects", {"resource": resource}, count)


def _build(version: Mapping[str, str]) -> Iterator[str]:
    wanted = {"major": "major", "minor": "minor", "git_version": "gitVersion", "platform": "platform"}
    yield _sample("kubernetes_build_info", {key: version[name] for key, name in wanted.items()}, 1)


def _gates(gates: Mapping[str, tuple[str, bool]]) -> Iterator[str]:
    for name, (stage, on) in sorted(gates.items()):
        yield _sample("kubernetes_feature_enabled", {"name": name, "stage": stage}, int(on))
