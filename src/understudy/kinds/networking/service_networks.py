"""Validation of the networks that services get their addresses from, and of the addresses in use."""

from __future__ import annotations

from collections.abc import Callable

from understudy.kinds.common.formats import (
    canonical_cidr,
    canonical_ip,
    has_leading_zeros,
    invalid_texts,
    is_mapped,
    subdomain,
)
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.machinery.golang.netip import addr_error, parse_cidr, parse_ip, prefix_error
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import path_segment_name

MOST_NETWORKS = 2

_CIDRS, _PARENT = Path("spec", "cidrs"), Path("spec", "parentRef")
_NETWORKING = "k8s.io/kubernetes/pkg/apis/networking"
_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def ip_address(obj: Obj, ctx: Context) -> Errors:
    """Check an IPAddress, whose name is the address (upstream: `ValidateIPAddress`)."""
    parent = obj["spec"].get("parentRef")
    if parent is None:
        return [required(_PARENT)]
    group = parent.get("group", "")
    errors = subdomain(group, _PARENT.child("group")) if group else []
    for name in ("resource", "name", "namespace"):
        value, where = parent.get(name, ""), _PARENT.child(name)
        if value:
            errors += invalid_texts(path_segment_name(value, False), value, where)
        elif name != "namespace":
            errors.append(required(where))
    return errors


def same_parent(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an IPAddress keeps the object that uses it."""
    parent = obj["spec"].get("parentRef")
    if parent == old["spec"].get("parentRef"):
        return []
    bad_value = None if parent is None else Typed(parent, f"{_NETWORKING}.ParentReference")
    return [invalid(_PARENT, bad_value, IMMUTABLE)]


def _canonical_address(name: str, prefix: bool) -> list[str]:
    return [str(error.detail) for error in canonical_ip(name, _CIDRS)]


def _address_of_netip(name: str, prefix: bool) -> list[str]:
    address = parse_ip(name)
    if address is None or has_leading_zeros(name):
        return [f"ParseAddr({go_quote(name)}): {addr_error(name)}"]
    return [] if name == str(address) else ["must be a canonical format IP address"]


# The rule for names of IPAddresses.
ADDRESS_NAME = ByRelease({V1_33: _canonical_address, V1_31: _address_of_netip})


def service_cidr(obj: Obj, ctx: Context) -> Errors:
    """Check a ServiceCIDR (upstream: `ValidateServiceCIDR`)."""
    networks = obj["spec"].get("cidrs") or []
    if not networks:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(networks) > MOST_NETWORKS:
        return [invalid(_CIDRS, _spec_value(obj), "may only hold up to 2 values")]
    return _NETWORKS[ctx.release](obj, networks)


def _spec_value(obj: Obj) -> Typed:
    return Typed(obj["spec"], f"{_NETWORKING}.ServiceCIDRSpec")


def _of_one_family(networks: list[str]) -> bool:
    """Report whether two networks can be read and are both of IPv4 or both of IPv6."""
    parsed = [network for network in map(parse_cidr, networks) if network is not None]
    families = {4 if is_mapped(network.network_address) else network.version for network in parsed}
    return len(parsed) == len(networks) == MOST_NETWORKS and len(families) == 1


def _canonical_networks(obj: Obj, networks: list[str]) -> Errors:
    errors = [error for i, network in enumerate(networks) for error in canonical_cidr(network, _CIDRS.index(i))]
    if _of_one_family(networks):
        errors.append(invalid(_CIDRS, Typed(networks, "[]string"), _ONE_OF_EACH))
    return errors


def _networks_of_netip(obj: Obj, networks: list[str]) -> Errors:
    if len(networks) == MOST_NETWORKS and (_of_one_family(networks) or None in map(parse_cidr, networks)):
        return [invalid(_CIDRS, _spec_value(obj), _ONE_OF_EACH)]
    return [error for i, network in enumerate(networks) for error in _network_of_netip(network, _CIDRS.index(i))]


def _network_of_netip(value: str, path: Path) -> Errors:
    reason, network = prefix_error(value), parse_cidr(value)
    if reason or network is None:
        return [invalid(path, value, f"netip.ParsePrefix({go_quote(value)}): {reason}")]
    errors: Errors = []
    if parse_ip(value.partition("/")[0]) != network.network_address:
        errors.append(invalid(path, value, "wrong CIDR format, IP doesn't match network IP address"))
    elif value != str(network):
        errors.append(invalid(path, value, "CIDR not in RFC 5952 canonical format"))
    return errors


_NETWORKS: ByRelease[Callable[[Obj, list[str]], Errors]] = ByRelease(
    {V1_33: _canonical_networks, V1_31: _networks_of_netip}
)


def same_networks(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a ServiceCIDR keeps its networks (upstream: `ValidateServiceCIDRUpdate`)."""
    return _SAME_NETWORKS[ctx.release](obj, old, ctx)


def _may_become_dual_stack(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that networks stay, but for a second one that may be added."""
    networks, before = (o["spec"].get("cidrs") or [] for o in (obj, old))
    becomes_dual_stack = (len(before), len(networks)) == (1, MOST_NETWORKS)
    if len(before) != len(networks) and not becomes_dual_stack:
        return [invalid(_CIDRS, Typed.of_field(obj["spec"], "cidrs", "[]string"), IMMUTABLE)]
    pairs = zip(networks, before, strict=False)
    errors = [invalid(_CIDRS.index(i), new, IMMUTABLE) for i, (new, kept) in enumerate(pairs) if new != kept]
    return errors + (service_cidr(obj, ctx) if becomes_dual_stack else [])


def _immutable_networks(obj: Obj, old: Obj, ctx: Context) -> Errors:
    networks = obj["spec"].get("cidrs")
    if networks == old["spec"].get("cidrs"):
        return []
    return [invalid(_CIDRS, Typed.of_field(obj["spec"], "cidrs", "[]string"), IMMUTABLE)]


_SAME_NETWORKS = ByRelease({V1_33: _may_become_dual_stack, V1_31: _immutable_networks})
