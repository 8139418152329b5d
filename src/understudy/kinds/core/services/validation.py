"""Validation of services."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common.address_rules import AddressRule, AddressRules
from understudy.kinds.common.address_warnings import warn_of_cidr, warn_of_ip, warn_of_refused_cidr, warn_of_refused_ip
from understudy.kinds.common.formats import (
    choice,
    invalid_texts,
    label,
    labels,
    port,
    port_number_texts,
    qualified,
    subdomain,
)
from understudy.kinds.common.objectmeta import Metadata
from understudy.kinds.context import Context
from understudy.kinds.core.endpoints.validation import special
from understudy.kinds.core.pods.containers.containers import PROTOCOLS
from understudy.kinds.core.services import cluster_ips
from understudy.kinds.core.services.cluster_ips import SPEC, headless
from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_35, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, forbidden, invalid, not_supported, required
from understudy.machinery.validation.names import dns_subdomain_texts, label_1035_name, label_name

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_KUBELET_PORT = 10250
_MAX_AFFINITY = 86400
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"
_ONCE = "may not change once set"
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"


def create(service: Obj, ctx: Context) -> Errors:
    """Check a new service (upstream: `ValidateServiceCreate`, without the metadata)."""
    return changed(service, {}, ctx)


METADATA = Metadata(name=label_1035_name)
_RELAXED_METADATA = Metadata(name=label_name)  # names may begin with a digit (KEP-5311)


def metadata(service: Obj, ctx: Context) -> Errors:
    """Check the metadata of a new service."""
    relaxed = ctx.gates[features.RELAXED_SERVICE_NAME_VALIDATION]
    return (_RELAXED_METADATA if relaxed else METADATA).created(service, ctx)


def changed(service: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a service that replaces `old`, {} for a new one (upstream: `ValidateService`)."""
    spec, ports = service["spec"], service["spec"].get("ports") or []
    stored: Obj = old.get("spec") or {}
    addresses = AddressRules(ctx)
    errors = _topology(service)
    if not ports and not headless(spec) and spec.get("type") != "ExternalName":
        errors.append(required(SPEC.child("ports")))
    errors += _type(spec, ports, ctx.release)
    names: set[str] = set()
    for i, item in enumerate(ports):
        errors += _port(item, len(ports) > 1, names, SPEC.child("ports").index(i))
    errors += labels(spec.get("selector"), SPEC.child("selector"))
    errors += _affinity(spec)
    errors += cluster_ips.validate(spec, addresses.ip_rule(stored.get("clusterIPs")))
    external_ip = addresses.ip_rule(stored.get("externalIPs"))
    for i, value in enumerate(spec.get("externalIPs") or ()):
        here = SPEC.child("externalIPs").index(i)
        errors += external_ip(value, here) or special(value, here)
    errors += choice(spec.get("type", ""), TYPES, SPEC.child("type"), needed=True)
    errors += _port_conflicts(spec, ports)
    errors += _source_ranges(service, old, addresses)
    errors += _balancer(spec, None)
    errors += _traffic(spec)
    if spec.get("trafficDistribution") is not None:
        errors += _distribution(spec["trafficDistribution"], ctx)
    return errors


_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")


def _distribution(value: str, ctx: Context) -> Errors:
    allowed = _DISTRIBUTIONS if ctx.gates[features.PREFER_SAME_TRAFFIC_DISTRIBUTION] else _DISTRIBUTIONS[:1]
    return [] if value in allowed else [not_supported(SPEC.child("trafficDistribution"), value, allowed)]


def _topology(service: Obj) -> Errors:
    annotations = service["metadata"].get("annotations") or {}
    mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
    if mode is None or hints is None or mode == hints:
        return []
    text = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(Path("metadata", "annotations").key(_MODE), mode, text)]


