"""Allocation of cluster IPs and node ports to services, and the fields that an update takes over from the stored
service.

Addresses are of one family; node ports are from 30000 to 32767. Ports whose bits are set are taken, and those of
services that are about to be stored. The lowest free one above the band for static choices is allocated. Upstream:
`pkg/registry/core/service/storage/alloc.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import chain
from typing import Any

from understudy.kinds.common.address_rules import AddressRules
from understudy.kinds.context import Context
from understudy.kinds.core.services import cluster_ips, ip_allocators
from understudy.kinds.core.services.cluster_ips import FAMILIES, SPEC
from understudy.kinds.core.services.held_numbers import NODE_PORTS, node_ports
from understudy.kinds.core.services.ip_allocators import AllocationError
from understudy.kinds.core.services.metrics import DYNAMIC, PORT_ERRORS, PORTS, STATIC
from understudy.kinds.core.services.validation import externally_accessible, needs_health_check
from understudy.machinery import errors
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, invalid

STATIC_PORTS = 86
DRY_RUN_PORT = 32768  # the ports behind it stand for those that a dry run would allocate
_POLICY = SPEC.child("ipFamilyPolicy")
_PORTS = range(NODE_PORTS.first, NODE_PORTS.first + NODE_PORTS.size)


def needs_cluster_ip(spec: Obj) -> bool:
    """Report whether a service has a cluster IP."""
    return spec.get("type") != "ExternalName"


def needsnode_ports(spec: Obj) -> bool:
    """Report whether a service has node ports."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocate(service: Obj, ctx: Context) -> None:
    """Allocate addresses and ports for a new service, in place; offline there are no addresses, and every port is free.
    Raises StatusError 422 for an address or port that cannot be had."""
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _families(service, ctx)
    _choose(service, ctx, address=needs_cluster_ip(spec) and not ctx.offline, own=set())


def reallocate(service: Obj, old: Obj, ctx: Context) -> None:
    """Keep the addresses and ports of an updated service, and allocate those that it lacks, in place. Raises 422."""
    spec, before = service["spec"], old["spec"]
    _take_over(spec, before)
    _sync_cluster_ips(spec, before)
    if spec.get("ipFamilyPolicy") is None and needs_cluster_ip(spec) and before.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = before["ipFamilyPolicy"]
    has_address = needs_cluster_ip(spec) and spec.get("clusterIP") != "None"
    if has_address and not spec.get("ipFamilies") and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["ipFamilies"] = list(before.get("ipFamilies") or [])
    _families(service, ctx, before)
    address = needs_cluster_ip(spec) and not needs_cluster_ip(before)
    _choose(service, ctx, address=address, own=set(node_ports(before)))


def _choose(service: Obj, ctx: Context, *, address: bool, own: set[int]) -> None:
    """Set node ports and, if asked for, cluster IPs, while no other request does. `own` are the node ports that the
    stored service has already. Raises StatusError 422 and 500."""

    def choose() -> None:
        if address:
            _addresses(service, ctx)
        _ports(service, ctx, own)

    if ctx.dry_run:
        choose()
    else:
        ctx.allocate(service, choose)


def _take_over(spec: Obj, before: Obj) -> None:
    """Set addresses and ports that the client left out to the stored ones (upstream: `patchAllocatedValues`)."""
    if needs_cluster_ip(spec) and needs_cluster_ip(before):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
    if needsnode_ports(spec) and needsnode_ports(before):
        used = set(node_ports(spec)) & set(node_ports(before))
        by_name = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            held = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and held and held not in used:
                port["nodePort"] = held
    if needs_health_check(spec) and needs_health_check(before) and not spec.get("healthCheckNodePort"):
        if before.get("healthCheckNodePort"):
            spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def _sync_cluster_ips(spec: Obj, before: Obj) -> None:
    """Set clusterIPs to follow a changed clusterIP, which is the first of them (upstream: `NormalizeClusterIPs`)."""
    if spec.get("clusterIP") == before.get("clusterIP") or spec.get("clusterIPs") != before.get("clusterIPs"):
        return
    if spec.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    else:
        spec.pop("clusterIPs", None)


