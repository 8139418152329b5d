"""A collector of OpenTelemetry, which keeps the spans that servers export to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")


class Span:
    """A span: its names, place and attributes."""

    def __init__(self, message: Message, scope: str, resource: dict[str, Any]) -> None:
        self.name, self.scope, self.resource = message.name, scope, resource
        self.trace, self.id, self.parent = message.trace_id.hex(), message.span_id.hex(), message.parent_span_id.hex()
        self.kind = KINDS[message.kind]
        self.attributes = _values(message.attributes)
        self.events = [(event.name, _values(event.attributes)) for event in message.events]
        self.times = [event.time_unix_nano for event in message.events]
        self.links = [link.trace_id.hex() for link in message.links]
        self.status = message.status.code
        self.start, self.end = message.start_time_unix_nano, message.end_time_unix_nano

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r} {self.attributes} {self.events} {self.links}"


def _values(attributes: Any) -> dict[str, Any]:
    """Return attributes by their names."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Collector:
    """Keeps what it was sent."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._changed = threading.Condition()
        self.endpoint = ""

    def export(self, request: ExportTraceServiceRequest, context: object) -> ExportTraceServiceResponse:
        """Take spans."""
        with self._changed:
            for resource in request.resource_spans:
                about = _values(resource.resource.attributes)
                for scope in resource.scope_spans:
                    self._spans += [Span(each, scope.scope.name, about) for each in scope.spans]
            self._changed.notify_all()
        return ExportTraceServiceResponse()

    def of_client(self, trace: str) -> list[Span]:
        """Return the spans of the requests that a client has sent in a trace, in the order in which they began, once
        they are there; servers export them within some seconds."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._roots(trace), 30)
            traces = {span.trace for span in self._roots(trace)}
            return sorted(
                (span for span in self._spans if span.trace in traces), key=lambda span: (span.start, -span.end)
            )

    def _roots(self, trace: str) -> list[Span]:
        """Return the spans of requests in a trace, or with a link to it."""
        return [span for span in self._spans if span.kind == "server" and trace in (span.trace, *span.links)]

    def all(self) -> list[Span]:
        """Return all spans so far."""
        with self._changed:
            return list(self._spans)


@contextmanager
def collector(port: int = 0) -> Iterator[Collector]:
    """Run a collector at a port, 0 for a free one."""
    made = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(
        made.export, ExportTraceServiceRequest.FromString, ExportTraceServiceResponse.SerializeToString
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Export": handler})])
    made.endpoint = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None).wait()
