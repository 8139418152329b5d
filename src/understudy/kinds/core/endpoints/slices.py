"""Read EndpointSlices: whose they are, and which of their endpoints take requests."""

from __future__ import annotations

from understudy.machinery.types import Obj

SERVICE_NAME = "kubernetes.io/service-name"  # label with the name of the Service; upstream: `LabelServiceName`


def service_of(endpoint_slice: Obj) -> str:
    """Return the name of the Service of a slice, "" if it has none."""
    name: str = (endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_NAME) or ""
    return name


def is_ready(endpoint: Obj) -> bool:
    """Report whether an endpoint of a slice takes requests: where it does not say, it does."""
    return (endpoint.get("conditions") or {}).get("ready") is not False
