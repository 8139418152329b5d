"""Warnings of addresses and networks that are accepted though they are not in canonical form."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from understudy.kinds.common.formats import has_leading_zeros, is_mapped
from understudy.kinds.context import Context
from understudy.machinery.golang.netip import addr_error, parse_cidr, parse_ip, prefix_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_33, V1_36, ByRelease
from understudy.machinery.validation.field import Path

_INVALID = ByRelease({V1_36: "is invalid", V1_33: "will be considered invalid in a future Kubernetes release"})
_REFUSED = "will be invalid in a future Kubernetes release"
_NOT_CANONICAL = "is not in RFC 5952 canonical format ({}), which may cause controller apply-loops"
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


def warn_of_refused_ip(value: str, path: Path, ctx: Context) -> None:
    """Warn of an address of a service that Go's `netip` refuses, or prints differently, as releases before 1.33 do."""
    if parse_ip(value) is None or has_leading_zeros(value):
        ctx.warn(f"{path}: IP address was accepted, but {_REFUSED}: ParseAddr({go_quote(value)}): {addr_error(value)}")
    elif ":" in value and (canonical := _netip_text(ipaddress.IPv6Address(value))) != value:
        ctx.warn(f"{path}: IPv6 address {go_quote(value)} {_NOT_CANONICAL.format(go_quote(canonical))}")


def warn_of_refused_cidr(value: str, path: Path, ctx: Context) -> None:
    """Warn of a network of a service that Go's `netip` refuses, or prints differently, as releases before 1.33 do."""
    if reason := prefix_error(value):
        text = f"IP prefix was accepted, but {_REFUSED}: netip.ParsePrefix({go_quote(value)}): {reason}"
        ctx.warn(f"{path}: {text}")
    elif ":" in value:
        address, _, bits = value.partition("/")
        canonical = f"{_netip_text(ipaddress.IPv6Address(address))}/{bits}"
        if canonical != value:
            ctx.warn(f"{path}: IPv6 prefix {go_quote(value)} {_NOT_CANONICAL.format(go_quote(canonical))}")


def _netip_text(address: ipaddress.IPv6Address) -> str:
    """Return an address as Go's `netip` prints it."""
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _network_texts(value: str, is_invalid: str) -> Iterator[str]:
    network, address = parse_cidr(value), parse_ip(value.partition("/")[0])
    if network is None or address is None:
        return
    quoted, canonical = go_quote(value), _unmapped_network(network)
    beyond = address != network.network_address
    if beyond:
        one = go_quote(f"{_unmapped(address)}/{address.max_prefixlen}")
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
