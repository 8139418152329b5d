"""The numbers that services hold: node ports, and the cluster IPs that releases keep in a bitmap.

Upstream: `ranges/servicenodeports` and `ranges/serviceips`, pkg/registry/core/service/allocator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

from understudy.kinds.number_range import NumberRange
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

SERVICE_CIDR = IPv4Network("10.0.0.0/24")  # of --service-cluster-ip-range
NODE_PORTS = NumberRange("servicenodeports", "30000-32767", 30000, 2768)
CLUSTER_IPS = NumberRange("serviceips", str(SERVICE_CIDR), int(SERVICE_CIDR[1]), SERVICE_CIDR.num_addresses - 2)


def kept_ranges(gates: Gates) -> Sequence[NumberRange]:
    """Return the ranges whose bitmaps are stored: that of cluster IPs only where IPAddresses do not stand for all."""
    has_objects = gates[features.MULTI_CIDR_SERVICE_ALLOCATOR] and gates[features.DISABLE_ALLOCATOR_DUAL_WRITE]
    return (NODE_PORTS,) if has_objects else (NODE_PORTS, CLUSTER_IPS)


def held_numbers(service: Obj, gates: Gates) -> Mapping[NumberRange, int]:
    """Return the bitmaps of the numbers that a service holds."""
    parsed = (parse_ip(ip) for ip in service["spec"].get("clusterIPs") or ())
    numbers = {
        NODE_PORTS: node_ports(service["spec"]),
        CLUSTER_IPS: [int(ip) for ip in parsed if isinstance(ip, IPv4Address)],
    }
    return {kept: kept.bits(numbers[kept]) for kept in kept_ranges(gates)}


def node_ports(spec: Obj) -> list[int]:
    """Return the node ports of a service, that of the health check included."""
    numbers = [port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")]
    return numbers + ([spec["healthCheckNodePort"]] if spec.get("healthCheckNodePort") else [])
