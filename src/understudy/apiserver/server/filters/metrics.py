"""Counts requests by what they ask for. Upstream: `metrics.MonitorRequest`."""

from __future__ import annotations

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.pages.metrics import Metrics, RequestLabels
from understudy.machinery.util.caches import SHORT_KEPT, cache_results
from understudy.machinery.util.metrics import Counter

PATHS = 4096  # paths with remembered labels
TERMINATED = ("group", "resource", "scope", "subresource", "verb", "version")
# The names of verbs in metrics; all others, which clients may make up, are "other" (`cleanVerb`).
VERBS = {"CREATE": "POST", "UPDATE": "PUT", "DELETECOLLECTION": "DELETE"} | {
    verb: verb for verb in ("DELETE", "GET", "LIST", "PATCH", "POST", "PUT", "WATCH")
}


class RequestMetrics:
    """Counts the requests of one server in `metrics`, and those that it gives up or refuses in `terminations`."""

    def __init__(self, state: ServerState, metrics: Metrics) -> None:
        self._state = state
        self._metrics = metrics
        self._serving = state.serving
        self._kept_labels = cache_results(PATHS, self._labels_of)
        self.terminations = Counter(
            "apiserver_request_terminations_total",
            "[ALPHA] Number of requests which apiserver terminated in self-defense.",
            ("code", "component", *TERMINATED),
        )

    def observe(self, request: Request, answer: Response | WatchResponse, seconds: float) -> None:
        """Count a request that was answered after some seconds."""
        if self._serving is not self._state.serving:
            self._serving = self._state.serving
            self._kept_labels.cache_clear()
        status = answer.status if isinstance(answer, Response) else 200
        is_short = len(request.path) + len(request.method) <= SHORT_KEPT
        labels_of = self._kept_labels if is_short else self._labels_of
        self._metrics.observe(labels_of(request.info, "dryRun" in request.query), status, seconds)

    def terminate(self, request: Request, status: int) -> None:
        """Count a request that there was no room or no time for (`RecordRequestTermination`)."""
        info = request.info
        verb, group, version, resource, subresource, scope, _ = self._labels_of(info, False)
        if not info.is_resource:
            subresource = info.path
        elif info.verb == "create":
            scope = "resource"
        labels = (str(status), "apiserver", group, resource, scope, subresource, verb, version)
        if labels in self.terminations.series or len(self.terminations.series) < PATHS:
            self.terminations.add(*labels)

    def _labels_of(self, info: RequestInfo, dry_run: bool) -> RequestLabels:
        """Return the labels of a request, without names that clients make up: they would never be forgotten."""
        verb = VERBS.get(info.verb.upper(), "other")
        kind = self._serving.resource(info.group, info.version, info.resource)
        if kind is None or (info.subresource and info.subresource not in kind.subresources):
            return verb, "", "", "", "", "", ""
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
        return verb, info.group, info.version, info.resource, info.subresource, scope, "All" if dry_run else ""
