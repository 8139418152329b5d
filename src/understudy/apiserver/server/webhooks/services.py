"""The addresses of Services behind which webhooks and aggregated API servers listen.

Source: k8s.io/apiserver/pkg/util/proxy (`ResolveCluster`, `ResolveEndpoint`). The real server dials cluster IPs, which
nothing routes here: a Service that has endpoints is reached by them, unless there is a proxy to the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from understudy.admission.webhooks import CallError, Service
from understudy.kinds.core.endpoints.slices import is_ready, service_of
from understudy.machinery.golang.text import go_quote
from understudy.machinery.types import Obj

# Address and port to dial.
Address = tuple[str, int]
# Returns a stored object by group, resource, namespace and name.
Lookup = Callable[[str, str, str, str], Obj | None]
# Returns the stored objects of a group, resource and namespace.
Listing = Callable[[str, str, str], Sequence[Obj]]


class ServiceResolver:
    """Finds the address of a Service.

    addresses  {"NAMESPACE/NAME": address} of Services that are reached elsewhere than they say, or do not exist
    is_routed  whether cluster IPs lead somewhere, as behind a proxy in the cluster: Services are reached by them
    """

    def __init__(
        self, lookup: Lookup, listing: Listing, addresses: Mapping[str, Address], *, is_routed: bool = False
    ) -> None:
        self._lookup = lookup
        self._listing = listing
        self._addresses = addresses
        self._is_routed = is_routed

    def is_mapped(self, service: Service) -> bool:
        """Report whether a Service is reached elsewhere than it says."""
        return f"{service.namespace}/{service.name}" in self._addresses

    def resolve(self, service: Service) -> Address:
        """Return the address of a Service. Raises CallError."""
        mapped = self._addresses.get(f"{service.namespace}/{service.name}")
        if mapped is not None:
            return mapped
        stored = self._lookup("", "services", service.namespace, service.name)
        if stored is None:
            raise CallError(f"service {go_quote(service.name)} not found")
        spec = stored["spec"]
        if spec["type"] == "ExternalName":
            return spec["externalName"], service.port
        if spec.get("clusterIP") == "None":
            raise CallError('cannot route to service with ClusterIP "None"')
        port = next((port for port in spec.get("ports") or () if port["port"] == service.port), None)
        if port is None:
            raise CallError(f"no service port {service.port} found for service {go_quote(service.name)}")
        endpoint = None if self._is_routed else self._endpoint(service, port.get("name") or "")
        return endpoint or (spec["clusterIP"], service.port)

    def _endpoint(self, service: Service, port_name: str) -> Address | None:
        """Return the address of a ready endpoint of a Service, None if it has none."""
        for endpoint_slice in self._listing("discovery.k8s.io", "endpointslices", service.namespace):
            if service_of(endpoint_slice) == service.name:
                endpoints = endpoint_slice.get("endpoints") or ()
                ready = [address for item in endpoints if is_ready(item) for address in item["addresses"]]
                if address := _first(ready, endpoint_slice.get("ports") or (), port_name):
                    return address
        legacy = self._lookup("", "endpoints", service.namespace, service.name) or {}
        for subset in legacy.get("subsets") or ():
            ready = [item["ip"] for item in subset.get("addresses") or ()]
            if address := _first(ready, subset.get("ports") or (), port_name):
                return address
        return None


def _first(addresses: Sequence[str], ports: Sequence[Obj], port_name: str) -> Address | None:
    """Return the first address with the port of a name, None if there is none."""
    named = [port["port"] for port in ports if (port.get("name") or "") == port_name]
    return (addresses[0], named[0]) if addresses and named else None
