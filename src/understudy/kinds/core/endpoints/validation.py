"""Validation of endpoints and endpoint slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.kinds.common.address_rules import AddressRule, AddressRules
from understudy.kinds.common.address_warnings import warn_of_ip
from understudy.kinds.common.formats import (
    canonical_ip,
    choice,
    invalid_texts,
    ip,
    is_mapped,
    label,
    labels,
    port_number_texts,
    qualified,
    subdomain,
)
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.containers import PROTOCOLS
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required, too_many
from understudy.machinery.validation.names import dns_subdomain_texts, label_value_texts, subdomain_name

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ADDRESSES, _MAX_PORTS, _MAX_ENDPOINTS, _MAX_HINTS = 100, 20000, 1000, 8


def special(value: str, path: Path) -> Errors:
    """Refuse addresses that mean something else on every machine (upstream: `ValidateNonSpecialIP`)."""
    ip_address = parse_ip(value)
    if ip_address is None:
        return [invalid(path, value, "must be a valid IP address")]
    checks = (
        (ip_address.is_unspecified, f"may not be unspecified ({value})"),
        (ip_address.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (ip_address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (_link_multicast(str(ip_address)), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
    return [invalid(path, value, text) for wrong, text in checks if wrong]


def _link_multicast(address: str) -> bool:
    return address.startswith(("224.0.0.", "ff02:"))


def validate(obj: Obj, ctx: Context) -> Errors:
    """Check an Endpoints object (upstream: `ValidateEndpoints`)."""
    errors: Errors = []
    ip_rule = AddressRules(ctx).ip_rule()
    for i, subset in enumerate(obj.get("subsets") or ()):
        here = Path("subsets").index(i)
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(here, "must specify `addresses` or `notReadyAddresses`"))
        for kind in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(kind) or ()):
                errors += _address(address, ip_rule, here.child(kind).index(j))
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            errors += _port(port, len(ports) > 1, here.child("ports").index(j))
    return errors


def changed(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed Endpoints object, whose subsets may stay as they are, whatever they are."""
    if ctx.release >= V1_33 and (obj.get("subsets") or []) == (old.get("subsets") or []):
        return []
    return validate(obj, ctx)


# What the endpoints controller writes; it causes no warning.
_MANAGED_BY = ("endpoints.kubernetes.io/managed-by", "endpoint-controller")


def warn(obj: Obj, ctx: Context) -> None:
    """Warn of odd addresses (upstream: `endpointsWarnings`)."""
    label_key, controller = _MANAGED_BY
    if (obj["metadata"].get("labels") or {}).get(label_key) == controller:
        return
    for i, subset in enumerate(obj.get("subsets") or ()):
        for kind in ("addresses", "notReadyAddresses"):
            for j, address in enumerate(subset.get(kind) or ()):
                here = Path("subsets").index(i).child(kind).index(j).child("ip")
                warn_of_ip(address.get("ip", ""), here, ctx)


def _address(address: Obj, ip_rule: AddressRule, path: Path) -> Errors:
    value, host, node = address.get("ip", ""), address.get("hostname"), address.get("nodeName")
    errors = ip_rule(value, path.child("ip"))
    if host:
        errors += label(host, path.child("hostname"))
    if node is not None:
        errors += invalid_texts(subdomain_name(node, False), node, path.child("nodeName"))
    return errors + special(value, path.child("ip"))


def _port(port: Obj, named: bool, path: Path) -> Errors:
    name, number = port.get("name", ""), port.get("port", 0)
    errors: Errors = []
    if name:
        errors += label(name, path.child("name"))
    elif named:
        errors.append(required(path.child("name")))
    errors += invalid_texts(port_number_texts(number), number, path.child("port"))
    errors += choice(port.get("protocol", ""), PROTOCOLS, path.child("protocol"), needed=True)
    if port.get("appProtocol") is not None:
        errors += qualified(port["appProtocol"], path.child("appProtocol"))
    return errors


def slice_create(obj: Obj, ctx: Context) -> Errors:
    """Check a new EndpointSlice (upstream: `ValidateEndpointSlice`)."""
    return slice_update(obj, {}, ctx)


