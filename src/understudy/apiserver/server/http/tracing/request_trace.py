"""The spans of one request: each is within those that are open when it begins, and all end with the request.

    GET /api/v1/namespaces/{:namespace}/pods/{:name}      the request (`otelhttp`)
      authentication, audit, impersonation, …             its filters, each within the one before
        Get                                               the handler of a resource, with events
          Get etcd3                                       what it asks of the store
            etcdserverpb.KV/Range                         what that asks of etcd
          SerializeObject                                 its answer

Before 1.33 the first of the filters is within the request, since then the request is behind authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from time import time_ns

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.machinery.types import NamedTuple
from understudy.machinery.validation.generated_names import new_uid

Attributes = Mapping[str, AttributeValue]
NONE: Attributes = {}
HTTP, HANDLERS = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", "k8s.io/component-base/tracing"
FILTERS = "k8s.op/apiserver/pkg/endpoints/filterlatency"
GRPC = "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
PROPAGATOR = TraceContextTextMapPropagator()
CURRENT: ContextVar[RequestTrace | None] = ContextVar("trace", default=None)


class Call(NamedTuple):
    """A call of etcd that was answered."""

    name: str
    attributes: Attributes


class RequestTrace:
    """The spans of a request on a connection.

    began     when it came, in nanoseconds since 1970
    audit_id  that its answer has in the header `Audit-Id`
    request   None until it is read
    listed    how many objects a list has, 0 for anything else
    handler   the span of the handler of a resource, None until it begins
    watching  tells of a watch that is about to be sent with a media type; does nothing for other requests
    is_newest whether the newest revision was asked for, so that the watch cache has it
    is_written
              whether the request has written an object
    answered  the status and the bytes of the answer
    """

    def __init__(self, provider: TracerProvider, exchange: Exchange) -> None:
        self.began = time_ns()
        self.audit_id = exchange.headers.get("Audit-Id") or new_uid()
        self.exchange = exchange
        self.request: Request | None = None
        self.handler: Span | None = None
        self.watching: Callable[[str], None] = lambda _: None
        self.listed = 0
        self.is_newest = False
        self.is_written = False
        self.answered = 200, 0
        self._handled = self._asked = self._stored = 0
        self._provider = provider
        self._context = Context()
        self._open: dict[str, Span] = {}
        self._outermost: Span | None = None

    def enter(self, name: str, scope: str, attributes: Attributes = NONE) -> Span:
        """Begin a span within those that are open, unless it has begun: a handler may begin anew."""
        if name not in self._open:
            span = self._provider.get_tracer(scope).start_span(name, self._context, attributes=attributes)
            self._hold(name, span)
        return self._open[name]

    def enter_request(self, name: str, attributes: Attributes, *, trusts_client: bool) -> None:
        """Begin the span of the request, in the trace of its client if that is trusted, else beside it."""
        incoming = PROPAGATOR.extract(self.exchange.headers, self._context)
        of_client = get_current_span(incoming).get_span_context()
        links = [] if trusts_client or not of_client.is_remote else [Link(of_client)]
        span = self._provider.get_tracer(HTTP).start_span(
            name,
            incoming if trusts_client else Context(),
            SpanKind.SERVER,
            attributes,
            links,
            self.began,
        )
        self._outermost = span
        self._hold(HTTP, span)

    def add(
        self,
        name: str,
        attributes: Attributes,
        begun: int,
        ended: int,
        events: Iterable[tuple[str, Attributes]] = (),
        *,
        call: Call | None = None,
        within: Span | None = None,
    ) -> Span:
        """Add a span that is over, within those that are open or a certain one, with events at its end; return it.

        `call` is that of etcd which takes its time.
        """
        span = self.begin(name, HANDLERS, SpanKind.INTERNAL, attributes, within, begun)
        if span.is_recording():
            for event, about in events:
                span.add_event(event, about, ended)
            if call is not None:
                self.call(call, begun, ended, span)
        span.end(ended)
        return span

    def call(self, call: Call, begun: int, ended: int, within: Span | None = None) -> None:
        """Add the span of a call of etcd, within those that are open or a certain one."""
        self.begin(call.name, GRPC, SpanKind.CLIENT, call.attributes, within, begun).end(ended)

    def begin(
        self,
        name: str,
        scope: str,
        kind: SpanKind,
        attributes: Attributes,
        within: Span | None = None,
        begun: int | None = None,
    ) -> Span:
        """Begin a span that does not stay open for others, now or at a time."""
        context = self._context if within is None else set_span_in_context(within, self._context)
        return self._provider.get_tracer(scope).start_span(name, context, kind, attributes, start_time=begun)

    def begin_handler(self, name: str, attributes: Attributes) -> None:
        """Begin the span of the handler of a resource, unless it has begun."""
        if self.handler is None:
            self.handler = self.enter(name, HANDLERS, attributes)
            self._handled = time_ns()

    def ask_store(self, begun: int, ended: int) -> None:
        """Note when the store was asked, and when it has answered."""
        self._asked, self._stored = self._asked or begun, ended

    def times(self) -> tuple[int, int, int, int]:
        """Return four times: of the beginning of the handler, of the first and the last use of the store, and now."""
        now = time_ns()
        return self._handled, self._asked or self._handled, self._stored or now, now

    @property
    def is_entered(self) -> bool:
        """Report whether the span of the request has begun."""
        return self._outermost is not None

    def end(self, attributes: Attributes) -> None:
        """End all spans, the innermost first; the request gets the attributes of its answer."""
        if self._outermost is not None:
            self._outermost.set_attributes(attributes)
            if self.answered[0] >= 500:
                self._outermost.set_status(Status(StatusCode.ERROR))
        for span in reversed(self._open.values()):
            span.end()

    def _hold(self, name: str, span: Span) -> None:
        self._open[name] = span
        self._context = set_span_in_context(span, self._context)
