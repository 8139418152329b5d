"""Counts requests by what they ask for. Upstream: `metrics.MonitorRequest`."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Sequence
from functools import partial
from time import monotonic

from understudy.apiserver.authentication.loopback import APISERVER
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import watches
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.server.pages.request_counts import RequestCounts
from understudy.apiserver.serving.monitoring import APPLY, WATCH, Monitored, RequestLabels
from understudy.machinery.options import IGNORE, STRICT, WARN, Query
from understudy.machinery.util.metrics import Counter

MOST_TERMINATED = 4096  # sets of labels
TERMINATED = ("group", "resource", "scope", "subresource", "verb", "version")
# The names of verbs in metrics; all others, which clients may make up, are "other" (`cleanVerb`).
VERBS = {"CREATE": "POST", "UPDATE": "PUT", "DELETECOLLECTION": "DELETE"} | {
    verb: verb for verb in ("DELETE", "GET", "LIST", "PATCH", "POST", "PUT", "WATCH")
}
_NOTED = frozenset(("dryRun", "fieldValidation", "watch"))  # parameters
_AGGREGATED = "as=APIGroupDiscoveryList"
_V3 = "/openapi/v3"


class RequestMetrics:
    """Counts the requests of one server in `counts`.

    terminations  count those that it gives up or refuses
    tls_errors    counts connections on which no TLS was agreed upon
    """

    def __init__(self, state: ServerState, counts: RequestCounts) -> None:
        self._state = state
        self._counts = counts
        self.terminations = Counter(
            "apiserver_request_terminations_total",
            "[ALPHA] Number of requests which apiserver terminated in self-defense.",
            ("code", "component", *TERMINATED),
        )
        about = "[ALPHA] Number of requests dropped with 'TLS handshake error from' error"
        self.tls_errors = Counter("apiserver_tls_handshake_errors_total", about, (), Counts({(): 0}))

    @property
    def families(self) -> Sequence[Counter]:
        """Return the families of requests that are not answered."""
        return self.terminations, self.tls_errors

    def observe(self, request: Request, answer: Response | WatchResponse, seconds: float) -> None:
        """Count a request that was answered after some seconds; a watch when it ends."""
        known = request.monitored
        if known is None:
            return
        labels, is_read = known
        if not _NOTED.isdisjoint(request.query) or request.method == "PATCH":
            labels = self._asked_for(labels, request)
        own = request.user.name == APISERVER.name
        if isinstance(answer, WatchResponse):
            self._counts.open(labels)
            answer.when_ended(partial(self._end, labels, answer, monotonic() - seconds, is_read=is_read, own=own))
            return
        size = -1
        if is_read:
            parts = answer.parts
            size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self._counts.observe(labels, answer.status, seconds, size, own=own)
        if request.method != "GET" and isinstance(request.content, bytes):
            self._counts.observe_body(labels, len(request.content))
        if waited := request.waited + request.validated:
            self._counts.observe_wait(labels, seconds, waited)

    def _end(self, labels: RequestLabels, answer: WatchResponse, begun: float, *, is_read: bool, own: bool) -> None:
        """Count a watch that has ended."""
        self._counts.close(labels)
        size = answer.source.sent if is_read else -1
        self._counts.observe(labels, 200, monotonic() - begun, size, own=own)

    def _asked_for(self, labels: RequestLabels, request: Request) -> RequestLabels:
        """Return the labels of a request with its parameters and the kind of its patch."""
        query, verb = request.query, labels[0]
        self._counts.validate(_directive(query))
        if request.method == "PATCH":
            verb = APPLY if request.headers.get("Content-Type") == APPLY_PATCH else verb
        elif verb == "GET" and watches(query):
            verb = WATCH
        return (verb, *labels[1:-1], _dry_run(query))

    def drop(self, request: Request, status: int) -> None:
        """Count a request that there was no room for (`RecordDroppedRequest`)."""
        self.terminate(request, status)
        self._counts.drop((*self._labels_of(request)[:-1], _dry_run(request.query)), status)

    def terminate(self, request: Request, status: int) -> None:
        """Count a request that there was no room or no time for (`RecordRequestTermination`)."""
        verb, group, version, resource, subresource, scope, _ = self._labels_of(request)
        if not request.info.is_resource:
            subresource = request.info.path
        labels = (str(status), "apiserver", group, resource, scope, subresource, verb, version)
        if labels in self.terminations.series or len(self.terminations.series) < MOST_TERMINATED:
            self.terminations.add(*labels)

    def _labels_of(self, request: Request) -> RequestLabels:
        """Return the labels of a request that no route has answered, without names that clients make up: they would
        never be forgotten."""
        info = request.info
        verb = VERBS.get(info.verb.upper(), "other")
        kind = self._state.serving.resource(info.group, info.version, info.resource)
        if kind is None or (info.subresource and info.subresource not in kind.subresources):
            return verb, "", "", "", "", "", ""
        is_one = bool(info.name) or info.verb == "create"
        scope = "resource" if is_one else "namespace" if info.namespace else "cluster"
        return verb, info.group, info.version, info.resource, info.subresource, scope, ""


def monitored_page(path: str, content_type: str) -> Monitored | None:
    """Return the labels of requests for a page, None for one whose requests are not counted.

    content_type  of the answer: the two documents of discovery are counted in their aggregated form only
    """
    if path in ("/healthz", "/livez", "/readyz"):
        name = path
    elif path.startswith(_V3) and path[len(_V3) :][:1] in ("", "/"):
        name = path[1 : len(_V3) + 1]
    elif path in ("/api", "/apis") and _AGGREGATED in content_type:
        name = path[1:]
    else:
        return None
    return Monitored(("GET", "", "", "", name, "", ""), is_read=True)


def _dry_run(query: Query) -> str:
    """Return the value of `dryRun`, "invalid" for a wrong one (`cleanDryRun`)."""
    values = {*query.all("dryRun")}
    return "" if not values else "All" if values == {"All"} else "invalid"


def _directive(query: Query) -> str:
    """Return the value of `fieldValidation`, "invalid" for a wrong one (`cleanFieldValidation`)."""
    if "fieldValidation" not in query:
        return ""
    values = query.all("fieldValidation")
    return values[0] if len(values) == 1 and values[0] in ("", IGNORE, STRICT, WARN) else "invalid"