def _families(service: Obj, ctx: Context, before: Obj | None = None) -> None:
    """Set ipFamilyPolicy and ipFamilies, the latter with a server only; addresses of `before`, which is stored, may
    stay. Raises StatusError 422."""
    spec = service["spec"]
    if not needs_cluster_ip(spec):
        return
    headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        spec["ipFamilyPolicy"] = "RequireDualStack" if headless else "SingleStack"
    ip_rule = AddressRules(ctx).ip_rule((before or {}).get("clusterIPs") or ())
    field_errors = cluster_ips.validate(spec, ip_rule)
    if not field_errors:
        released = _release(spec, before) if before is not None else []
        field_errors = _family_errors(spec, headless, ctx, released)
    if field_errors:
        raise errors.invalid("", "Service", service["metadata"].get("name", ""), field_errors, ctx.release)
    if ctx.offline:
        return
    families = list(spec.get("ipFamilies") or FAMILIES[:1])
    if headless and len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families += [family for family in FAMILIES if family not in families]
    spec["ipFamilies"] = families


def _release(spec: Obj, before: Obj) -> Errors:
    """Give up second addresses and families for a policy of one; check that they stay otherwise."""
    errors: Errors = []
    for name, subject in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        values, stored = spec.get(name) or [], before.get(name) or []
        if spec["ipFamilyPolicy"] != "SingleStack":
            if 0 < len(values) < len(stored):
                text = f"must be 'SingleStack' to release the secondary {subject}"
                errors.append(invalid(_POLICY, spec["ipFamilyPolicy"], text))
        elif values == stored:
            spec[name] = values[:1]
    return errors


def _family_errors(spec: Obj, headless: bool, ctx: Context, released: Errors) -> Errors:
    """Check that policy, families and addresses fit each other, and are possible in a cluster with IPv4 only; offline
    any cluster may be meant. `released` are the errors found before."""
    policy, families, ips = spec["ipFamilyPolicy"], spec.get("ipFamilies") or [], spec.get("clusterIPs") or []
    field_errors = [*released]
    for values, subject in ((ips, "cluster IPs"), (families, "IP families")):
        if policy == "SingleStack" and len(values) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {subject} are specified"
            field_errors.append(invalid(_POLICY, policy, text))
    if ctx.offline:
        return field_errors
    for i, ip in enumerate(ips[len(families) :], len(families)):
        if ":" in ip:
            addresses = Typed(ips, "[]string")
            field_errors.append(
                invalid(SPEC.child("clusterIPs").index(i), addresses, "IPv6 is not configured on this cluster")
            )
    if field_errors or headless:
        return field_errors
    if policy == "RequireDualStack":
        field_errors.append(invalid(_POLICY, policy, "this cluster is not configured for dual-stack services"))
    for i, family in enumerate(families):
        if family != FAMILIES[0]:
            field_errors.append(invalid(SPEC.child("ipFamilies").index(i), family, "not configured on this cluster"))
    return field_errors


def _addresses(service: Obj, ctx: Context) -> None:
    """Set the cluster IPs. Raises StatusError 422 for one that cannot be had, 500 if no address is free."""
    spec = service["spec"]
    ips = spec.get("clusterIPs") or []
    if ips and ips[0] == "None":
        return
    ip, allocator = ips[0] if ips else "", ip_allocators.allocator(ctx)
    try:
        if ip:
            allocator.allocate(ip)
        else:
            ip = allocator.allocate_next()
    except AllocationError as reason:
        if not ip:
            raise errors.internal_error(f"failed to allocate a serviceIP: {reason}") from None
        error = invalid(SPEC.child("clusterIPs"), Typed(ips, "[]string"), f"failed to allocate IP {ip}: {reason}")
        raise errors.invalid("", "Service", service["metadata"].get("name", ""), [error], ctx.release) from None
    spec["clusterIP"], spec["clusterIPs"] = ip, [ip, *ips[1:]]


