"""Counts what PodSecurity does about one request. Upstream: `PrometheusRecorder`."""

from __future__ import annotations

from understudy.admission.chain import Point
from understudy.admission.metrics import PodSecurityMetrics
from understudy.admission.plugins.pod_security.levels import PRIVILEGED, Standard
from understudy.machinery.releases.version import Version

_RESOURCES = {("", "pods"): "pod", ("", "namespaces"): "namespace"}


class Recorder:
    """Counts evaluations, exemptions and errors under the labels of one request."""

    def __init__(self, metrics: PodSecurityMetrics, point: Point, release: Version) -> None:
        self._metrics = metrics
        resource = _RESOURCES.get((point.group, point.resource), "controller")
        self._request = (point.operation.lower(), resource, point.subresource)
        self._release = release

    def evaluation(self, mode: str, standard: Standard, *, allowed: bool) -> None:
        """Count that a pod fulfils the standard of a mode, or not."""
        labels = (mode, standard.level, self._version(standard))
        self._metrics.evaluations.add("allow" if allowed else "deny", *labels, *self._request)

    def exemption(self) -> None:
        """Count a request that is exempt."""
        self._metrics.exemptions.add(*self._request)

    def error(self) -> None:
        """Count a request in whose namespace labels name no policy."""
        self._metrics.errors.add("false", *self._request)

    def _version(self, standard: Standard) -> str:
        """Return the version of a standard: the latest for a privileged one, "future" for one that is not known yet."""
        if standard.minor is None or standard.level == PRIVILEGED:
            return "latest"
        return f"v1.{standard.minor}" if standard.minor <= self._release.minor else "future"
