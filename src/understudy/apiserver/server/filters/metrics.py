"""Counts requests by what they ask for. Upstream: `metrics.MonitorRequest`."""

from __future__ import annotations

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.pages.metrics import Metrics, RequestLabels
from understudy.machinery.util.caches import SHORT_KEPT, cache_results

PATHS = 4096  # paths with remembered labels
# The names of verbs in metrics; all others, which clients may make up, are "other" (`cleanVerb`).
VERBS = {"CREATE": "POST", "UPDATE": "PUT", "DELETECOLLECTION": "DELETE"} | {
    verb: verb for verb in ("DELETE", "GET", "LIST", "PATCH", "POST", "PUT", "WATCH")
}


class RequestMetrics:
    """Counts the requests of one server in `metrics`."""

    def __init__(self, state: ServerState, metrics: Metrics) -> None:
        self._state = state
        self._metrics = metrics
        self._serving = state.serving
        self._kept_labels = cache_results(PATHS, self._labels_of)

    def observe(self, request: Request, answer: Response | WatchResponse, seconds: float) -> None:
        """Count a request that was answered after some seconds."""
        if self._serving is not self._state.serving:
            self._serving = self._state.serving
            self._kept_labels.cache_clear()
        status = answer.status if isinstance(answer, Response) else 200
        is_short = len(request.path) + len(request.method) <= SHORT_KEPT
        labels_of = self._kept_labels if is_short else self._labels_of
        self._metrics.observe(labels_of(request.info, "dryRun" in request.query), status, seconds)

    def _labels_of(self, info: RequestInfo, dry_run: bool) -> RequestLabels:
        """Return the labels of a request, without names that clients make up: they would never be forgotten."""
        verb = VERBS.get(info.verb.upper(), "other")
        kind = self._serving.resource(info.group, info.version, info.resource)
        if kind is None or (info.subresource and info.subresource not in kind.subresources):
            return verb, "", "", "", "", "", ""
        scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
        return verb, info.group, info.version, info.resource, info.subresource, scope, "All" if dry_run else ""
