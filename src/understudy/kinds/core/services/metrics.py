"""The metrics of addresses and ports that services get. Upstream: metrics.go of `ipallocator` and `portallocator`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network

from understudy.machinery.util.metrics import DEFAULT_SECONDS, Counter, Gauge, Histogram, Labels

_IPS, _PORTS = "kube_apiserver_clusterip_allocator_", "kube_apiserver_nodeport_allocator_"
IPS, IP_ERRORS, IP_SECONDS = (f"{_IPS}allocation_{what}" for what in ("total", "errors_total", "duration_seconds"))
PORTS, PORT_ERRORS = (f"{_PORTS}allocation_{what}" for what in ("total", "errors_total"))
STATIC, DYNAMIC = "static", "dynamic"  # scopes: a client has chosen the address or port, or the server


def families() -> tuple[Counter | Histogram, ...]:
    """Return the families of allocations: of addresses by the range that they are of, and by scope."""
    seconds = "[ALPHA] Duration in seconds to allocate a Cluster IP by ServiceCIDR"
    return (
        Counter(IPS, "[ALPHA] Number of Cluster IPs allocations", ("cidr", "scope")),
        Counter(IP_ERRORS, "[ALPHA] Number of errors trying to allocate Cluster IPs", ("cidr", "scope")),
        Histogram(IP_SECONDS, seconds, ("cidr",), DEFAULT_SECONDS),
        Counter(PORTS, "[ALPHA] Number of NodePort allocations", ("scope",)),
        Counter(PORT_ERRORS, "[ALPHA] Number of errors trying to allocate NodePort", ("scope",)),
    )


def gauges(addresses: Mapping[IPv4Network, int], ports: tuple[int, int]) -> Iterator[Gauge]:
    """Yield the families of what is allocated, and of what is left.

    addresses  how many are allocated, by range
    ports      how many are allocated, and how many are left
    """
    about = "[ALPHA] Gauge measuring the number of {} {} for Services"
    allocated: dict[Labels, float] = {(str(network),): count for network, count in addresses.items()}
    available: dict[Labels, float] = {
        (str(network),): network.num_addresses - 2 - count for network, count in addresses.items()
    }
    for what, series, count in (("allocated", allocated, ports[0]), ("available", available, ports[1])):
        yield Gauge(f"{_IPS}{what}_ips", about.format(what, "IPs"), ("cidr",), series)
        yield Gauge(f"{_PORTS}{what}_ports", about.format(what, "NodePorts"), (), {(): count})