def _type(spec: Obj, ports: Sequence[Obj], version: Version) -> Errors:
    kind = spec.get("type")
    errors: Errors = []
    if kind == "LoadBalancer" and version < V1_33:
        text = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
        numbered = [i for i, p in enumerate(ports) if p.get("port") == _KUBELET_PORT]
        errors += [invalid(SPEC.child("ports").index(i), _KUBELET_PORT, text) for i in numbered]
    if kind in ("LoadBalancer", "NodePort") and headless(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(invalid(SPEC.child("clusterIPs").index(0), "None", text))
    if kind == "ExternalName":
        for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) not in (None, []):
                errors.append(forbidden(SPEC.child(name), "may not be set for ExternalName services"))
        name, path = spec.get("externalName", "").removesuffix("."), SPEC.child("externalName")
        errors += subdomain(name, path) if name else [required(path)]
    return errors


def _port(item: Obj, named: bool, names: set[str], path: Path) -> Errors:
    name, number = item.get("name", ""), item.get("port", 0)
    errors: Errors = []
    if name:
        errors += label(name, path.child("name"))
        if name in names:
            errors.append(duplicate(path.child("name"), name))
        names.add(name)
    elif named:
        errors.append(required(path.child("name")))
    errors += invalid_texts(port_number_texts(number), number, path.child("port"))
    errors += choice(item.get("protocol", ""), PROTOCOLS, path.child("protocol"), needed=True)
    errors += port(item.get("targetPort"), path.child("targetPort"))
    if item.get("appProtocol") is not None:
        errors += qualified(item["appProtocol"], path.child("appProtocol"))
    return errors


def _affinity(spec: Obj) -> Errors:
    kind, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    path = SPEC.child("sessionAffinityConfig")
    errors = choice(kind, ("ClientIP", "None"), SPEC.child("sessionAffinity"), needed=True)
    if kind == "None" and config is not None:
        errors.append(forbidden(path, "must not be set when session affinity is None"))
    if kind == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is not None and not 0 < seconds <= _MAX_AFFINITY:
            text = f"must be greater than 0 and less than {_MAX_AFFINITY}"
            errors.append(invalid(path.child("clientIP", "timeoutSeconds"), seconds, text))
    return errors


def _port_conflicts(spec: Obj, ports: Sequence[Obj]) -> Errors:
    path = SPEC.child("ports")
    errors: Errors = []
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(path.index(i).child("nodePort"), text) for i, p in enumerate(ports) if p.get("nodePort")]
    node_ports: set[tuple[str, int]] = set()
    for i, item in enumerate(ports):
        if item.get("nodePort"):
            key = (item.get("protocol", ""), item["nodePort"])
            if key in node_ports:
                errors.append(duplicate(path.index(i).child("nodePort"), item["nodePort"]))
            node_ports.add(key)
    seen: set[tuple[str, int]] = set()
    for i, item in enumerate(ports):
        key = (item.get("protocol", ""), item.get("port", 0))
        if key in seen:
            only = {"protocol": key[0], "port": key[1], "targetPort": 0}
            errors.append(duplicate(path.index(i), Typed(only, "k8s.io/kubernetes/pkg/apis/core.ServicePort")))
        seen.add(key)
    return errors


def _source_ranges(service: Obj, old: Obj, addresses: AddressRules) -> Errors:
    spec, annotations = service["spec"], service["metadata"].get("annotations") or {}
    stored = nested_field(old, "spec", "loadBalancerSourceRanges", default=())
    cidr = addresses.cidr_rule([value.strip() for value in stored])
    ranges, path = spec.get("loadBalancerSourceRanges") or [], SPEC.child("LoadBalancerSourceRanges")
    errors: Errors = []
    if not ranges and _RANGES not in annotations:
        return errors
    if not ranges:
        path = Path("metadata", "annotations").key(_RANGES)
    if spec.get("type") != "LoadBalancer":
        errors.append(forbidden(path, _ONLY_BALANCERS))
    for i, value in enumerate(ranges):
        errors += cidr(value.strip(), path.index(i))
    before = nested_field(old, "metadata", "annotations", default={}).get(_RANGES)
    if not ranges and annotations[_RANGES].strip() and not (addresses.keeps_stored and before == annotations[_RANGES]):
        cidr = addresses.cidr_rule(())
        errors += [error for value in annotations[_RANGES].split(",") for error in cidr(value.strip(), path)]
    return errors