def slice_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check an EndpointSlice. Since 1.33 endpoints that are wrong already may stay."""
    kind, items = obj.get("addressType", ""), obj.get("endpoints") or []
    errors = [] if kind else [required(Path("addressType"))]
    if kind:
        errors += choice(kind, ADDRESS_TYPES, Path("addressType"))
    endpoints = _endpoints(items, kind, Path("endpoints"), ctx)
    ports = _slice_ports(obj.get("ports") or (), Path("ports"))
    if ctx.release < V1_33:
        return errors + endpoints + ports
    return errors + ports + ([] if items == old.get("endpoints") else endpoints)


def slice_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that an EndpointSlice keeps its address type."""
    kind = obj.get("addressType", "")
    return [] if kind == old.get("addressType", "") else [invalid(Path("addressType"), kind, IMMUTABLE)]


def _endpoints(items: Sequence[Obj], kind: str, path: Path, ctx: Context) -> Errors:
    if len(items) > _MAX_ENDPOINTS:
        return [too_many(path, len(items), _MAX_ENDPOINTS)]
    return [error for i, endpoint in enumerate(items) for error in _endpoint(endpoint, kind, path.index(i), ctx)]


def _endpoint(endpoint: Obj, kind: str, path: Path, ctx: Context) -> Errors:
    addresses, here = endpoint.get("addresses") or [], path.child("addresses")
    errors: Errors = []
    if not addresses:
        errors.append(required(here, "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(here, len(addresses), _MAX_ADDRESSES))
    for i, address in enumerate(addresses):
        errors += _slice_address(address, kind, here, i, ctx)
    if endpoint.get("nodeName") is not None:
        name = endpoint["nodeName"]
        errors += invalid_texts(subdomain_name(name, False), name, path.child("nodeName"))
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > 16:
        errors.append(too_many(path.child("deprecatedTopology"), len(topology), 16))
    errors += labels(topology, path.child("deprecatedTopology"))
    if endpoint.get("hostname") is not None:
        errors += label(endpoint["hostname"], path.child("hostname"))
    hints, where = endpoint.get("hints") or {}, path.child("hints")
    errors += _hinted(hints.get("forZones") or (), label_value_texts, where.child("forZones"))
    return errors + _hinted(hints.get("forNodes") or (), dns_subdomain_texts, where.child("forNodes"))


def _slice_address(address: str, kind: str, addresses: Path, index: int, ctx: Context) -> Errors:
    path = addresses.index(index)
    if kind == "FQDN":
        errors = subdomain(address.removesuffix("."), path) if address else [required(path)]
        if not errors and address.removesuffix(".").count(".") < 1:
            errors.append(invalid(path, address, "should be a domain with at least two segments separated by dots"))
        return errors
    if kind not in ("IPv4", "IPv6"):
        return []
    if ctx.release < V1_33:
        return _of_family(address, kind, path)
    strict = ctx.gates[features.STRICT_IP_CIDR_VALIDATION]
    if errors := ip(address, path, strict=strict) if kind == "IPv4" else canonical_ip(address, path):
        return errors
    parsed = parse_ip(address)
    family = "IPv4" if parsed is None or parsed.version == 4 or is_mapped(parsed) else "IPv6"
    if family != kind:
        errors.append(invalid(addresses, address, f"must be an {kind} address"))
    return errors + special(address, path)


def _of_family(address: str, kind: str, path: Path) -> Errors:
    parsed, errors = parse_ip(address), Errors()
    if parsed is None or f"IPv{parsed.version}" != kind:
        errors.append(invalid(path, address, f"must be a valid {kind} address"))
    return errors + special(address, path)


def _hinted(items: Sequence[Obj], texts: Callable[[str], list[str]], path: Path) -> Errors:
    """Check the zones or nodes that an endpoint is meant for."""
    if len(items) > _MAX_HINTS:
        return [too_many(path, len(items), _MAX_HINTS)]
    errors: Errors = []
    for i, item in enumerate(items):
        name = item.get("name", "")
        if any(other.get("name") == name for other in items[:i]):
            errors.append(duplicate(path.index(i).child("name"), name))
        errors += invalid_texts(texts(name), name, path.index(i).child("name"))
    return errors


def _slice_ports(items: Sequence[Obj], path: Path) -> Errors:
    if len(items) > _MAX_PORTS:
        return [too_many(path, len(items), _MAX_PORTS)]
    errors: Errors = []
    for i, port in enumerate(items):
        here, name = path.index(i), port.get("name") or ""
        if name:
            errors += label(name, here.child("name"))
        if any((p.get("name") or "") == name for p in items[:i]):
            errors.append(duplicate(here.child("name"), name))
        if port.get("protocol") is None:
            errors.append(required(here.child("protocol")))
        else:
            errors += choice(port["protocol"], PROTOCOLS, here.child("protocol"))
        if port.get("appProtocol") is not None:
            errors += qualified(port["appProtocol"], here.child("appProtocol"))
    return errors
