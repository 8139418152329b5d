"""Spans of calls of webhooks, which are told of the trace in the header `Traceparent`."""

from __future__ import annotations

from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import set_span_in_context

from understudy.admission.webhooks import Call, CallError, Reply
from understudy.apiserver.server.http.tracing.request_trace import CURRENT, HANDLERS, HTTP, PROPAGATOR, RequestTrace
from understudy.apiserver.server.webhooks.client import HttpWebhookClient
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.releases.version import V1_35


class TracedWebhookClient(HttpWebhookClient):
    """Calls webhooks, and tells of calls for requests that are traced."""

    async def _call(self, call: Call) -> Reply | CallError:
        trace = CURRENT.get()
        if trace is None or not trace.is_entered:
            return await super()._call(call)
        outer = None if call.about is None else _outer(trace, call)
        is_new = self._version >= V1_35
        names = ("url.full", "http.request.method") if is_new else ("http.url", "http.method")
        about = dict(zip(names, (call.target.url, "POST"), strict=True))
        span = trace.begin("HTTP POST", HTTP, SpanKind.CLIENT, about, outer)
        headers: dict[str, str] = {}
        PROPAGATOR.inject(headers, set_span_in_context(span))
        sent = call._replace(headers=tuple((name.capitalize(), text) for name, text in headers.items()))
        result = await super()._call(sent)
        _end(span, result, is_new=is_new)
        if outer is not None:
            if isinstance(result, Reply):
                outer.add_event("Request completed")
            outer.end()
        return result


def _end(span: Span, result: Reply | CallError, *, is_new: bool) -> None:
    """End the span of a call with its result; `is_new` is the convention for names since 1.35."""
    if isinstance(result, Reply):
        span.set_attribute("http.response.status_code" if is_new else "http.status_code", result.status)
    else:
        span.record_exception(result)
        span.set_status(Status(StatusCode.ERROR, str(result)))
    span.end()


def _outer(trace: RequestTrace, call: Call) -> Span:
    """Begin the span of what an admission plugin does with a webhook."""
    assert call.about is not None
    purpose, configuration, webhook = call.about
    asked = loads(call.body)["request"]
    resource = asked["resource"]
    attributes = {
        "configuration": configuration,
        "webhook": webhook,
        "resource": f"{resource['group']}/{resource['version']}, Resource={resource['resource']}",
        "subresource": asked.get("subResource", ""),
        "operation": asked["operation"],
        "UID": asked["uid"],
    }
    return trace.begin(f"Call {purpose} webhook", HANDLERS, SpanKind.INTERNAL, attributes)
