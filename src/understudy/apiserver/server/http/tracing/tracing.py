"""Traces the requests of one server: what is put around its handler, director, filters, webhooks and store.

Nothing of this is on the way of a request where there is no `--tracing-config-file`. Requests of the server to itself
are not traced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias

from opentelemetry.sdk.trace import TracerProvider

from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.endpoints.requestinfo import RequestInfo, RequestInfoError, request_info
from understudy.apiserver.endpoints.routing import Answer, Route
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.extensions.serving import Serving
from understudy.apiserver.server.filters.chain import Filter
from understudy.apiserver.server.http.tracing.attributes import (
    answer_attributes,
    encoder_of,
    handler_attributes,
    protocol_of,
    request_attributes,
    span_name,
)
from understudy.apiserver.server.http.tracing.handler_events import SPANS, Outcome, events
from understudy.apiserver.server.http.tracing.options import TracingConfiguration
from understudy.apiserver.server.http.tracing.provider import new_provider
from understudy.apiserver.server.http.tracing.request_trace import CURRENT, FILTERS, HANDLERS, RequestTrace
from understudy.apiserver.server.http.tracing.storage_spans import TracedStorage
from understudy.apiserver.server.http.tracing.watch_spans import WatchSpans
from understudy.apiserver.server.http.tracing.webhook_spans import TracedWebhookClient
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.served import Handler
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.apiserver.server.webhooks.egress.tunnels import Egress
from understudy.apiserver.server.webhooks.services import ServiceResolver
from understudy.machinery.auth.users import MASTERS
from understudy.machinery.releases.version import V1_33, V1_34, V1_36, Version
from understudy.machinery.types import Obj

Director: TypeAlias = Callable[[Request], Awaitable[Answer]]
Resource: TypeAlias = Callable[[Serving, Route, ServerState, Request], Coroutine[Any, Any, Answer]]
_TRUSTED = (MASTERS, "system:monitoring")  # groups whose members have their spans in the trace of the client
AUTHENTICATION = "authentication"


class Tracing:
    """Traces the requests of one server.

    encode   returns the bytes of an object, given its key, that would be in etcd
    storage  counts what is asked of the store, and tells of it
    """

    def __init__(
        self,
        configuration: TracingConfiguration,
        instance: str,
        release: Version,
        encode: Callable[[str, Obj], bytes],
    ) -> None:
        self.storage = TracedStorage(encode)
        self._configuration = configuration
        self._instance = instance
        self._release = release
        self._scheme = "http"
        self._provider: TracerProvider | None = None

    def open(self, scheme: str) -> None:
        """Export spans from now on, of requests to URLs with a scheme."""
        self._scheme = scheme
        self._provider = new_provider(self._configuration, self._instance)

    async def close(self) -> None:
        """Export what is left."""
        provider, self._provider = self._provider, None
        if provider is not None:
            await asyncio.to_thread(provider.shutdown)

    def webhooks(self, services: ServiceResolver, egress: Egress | None) -> HttpWebhookClient:
        """Return a client of webhooks that tells of its calls."""
        return TracedWebhookClient(services, self._release, egress)

    # --- what is put around a request, from the outside --------------------------------------------------------------

    def around(self, handle: Handler) -> Handler:
        """Return a handler that traces the requests of another one."""

        async def traced(exchange: Exchange) -> None:
            if self._provider is None:
                return await handle(exchange)
            trace = RequestTrace(self._provider, exchange)
            token = CURRENT.set(trace)
            try:
                await handle(exchange)
            finally:
                CURRENT.reset(token)
                self._end(trace)
            return None

        return traced

    def directed(self, director: Director) -> Director:
        """Return a director that traces what another one does with requests on connections."""

        async def answer(request: Request) -> Answer:
            trace = CURRENT.get()
            if trace is None or trace.request is not None:
                return await director(request)
            trace.request = request
            if self._release < V1_33:
                self._enter_request(trace, trusts_client=False)
            result = await director(request)
            result.headers.append(("Audit-Id", trace.audit_id))
            self._answered(trace, request, result)
            return result

        return answer

    def mark(self, name: str) -> Sequence[Filter]:
        """Return a filter that begins the span of the next one, none for those of which a release tells nothing.

        Since 1.33 the span of the request begins behind authentication, by the user whom that has found.
        """
        if name == AUTHENTICATION:
            return (partial(self._enter_filter, name),)
        before = (self._enter_known,) if name == "audit" and self._release >= V1_33 else ()
        return (*before, partial(self._enter_filter, name)) if self._release >= V1_34 else before

    def _enter_filter(self, name: str, request: Request) -> None:
        if (trace := CURRENT.get()) is not None and trace.request is request:
            trace.enter(name, FILTERS)

    def _enter_known(self, request: Request) -> None:
        """Begin the span of a request whose user is known."""
        if (trace := CURRENT.get()) is not None and trace.request is request and not trace.is_entered:
            self._enter_request(trace, trusts_client=any(group in _TRUSTED for group in request.user.groups))

    def _enter_request(self, trace: RequestTrace, *, trusts_client: bool) -> None:
        request, exchange = trace.request, trace.exchange
        assert request is not None
        try:
            info: RequestInfo | None = request_info(request.method, request.path, request.query)
        except RequestInfoError:
            info = None
        audit_id = trace.audit_id if self._release >= V1_34 else ""
        attributes = request_attributes(exchange, self._scheme, self._release, audit_id)
        trace.enter_request(span_name(request.method, info), attributes, trusts_client=trusts_client)

    def handled(self, resource: Resource) -> Resource:
        """Return a handler of resources that begins a span for another one."""

        async def handle(serving: Serving, route: Route, state: ServerState, request: Request) -> Answer:
            trace = CURRENT.get()
            if trace is not None and trace.request is request:
                if name := SPANS.get(request.info.verb):
                    trace.begin_handler(name, handler_attributes(request, trace.exchange, trace.audit_id))
                elif request.info.verb == "watch" and self._release >= V1_36:
                    watch = WatchSpans(trace, request, state, route.scope.kind)
                    trace.watching, request.watch_list_complete = watch.begin, watch.complete
            return await resource(serving, route, state, request)

        return handle

    # --- what is told when the answer is there ------------------------------------------------------------------------

    def _answered(self, trace: RequestTrace, request: Request, answer: Answer) -> None:
        """Tell how far the handler of a request came, and that its answer is written."""
        if isinstance(answer, WatchResponse):
            trace.answered = 200, 0
            trace.watching(answer.content_type)
            return
        size = sum(map(len, answer.parts))
        trace.answered = answer.status, size
        if trace.handler is not None:
            body = len(request.content) if isinstance(request.content, bytes) else 0
            self._tell(trace, Outcome(answer.status, request.refusal, body, trace.listed, self._release))
        if request.path.startswith(("/api/", "/apis/")):
            self._serialize(trace, request, answer, size)

    def _tell(self, trace: RequestTrace, outcome: Outcome) -> None:
        """Add the events of a handler to its span."""
        assert trace.handler is not None
        assert trace.request is not None
        times = trace.times()
        for event in events(trace.request.info.verb, outcome):
            trace.handler.add_event(event.name, event.attributes, times[event.when])

    def _serialize(self, trace: RequestTrace, request: Request, answer: Response, size: int) -> None:
        """Add the span in which the answer is encoded and written (`SerializeObject`)."""
        media = answer.content_type.partition(";")[0]
        attributes = {
            "audit-id": trace.audit_id,
            "method": request.method,
            "url": request.path,
            "protocol": protocol_of(trace.exchange),
            "mediaType": answer.content_type,
            "encoder": encoder_of(media, self._encoded_version(trace, request, answer), pretty=_is_pretty(answer)),
        }
        span = trace.enter("SerializeObject", HANDLERS, attributes)
        span.add_event("About to start writing response", {"size": size})
        first = {} if self._release >= V1_33 else {"firstWrite": True}
        span.add_event("Write call succeeded", {"size": size, **first})

    def _encoded_version(self, trace: RequestTrace, request: Request, answer: Response) -> str:
        """Return the group and version in which an answer is encoded, "" for what no route has answered."""
        if trace.handler is None and answer.status in (404, 405):
            return ""
        is_table = answer.status < 400 and "as=Table" in request.headers.get("Accept", "")
        return "meta.k8s.io/v1" if is_table else request.info.api_version

    def _end(self, trace: RequestTrace) -> None:
        status, size = trace.answered
        request = trace.request
        received = len(request.content) if request is not None and isinstance(request.content, bytes) else 0
        trace.end(answer_attributes(self._release, status, received, size))


def _is_pretty(answer: Response) -> bool:
    return answer.parts[0][:3] == b"{\n "
