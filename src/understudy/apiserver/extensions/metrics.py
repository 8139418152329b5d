"""The metrics that tell which APIServices are unavailable. Upstream: k8s.io/kube-aggregator/pkg/controllers/status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.machinery.types import Obj, condition_of
from understudy.machinery.util.metrics import AnyFamily, Counter, Gauge


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
