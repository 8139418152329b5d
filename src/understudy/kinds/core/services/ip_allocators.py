"""The allocators of cluster IPs: one fixed range, or the ranges of all ServiceCIDRs with an IPAddress for each address.

Both read what is stored, bitmaps and objects, or about to be. Addresses are allocated in order, the lowest free one
above the band for static choices first; the real server picks one at random.
Upstream: `pkg/registry/core/service/ipallocator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from time import perf_counter
from typing import Protocol

from understudy.kinds.context import Context
from understudy.kinds.core.services.cluster_ips import FAMILIES
from understudy.kinds.core.services.held_numbers import CLUSTER_IPS, SERVICE_CIDR
from understudy.kinds.core.services.metrics import DYNAMIC, IP_ERRORS, IP_SECONDS, IPS, STATIC
from understudy.kinds.declarations.kind import ObjectName
from understudy.machinery.golang.netip import parse_cidr, parse_ip
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, condition_of

_IP_FAMILY, _MANAGED_BY = "ipaddress.kubernetes.io/ip-family", "ipaddress.kubernetes.io/managed-by"
CONTROLLER_NAME = "ipallocator.k8s.io"
NETWORKING = "networking.k8s.io"
# The band for static choices is a sixteenth of the range, but within these limits.
_SMALLEST_BAND, _LARGEST_BAND = 16, 256


class AllocationError(Exception):
    """The reason why an address cannot be allocated."""


class Allocator(Protocol):
    """Allocates the cluster IPs of one request."""

    def allocate(self, ip: str) -> None:
        """Check that an address that a client chose can be allocated. Raises AllocationError."""

    def allocate_next(self) -> str:
        """Return a free address. Raises AllocationError if there is none."""


def allocator(ctx: Context) -> Allocator:
    """Return the allocator of a request."""
    return _MetaAllocator(ctx) if ctx.gates[features.MULTI_CIDR_SERVICE_ALLOCATOR] else _BitmapAllocator(ctx)


class _BitmapAllocator:
    """Allocates from the range of the server's configuration."""

    def __init__(self, ctx: Context) -> None:
        self._taken = set() if ctx.dry_run else _allocated(ctx) | _cluster_ips(ctx.pending_services())
        self._ctx = ctx

    def allocate(self, ip: str) -> None:
        with _counted(self._ctx, SERVICE_CIDR, STATIC):
            if self._is_taken(ip):
                raise AllocationError("provided IP is already allocated")
            _check_range(ip, SERVICE_CIDR)

    def allocate_next(self) -> str:
        if self._ctx.dry_run:
            return str(SERVICE_CIDR.network_address)
        with _counted(self._ctx, SERVICE_CIDR, DYNAMIC):
            return _first_free(SERVICE_CIDR, self._is_taken)

    def _is_taken(self, ip: str) -> bool:
        return str(parse_ip(ip)) in self._taken


class _MetaAllocator:
    """Allocates from the ranges of the ServiceCIDRs that are ready. Stored IPAddresses are taken, and the addresses of
    services that are about to have one."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._ranges = list(_ready_ranges(ctx))
        dual_write = not ctx.gates[features.DISABLE_ALLOCATOR_DUAL_WRITE]
        self._taken = set[str]()
        if not ctx.dry_run:
            self._taken = _cluster_ips(ctx.pending_services()) | (_allocated(ctx) if dual_write else set())

    def allocate(self, ip: str) -> None:
        if self._ctx.dry_run:  # the real server asks the allocator of any one range
            if self._ranges:
                _check_range(ip, self._ranges[0])
            return
        network = next((network for network in self._ranges if _contains(network, ip)), None)
        if network is None:
            raise AllocationError("the provided network does not match the current range")
        with _counted(self._ctx, network, STATIC, times=True):
            if self._is_taken(ip):
                raise AllocationError("provided IP is already allocated")

    def allocate_next(self) -> str:
        if self._ctx.dry_run and self._ranges:
            return str(self._ranges[0].network_address)
        for network in self._ranges:
            with suppress(AllocationError), _counted(self._ctx, network, DYNAMIC, times=True):
                return _first_free(network, self._is_taken)
        raise AllocationError(_FULL)

    def _is_taken(self, ip: str) -> bool:
        name = str(parse_ip(ip))
        return name in self._taken or self._ctx.lookup(NETWORKING, "ipaddresses", "", name) is not None


def ip_addresses(service: Obj, ctx: Context) -> dict[ObjectName, Obj]:
    """Return the IPAddresses of a service's cluster IPs (`createIPAddress`)."""
    if not ctx.gates[features.MULTI_CIDR_SERVICE_ALLOCATOR]:
        return {}
    metadata, parsed = service["metadata"], [parse_ip(ip) for ip in service["spec"].get("clusterIPs") or ()]
    parent = {"resource": "services", "namespace": metadata["namespace"], "name": metadata["name"]}
    return {
        ObjectName(NETWORKING, "IPAddress", "", str(ip)): {
            "metadata": {
                "name": str(ip),
                "labels": {_IP_FAMILY: FAMILIES[ip.version == 6], _MANAGED_BY: CONTROLLER_NAME},
            },
            "spec": {"parentRef": parent},
        }
        for ip in parsed
        if ip is not None
    }


