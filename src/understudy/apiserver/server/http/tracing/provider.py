"""Makes and exports spans with the packages of OpenTelemetry, which the extra `tracing` installs."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

from understudy.apiserver.server.http.tracing.options import MOST, TracingConfiguration


def new_provider(configuration: TracingConfiguration, instance: str) -> TracerProvider:
    """Return a provider of tracers that exports the spans of one server to its collector.

    A request is traced if its client says so, or else as often as the configuration says. `instance` is the name by
    which other servers know this one, "" if it has none.
    """
    sampler = ParentBased(TraceIdRatioBased(configuration.rate / MOST) if configuration.rate else ALWAYS_OFF)
    resource = Resource({"service.name": "apiserver", "service.instance.id": instance})
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(configuration.endpoint, insecure=True)))
    return provider