def _balancer(spec: Obj, before: Obj | None) -> Errors:
    is_balancer, path = spec.get("type") == "LoadBalancer", SPEC.child("loadBalancerClass")
    chosen = spec.get("loadBalancerClass")
    errors: Errors = []
    if before is None:
        if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balancer:
            errors.append(forbidden(SPEC.child("allocateLoadBalancerNodePorts"), _ONLY_BALANCERS))
        if spec.get("allocateLoadBalancerNodePorts") is None and is_balancer:
            errors.append(required(Path("allocateLoadBalancerNodePorts")))
    elif is_balancer and before.get("type") == "LoadBalancer" and chosen != before.get("loadBalancerClass"):
        errors.append(invalid(path, chosen, _ONCE))
    if chosen is None:
        return errors
    return errors + (qualified(chosen, path) if is_balancer else [forbidden(path, _ONLY_BALANCERS)])


def _traffic(spec: Obj) -> Errors:
    policy, path = spec.get("externalTrafficPolicy", ""), SPEC.child("externalTrafficPolicy")
    errors: Errors = []
    if externally_accessible(spec):
        errors += choice(policy, ("Cluster", "Local"), path, needed=True)
    elif policy:
        errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    number, path = spec.get("healthCheckNodePort", 0), SPEC.child("healthCheckNodePort")
    if not needs_health_check(spec):
        if number:
            text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid(path, number, text))
    else:
        errors += invalid_texts(port_number_texts(number), number, path) if number else [required(path)]
    internal, path = spec.get("internalTrafficPolicy"), SPEC.child("internalTrafficPolicy")
    if internal is not None:
        errors += choice(internal, ("Cluster", "Local"), path)
    elif spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
        errors.append(required(path))
    return errors


