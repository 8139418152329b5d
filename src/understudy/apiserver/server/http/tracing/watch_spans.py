"""The spans of a watch, since 1.36.

WatchList                  of one that says when it has sent what is stored, until then (`sendInitialEvents`)
  cacher.Watch             what it asks of the watch cache
  WatchServer.HandleHTTP   what it sends, also until then: that of other watches never ends, so nobody hears of it
"""

from __future__ import annotations

from time import time_ns

from opentelemetry.trace import Span, SpanKind

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.server.http.tracing.attributes import (
    call_of_etcd,
    encoder_of,
    handler_attributes,
    protocol_of,
)
from understudy.apiserver.server.http.tracing.request_trace import HANDLERS, NONE, RequestTrace
from understudy.apiserver.server.http.tracing.storage_spans import FRESH, add_revision_read
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import group_resource_text
from understudy.machinery.options import list_options
from understudy.machinery.releases import features


class WatchSpans:
    """The spans of the watch that a request begins."""

    def __init__(self, trace: RequestTrace, request: Request, state: ServerState, kind: Kind) -> None:
        self._trace = trace
        self._request = request
        self._state = state
        self._kind = kind
        self._began = time_ns()
        self._is_complete = False
        self._open: list[Span] = []

    def begin(self, content_type: str) -> None:
        """Tell of a watch that is about to be sent; what is stored may have been taken already."""
        trace, request, release = self._trace, self._request, self._kind.release
        options = list_options(request.query, release, watch=True, watch_list=self._state.gates[features.WATCH_LIST])
        lists = bool(options.initial_events and options.bookmarks)
        if lists:
            about = handler_attributes(request, trace.exchange, trace.audit_id)
            self._open.append(trace.begin("WatchList", HANDLERS, SpanKind.INTERNAL, about, begun=self._began))
        outer = self._open[0] if lists else None
        asks = not request.query.get("resourceVersion")  # etcd is asked for its revision
        is_cached = self._state.registry.has_cache(self._kind)
        if is_cached:
            events = [(name, NONE) for name in FRESH] if options.initial_events else []
            named = {"audit-id": trace.audit_id, "type": group_resource_text(self._kind.group, self._kind.resource)}
            now = time_ns()
            span = trace.add("cacher.Watch", named, self._began, now, events, within=outer)
            if asks:
                add_revision_read(trace, release, prefix_of(self._kind), self._began, now, span)
        if lists:
            sent = {
                "audit-id": trace.audit_id,
                "method": request.method,
                "url": request.path,
                "protocol": protocol_of(trace.exchange),
                "mediaType": content_type,
                "encoder": encoder_of(content_type, request.info.api_version, streams=True),
            }
            span = trace.begin("WatchServer.HandleHTTP", HANDLERS, SpanKind.INTERNAL, sent, outer)
            span.add_event("About to start writing response")
            self._open.append(span)
        if asks and not is_cached:
            now = time_ns()
            trace.call(call_of_etcd(release, "Range"), now, now, outer)
        if self._is_complete and self._open:
            self._end()

    def complete(self) -> None:
        """Note that everything that was stored where the watch begins is sent, or will be with the next events."""
        self._is_complete = True
        if self._open:
            self._end()

    def _end(self) -> None:
        self._open[-1].add_event("Writing initial events done")
        while self._open:
            self._open.pop().end()