def _ports(service: Obj, ctx: Context, own: set[int]) -> None:
    """Set node ports where they are needed. `own` are those that the stored service has already. Raises StatusError
    422."""
    spec = service["spec"]
    if not needsnode_ports(spec):
        return
    taken = {number for other in ctx.pending_services() for number in node_ports(other["spec"])}
    taken = (taken | set(NODE_PORTS.numbers(ctx.allocated(NODE_PORTS)))) - own
    by_port: dict[int, int] = {}
    ports = spec.get("ports") or []
    requested = {port["port"]: port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
    free, highest = _free_ports(taken, ctx), 0  # of this service

    def next_port() -> int:
        return (highest or DRY_RUN_PORT) + 1 if ctx.dry_run else next(free)

    for i, port in enumerate(ports):
        number, scope, known = port.get("nodePort") or 0, STATIC, by_port.get(port["port"])
        if not number and spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            continue
        if number and not ctx.offline:
            _check_port(service, i, number, taken if known != number else set(), ctx)
        elif not number and not (number := known or requested.get(port["port"]) or 0):
            number, scope = next_port(), DYNAMIC
        if number != known and number not in own and not ctx.dry_run:
            ctx.count(PORTS, scope)
        port["nodePort"] = number
        by_port.setdefault(port["port"], number)
        taken.add(number)
        highest = max(highest, number) if highest else number
    if needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = next_port()
        if not ctx.dry_run:
            ctx.count(PORTS, DYNAMIC)


def _check_port(service: Obj, i: int, number: Any, taken: set[int], ctx: Context) -> None:
    """Raise StatusError 422 for a node port that is out of range, which a dry run does not look at, or taken."""
    problem = ""
    if number not in _PORTS and not ctx.dry_run:
        problem = f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS.text}"
    elif number in taken:
        problem = "provided port is already allocated"
    if problem:
        if not ctx.dry_run:
            ctx.count(PORT_ERRORS, STATIC)
        error = invalid(SPEC.child("ports").index(i).child("nodePort"), number, problem)
        raise errors.invalid("", "Service", service["metadata"].get("name", ""), [error], ctx.release)


def _free_ports(taken: Set[int], ctx: Context) -> Iterator[int]:
    """Yield the free node ports in the order of allocation; more may be taken meanwhile. Raises StatusError 500 when
    there are none left."""
    for number in chain(_PORTS[STATIC_PORTS:], _PORTS[:STATIC_PORTS]):
        if number not in taken:
            yield number
    ctx.count(PORT_ERRORS, DYNAMIC)
    raise errors.internal_error("failed to allocate a nodePort: range is full")


def drop_type_dependent_fields(service: Obj, old: Obj) -> None:
    """Drop fields of the stored type only, unless the client changed them (`dropTypeDependentFields`)."""
    spec, before = service["spec"], old["spec"]

    def same(*keys: str) -> bool:
        return all(spec.get(key) == before.get(key) for key in keys)

    def drop(*keys: str) -> None:
        for key in keys:
            spec.pop(key, None)

    if needs_cluster_ip(before) and not needs_cluster_ip(spec):
        for keys in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if same(*keys):
                drop(*keys)
    if needsnode_ports(before) and not needsnode_ports(spec):
        if set(node_ports(before)) >= {port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")}:
            for port in spec.get("ports") or []:
                port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec) and same("healthCheckNodePort"):
        drop("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if same(key):
                drop(key)
    if externally_accessible(before) and not externally_accessible(spec) and same("externalTrafficPolicy"):
        drop("externalTrafficPolicy")
    if spec.get("type") != "LoadBalancer":
        service["status"]["loadBalancer"] = {}