def _cluster_ips(services: Iterable[Obj]) -> set[str]:
    """Return the cluster IPs of services, without leading zeros."""
    return {str(parse_ip(ip)) for service in services for ip in service["spec"].get("clusterIPs") or []} - {"None"}


def _allocated(ctx: Context) -> set[str]:
    """Return the addresses whose bits are set."""
    return {str(IPv4Address(number)) for number in CLUSTER_IPS.numbers(ctx.allocated(CLUSTER_IPS))}


def _ready_ranges(ctx: Context) -> Iterator[IPv4Network]:
    """Yield the IPv4 ranges of the ServiceCIDRs that are ready; one without the condition is."""
    for service_cidr in ctx.listing(NETWORKING, "servicecidrs", ""):
        if (
            condition_of(service_cidr, "Ready").get("status", "True") != "True"
            or "deletionTimestamp" in service_cidr["metadata"]
        ):
            continue
        for text in service_cidr["spec"].get("cidrs") or ():
            network = parse_cidr(text)
            if isinstance(network, IPv4Network):
                yield network


def _contains(network: IPv4Network, ip: str) -> bool:
    """Report whether a network has a host with that address."""
    address = parse_ip(ip)
    return (
        isinstance(address, IPv4Address)
        and address in network
        and address not in (network.network_address, network.broadcast_address)
    )


def _check_range(ip: str, network: IPv4Network) -> None:
    """Raise AllocationError unless the network has a host with that address; a text that is no address passes."""
    if parse_ip(ip) is not None and not _contains(network, ip):
        raise AllocationError(f"the provided IP ({ip}) is not in the valid range. The range of valid IPs is {network}")


@contextmanager
def _counted(ctx: Context, network: IPv4Network, scope: str, *, times: bool = False) -> Iterator[None]:
    """Count what the block allocates of a range, or that it fails, and time it on request. A dry run allocates none."""
    if ctx.dry_run:
        yield
        return
    started = perf_counter()
    try:
        yield
    except AllocationError:
        ctx.count(IP_ERRORS, str(network), scope)
        raise
    ctx.count(IPS, str(network), scope)
    if times:
        ctx.observe(IP_SECONDS, perf_counter() - started, str(network))


_FULL = "range is full"


def _first_free(network: IPv4Network, is_taken: Callable[[str], bool]) -> str:
    """Return the first free address in the order of allocation. Raises AllocationError if there is none."""
    for ip in _in_order(network):
        if not is_taken(ip):
            return ip
    raise AllocationError(_FULL)


def allocated_addresses(gates: Gates, bitmap: int, names: Iterable[str], network: IPv4Network) -> int:
    """Count the addresses of a range that are allocated: those of a bitmap, or those that name IPAddresses."""
    if not gates[features.MULTI_CIDR_SERVICE_ALLOCATOR]:
        return bitmap.bit_count()
    return sum(ip in network for name in names if (ip := parse_ip(name)) is not None)


def _in_order(network: IPv4Network) -> Iterator[str]:
    """Yield the hosts of a network, those of the band for static choices last (`calculateRangeOffset`)."""
    size, first, end = network.num_addresses, int(network.network_address) + 1, int(network.broadcast_address)
    band = min(max(_SMALLEST_BAND, size // 16), _LARGEST_BAND) if size > _SMALLEST_BAND else 0
    for number in chain(range(first + band, end), range(first, first + band)):
        yield str(IPv4Address(number))
