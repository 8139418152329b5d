"""The metrics of APIServices, and of the documents, conversions and rules of custom resources.

Upstream: k8s.io/kube-aggregator/pkg/controllers/status; k8s.io/apiextensions-apiserver/pkg, controller/openapi,
controller/openapiv3 and apiserver/conversion; k8s.io/apiserver/pkg/cel/metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.apiserver.extensions.definition import Definition
from understudy.kinds.context import COMPILATION, EVALUATION, RATCHETING
from understudy.machinery.types import Obj, condition_of
from understudy.machinery.util.metrics import (
    ACCESS_SECONDS,
    DEFAULT_SECONDS,
    AnyFamily,
    Counter,
    Gauge,
    Histogram,
    Series,
)


class AvailabilityMetrics:
    """Counts how often APIServices became unavailable."""

    def __init__(self) -> None:
        self._counter = Counter(
            "aggregator_unavailable_apiservice_total",
            "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
            ("name", "reason"),
        )

    def fail(self, name: str, reason: str) -> None:
        """Count an APIService that was available, and is so no more."""
        self._counter.add(name, reason)

    def families(self, api_services: Iterable[Obj]) -> Sequence[AnyFamily]:
        """Return all families, of which one tells of APIServices as they are now: 1 for one that is unavailable."""
        gauge = Gauge(
            "aggregator_unavailable_apiservice",
            "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.",
            ("name",),
        )
        for each in api_services:
            if status := condition_of(each, "Available").get("status"):
                gauge.set(float(status != "True"), each["metadata"]["name"])
        return gauge, self._counter


ADD, REMOVE, UPDATE = "add", "remove", "update"
_SHOWN = ("schema", "subresources", "selectableFields")  # the fields of a version that its document of OpenAPI v3 shows


class DocumentMetrics:
    """Names the definitions whose documents of OpenAPI have changed, and why.

    All series are 0, as kube-apiserver's: it makes them, and never counts.
    """

    def __init__(self) -> None:
        about = "[ALPHA] Counter of OpenAPI {} spec regeneration count broken down by {} and reason."
        self._v2 = Counter(
            "apiextensions_openapi_v2_regeneration_count", about.format("v2", "causing CRD name"), ("crd", "reason")
        )
        self._v3 = Counter(
            "apiextensions_openapi_v3_regeneration_count",
            about.format("v3", "group, version, causing CRD"),
            ("crd", "group", "reason", "version"),
        )
        self._known: dict[str, dict[str, object]] = {}  # what v3 shows of a version, by names of definitions

    @property
    def families(self) -> Sequence[Counter]:
        """Return all families."""
        return self._v2, self._v3

    def change(self, definition: Definition) -> None:
        """Note a definition that was written; one that is not established has no document (`sync`)."""
        name, group = definition.name, definition.group
        if not definition.is_established:
            self.remove(definition)
            return
        self._v2.series[name, UPDATE if name in self._known else ADD] = 0
        shown = self._known.setdefault(name, {})
        for version in definition.served_versions:
            spec, declared = definition.obj["spec"], definition.versions[version]
            new = spec["names"], spec["scope"], spec.get("preserveUnknownFields"), *map(declared.get, _SHOWN)
            if shown.get(version) != new:
                reason = UPDATE if self._has(group, version) else ADD
                self._v3.series[name, group, reason, version] = 0
                shown[version] = new

    def remove(self, definition: Definition) -> None:
        """Note a definition that was removed, or is established no more."""
        if definition.name in self._known:
            self._v2.series[definition.name, REMOVE] = 0
            for version in self._known.pop(definition.name):
                self._v3.series[definition.name, definition.group, REMOVE, version] = 0

    def _has(self, group: str, version: str) -> bool:
        """Report whether a definition of a group has a document of a version."""
        return any(version in shown for name, shown in self._known.items() if name.partition(".")[2] == group)


_CONVERSION_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60)


class ConversionMetrics:
    """Counts and times the calls of webhooks that convert custom resources."""

    def __init__(self) -> None:
        name, labels = "apiserver_conversion_webhook", ("failure_type", "result")
        self._requests = Counter(
            f"{name}_request_total",
            "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type",
            labels,
        )
        self._seconds = Histogram(
            f"{name}_duration_seconds", "[ALPHA] Conversion webhook request latency", labels, _CONVERSION_SECONDS
        )
        self._of_definitions = Histogram(
            "apiserver_crd_conversion_webhook_duration_seconds",
            "[ALPHA] CRD webhook conversion duration in seconds",
            ("crd_name", "from_version", "succeeded", "to_version"),
            ACCESS_SECONDS,
        )

    @property
    def families(self) -> Sequence[Counter | Histogram]:
        """Return all families."""
        return self._requests, self._seconds, self._of_definitions

    def observe_call(self, failure: str, seconds: float) -> None:
        """Count a call that took some seconds. `failure`: what was wrong with the answer, "" for none."""
        labels = failure, "failure" if failure else "success"
        self._requests.add(*labels)
        self._seconds.observe(seconds, *labels)

    def observe(self, name: str, versions: tuple[str, str], seconds: float, *, succeeded: bool) -> None:
        """Count the conversion of objects of a definition from one version to another."""
        before, after = versions
        self._of_definitions.observe(seconds, name, before, "true" if succeeded else "false", after)


_RATCHETING_SECONDS = tuple(1e-5 * 4**power for power in range(10))


def rule_families() -> Sequence[Histogram]:
    """Return the families of rules of schemas: how long it takes to compile them, to look at a value by a schema that
    has rules inside, and to compare a custom resource with the one that it replaces."""
    about = "Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds."
    families = (
        Histogram(COMPILATION, "[BETA] CEL compilation time in seconds.", (), DEFAULT_SECONDS),
        Histogram(EVALUATION, "[BETA] CEL evaluation time in seconds.", (), DEFAULT_SECONDS),
        Histogram(RATCHETING, f"[ALPHA] {about}", (), _RATCHETING_SECONDS),
    )
    for family in families:
        family.series[()] = Series.of(family.buckets)  # it is on the page before anything is counted
    return families