def changes(service: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a service keeps its addresses (upstream: `ValidateServiceUpdate`)."""
    spec, before = service["spec"], old["spec"]
    errors: Errors = []
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        if not (headless(spec) and headless(before)):
            errors += _kept(spec, before, "clusterIPs")
        if not headless(spec) and not headless(before):
            errors += _kept(spec, before, "ipFamilies")
    errors += _balancer(spec, before)
    if needs_health_check(spec) and needs_health_check(before):
        if spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0):
            errors.append(forbidden(SPEC.child("healthCheckNodePort"), "field is immutable"))
    return errors


def _kept(spec: Obj, before: Obj, name: str) -> Errors:
    now, then, path = spec.get(name) or [], before.get(name) or [], SPEC.child(name)
    element = "string" if name == "clusterIPs" else "k8s.io/kubernetes/pkg/apis/core.IPFamily"
    bad_value = Typed(now or None, f"[]{element}")
    if len(now) == len(then):
        changed = [i for i, value in enumerate(then) if value != now[i]]
        return [invalid(path.index(i if name == "clusterIPs" else 0), bad_value, _ONCE) for i in changed]
    if not now:
        what = "clusterIP" if name == "clusterIPs" else "ipFamily"
        return [invalid(path.index(0), bad_value, f"primary {what} can not be unset")]
    return [invalid(path.index(0), bad_value, _ONCE)] if then and now[0] != then[0] else []


def update_status(service: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the addresses of a service's load balancer (upstream: `ValidateServiceStatusUpdate`)."""
    status, path = service.get("status") or {}, Path("status", "loadBalancer", "ingress")
    ingresses = (status.get("loadBalancer") or {}).get("ingress") or []
    if (
        ingresses
        and service["spec"].get("type") != "LoadBalancer"
        and not ctx.gates[features.ALLOW_SERVICE_LB_STATUS_ON_NON_LB]
    ):
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    stored = [item.get("ip", "") for item in nested_field(old, "status", "loadBalancer", "ingress", default=())]
    rule = AddressRules(ctx).ip_rule(stored)
    return [error for i, item in enumerate(ingresses) for error in _ingress(item, rule, path.index(i), ctx)]


def warn_status(service: Obj, old: Obj, ctx: Context) -> None:
    """Warn of odd addresses of a load balancer."""
    for i, item in enumerate(nested_field(service, "status", "loadBalancer", "ingress", default=())):
        if item.get("ip"):
            warn_of_ip(item["ip"], Path("status", "loadBalancer", "ingress").index(i), ctx)


def _ingress(item: Obj, rule: AddressRule, path: Path, ctx: Context) -> Errors:
    address, mode, host = item.get("ip", ""), item.get("ipMode"), item.get("hostname", "")
    errors = rule(address, path.child("ip")) if address else []
    if mode is None:
        if address and ctx.gates[features.LOAD_BALANCER_IP_MODE]:
            errors.append(required(path.child("ipMode"), "must be specified when `ip` is set"))
    elif not address:
        errors.append(forbidden(path.child("ipMode"), "may not be specified when `ip` is not set"))
    else:
        errors += choice(mode, ("Proxy", "VIP"), path.child("ipMode"))
    return errors + (load_balancer_host(host, path.child("hostname")) if host else [])


def load_balancer_host(host: str, path: Path) -> Errors:
    """Check the host name of a load balancer."""
    errors = invalid_texts(dns_subdomain_texts(host), host, path)
    if parse_ip(host) is not None:
        errors.append(invalid(path, host, "must be a DNS name, not an IP address"))
    return errors


# The warnings of the addresses and networks of a service.
_WARN_OF_IP = ByRelease({V1_33: warn_of_ip, V1_31: warn_of_refused_ip})
_WARN_OF_CIDR = ByRelease({V1_33: warn_of_cidr, V1_31: warn_of_refused_cidr})


def warn(service: Obj, ctx: Context) -> None:
    """Warn of what is deprecated or likely a mistake in a service."""
    warn_ip, warn_cidr = _WARN_OF_IP[ctx.release], _WARN_OF_CIDR[ctx.release]
    spec, annotations = service["spec"], service["metadata"].get("annotations") or {}
    if _HINTS in annotations:
        ctx.warn(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    cluster_addresses = [address for address in spec.get("clusterIPs") or () if address and address != "None"]
    for name, values in (("clusterIPs", cluster_addresses), ("externalIPs", spec.get("externalIPs") or ())):
        if name == "externalIPs":
            _warn_headless(spec, ctx)
        for i, address in enumerate(values):
            warn_ip(address, SPEC.child(name).index(i), ctx)
    if ctx.release >= V1_36 and spec.get("externalIPs") and not _is_headless(spec) and spec["type"] != "ExternalName":
        ctx.warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        warn_ip(spec["loadBalancerIP"], SPEC.child("loadBalancerIP"), ctx)
    for i, value in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warn_cidr(value, SPEC.child("loadBalancerSourceRanges").index(i), ctx)
    if spec.get("type") == "ExternalName" and spec.get("externalIPs"):
        ctx.warn('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.get("type") != "ExternalName" and spec.get("externalName"):
        ctx.warn('spec.externalName is ignored when spec.type is not "ExternalName"')
    if ctx.release >= V1_35 and spec.get("trafficDistribution") == "PreferClose":
        ctx.warn('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')


def _is_headless(spec: Obj) -> bool:
    return spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None"


def _warn_headless(spec: Obj, ctx: Context) -> None:
    """Warn of fields that mean nothing in a service without an address."""
    if ctx.release < V1_34 or not _is_headless(spec):
        return
    ignored = {
        "loadBalancerIP": spec.get("loadBalancerIP"),
        "externalIPs": spec.get("externalIPs"),
        "SessionAffinity": spec.get("sessionAffinity") != "None",
    }
    for name, is_set in ignored.items():
        if is_set:
            ctx.warn(f"spec.{name} is ignored for headless services")


def needs_health_check(spec: Obj) -> bool:
    """Report whether a service needs a port for health checks (upstream: `NeedsHealthCheck`)."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def externally_accessible(spec: Obj) -> bool:
    """Report whether traffic from outside the cluster reaches a service (upstream: `ExternallyAccessible`)."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
