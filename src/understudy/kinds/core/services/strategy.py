"""Services: defaults, strategy, table cells; `service_allocation` allocates their addresses and ports."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import all_of, as_on_create, until
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.printers import NONE, UNKNOWN, addresses, age, field, labels, name
from understudy.kinds.context import Context
from understudy.kinds.core.services import service_allocation, validation
from understudy.kinds.core.services.held_numbers import held_numbers
from understudy.kinds.core.services.ip_allocators import ip_addresses
from understudy.kinds.core.services.validation import externally_accessible
from understudy.kinds.declarations.kind import Behavior, ObjectName
from understudy.kinds.declarations.strategies import create_steps, reset_status, resource_strategy, status_strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_34, V1_37, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field

AFFINITY_SECONDS = 3 * 60 * 60


def _external(service: Obj) -> str:
    """Return the external addresses of a service (upstream: `getServiceExternalIP`)."""
    spec = service.get("spec", {})
    external_ips = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case "ClusterIP" | "NodePort":
            return ",".join(external_ips) or NONE
        case "LoadBalancer":
            balanced = addresses(nested_field(service, "status", "loadBalancer", "ingress", default=[]))
            return ",".join([*([balanced] if balanced else []), *external_ips]) or "<pending>"
    return UNKNOWN


def _ports(service: Obj) -> str:
    """Return the ports of a service: `80:30080/TCP` (upstream: `makePortString`)."""
    texts = []
    for port in nested_field(service, "spec", "ports", default=[]):
        node = f":{port['nodePort']}" if port.get("nodePort", 0) > 0 else ""
        texts.append(f"{port.get('port', 0)}{node}/{port.get('protocol', '')}")
    return ",".join(texts) or NONE


def _row(service: Obj, now: float) -> list[Any]:
    spec = service.get("spec", {})
    return [
        name(service),
        spec.get("type", ""),
        (spec.get("clusterIPs") or [NONE])[0],
        _external(service),
        _ports(service),
        age(service, now),
        labels(spec.get("selector")),
    ]


def _defaults(service: Obj, ctx: Context) -> None:
    """Set the defaults of a service, in place (upstream: `SetDefaults_Service`)."""
    spec = service.setdefault("spec", {})
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    spec["type"] = spec.get("type") or "ClusterIP"
    _default_affinity(spec)
    for port in spec.get("ports") or []:
        port["protocol"] = port.get("protocol") or "TCP"
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if externally_accessible(spec):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        default_if_nil(spec, "internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        default_if_nil(spec, "allocateLoadBalancerNodePorts", True)
        if ctx.gates[features.LOAD_BALANCER_IP_MODE]:
            for ingress in nested_field(service, "status", "loadBalancer", "ingress", default=[]):
                if ingress.get("ip"):
                    default_if_nil(ingress, "ipMode", "VIP")


def _default_affinity(spec: Obj) -> None:
    """Set the timeout of client IP affinity; drop the configuration if there is no affinity."""
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        if nested_field(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}


_GUARDS = (field_guard(features.SERVICE_TRAFFIC_DISTRIBUTION, "spec", "trafficDistribution"),)


def _drop(service: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields, and one that kube-apiserver stores but never shows for services without an address."""
    drop_disabled_fields(_GUARDS, service, old, ctx.gates)
    spec = service["spec"]
    if not service_allocation.needs_cluster_ip(spec) and spec.get("internalTrafficPolicy") in ("Cluster", "Local"):
        del spec["internalTrafficPolicy"]


def _create(service: Obj, ctx: Context) -> None:
    """Prepare a new service, and allocate its addresses and ports. Raises StatusError 422."""
    _drop(service, None, ctx)
    service_allocation.allocate(service, ctx)


def _update(service: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated service, and allocate what it needs in addition. Raises StatusError 422."""
    _drop(service, old, ctx)
    service_allocation.reallocate(service, old, ctx)
    service_allocation.drop_type_dependent_fields(service, old)


_name_is_valid = until(V1_34, as_on_create(validation.METADATA.created))  # later ones do not look at it again


def _endpoints(service: Obj) -> ObjectName:
    """Return the name of the Endpoints of a service."""
    return ObjectName("", "Endpoints", service["metadata"]["namespace"], service["metadata"]["name"])


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "Service"): Behavior(
            defaults=_defaults,
            strategy=resource_strategy(
                "",
                "v1",
                "Service",
                _create,
                prepare_update=_update,
                create_on_update=True,
                validate_metadata=validation.metadata,
                validate=validation.create,
                validate_update=all_of(
                    validation.METADATA.updated, validation.changes, _name_is_valid, validation.changed
                ),
                warn_create=validation.warn,
                warn_update=lambda service, old, ctx: validation.warn(service, ctx),
            ),
            # A write of the status creates a missing service, without addresses and without status.
            status=status_strategy(
                prepare_for_create=create_steps(
                    reset_status("", "v1", "Service"), lambda service, ctx: _drop(service, None, ctx)
                ),
                create_on_update=True,
                validate_metadata=validation.metadata,
                validate=validation.create,
                validate_update=all_of(validation.METADATA.updated, validation.update_status),
                warn_update=validation.warn_status,
            ),
            selectable={"spec.clusterIP": field("spec", "clusterIP"), "spec.type": field("spec", "type")},
            table_row=_row,
            delete_returns_object=True,
            allocations=ip_addresses,
            numbers=held_numbers,
            deleted_with=_endpoints if version < V1_37 else None,
        )
    }
