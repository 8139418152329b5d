"""Warnings of addresses and networks that are accepted though they are not in canonical form."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from understudy.admission.context import Context
from understudy.admission.validation.formats import has_leading_zeros, is_mapped, parse_cidr, parse_ip
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_33, V1_36, ByRelease
from understudy.machinery.validation.field import Path

_INVALID = ByRelease({V1_36: "is invalid", V1_33: "will be considered invalid in a future Kubernetes release"})
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def warn_of_ip(value: str, path: Path, ctx: Context) -> None:
    """Warn of a valid address that is not in canonical form (upstream: `GetWarningsForIP`)."""
    address = parse_ip(value)
    if address is None or ctx.release < V1_33:
        return
    if has_leading_zeros(value) or is_mapped(address):
        text = f"non-standard IP address {go_quote(value)} {_INVALID[ctx.release]}: use {go_quote(_unmapped(address))}"
        ctx.warn(f"{path}: {text}")
    elif ":" in value and str(address) != value:
        canonical = f"RFC 5952 canonical format ({go_quote(str(address))})"
        ctx.warn(f"{path}: IPv6 address {go_quote(value)} should be in {canonical}")


def warn_of_cidr(value: str, path: Path, ctx: Context) -> None:
    """Warn of a valid network that is not in canonical form (upstream: `GetWarningsForCIDR`)."""
    if ctx.release >= V1_33:
        for text in _network_texts(value, _INVALID[ctx.release]):
            ctx.warn(f"{path}: {text}")


def _network_texts(value: str, is_invalid: str) -> Iterator[str]:
    network, address = parse_cidr(value), parse_ip(value.partition("/")[0])
    if network is None or address is None:
        return
    quoted, canonical = go_quote(value), _unmapped_network(network)
    beyond = address != network.network_address
    if beyond:
        bits = 32 if is_mapped(address) else address.max_prefixlen
        one = go_quote(f"{_unmapped(address)}/{bits}")
        yield f"CIDR value {quoted} is ambiguous in this context (should be {go_quote(canonical)} or {one}?)"
    if has_leading_zeros(value) or is_mapped(address):
        yield f"non-standard CIDR value {quoted} {is_invalid}: use {go_quote(canonical)}"
    elif not beyond and ":" in value and str(network) != value:
        yield f"IPv6 CIDR value {quoted} should be in RFC 5952 canonical format ({go_quote(str(network))})"


def _unmapped(address: Address) -> str:
    """Return an address as Go's net.IP prints it: IPv4 in the form of IPv6 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _unmapped_network(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> str:
    """Return a network as Go's net.IPNet prints it: IPv4 in the form of IPv6 as IPv4, if the prefix is long enough."""
    if is_mapped(network.network_address) and network.prefixlen >= 96:
        return f"{_unmapped(network.network_address)}/{network.prefixlen - 96}"
    return str(network)
