"""Ingresses, ingress classes, network policies and endpoint slices: defaults, strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.address_warnings import warn_of_ip
from understudy.kinds.common.compose import all_of, as_on_create, until
from understudy.kinds.common.default_classes import is_default_ingress_class
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields
from understudy.kinds.common.objectmeta import CORE, Metadata
from understudy.kinds.common.printers import (
    NONE,
    UNSET,
    addresses,
    age,
    field,
    name,
    name_or_default,
    row,
    selector,
    shortened,
)
from understudy.kinds.context import Context
from understudy.kinds.core.endpoints import validation as endpoints
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    STATUS_RESET,
    copy_stored,
    create_steps,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.kinds.networking import ingresses, network_policies, service_networks
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_33, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field
from understudy.machinery.validation.field import Path
from understudy.machinery.validation.names import dns_subdomain_texts

NETWORKING, DISCOVERY = "networking.k8s.io", "discovery.k8s.io"


def _hosts(ingress: Obj) -> str:
    """Return the hosts of an ingress, `*` without any (upstream: `formatHosts`)."""
    rules = nested_field(ingress, "spec", "rules", default=[])
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == 3:
            return f"{','.join(hosts)} + {len(rules) - 3} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


def _ingress_row(ingress: Obj, now: float) -> list[Any]:
    return [
        name(ingress),
        nested_field(ingress, "spec", "ingressClassName", default=NONE),
        _hosts(ingress),
        addresses(nested_field(ingress, "status", "loadBalancer", "ingress", default=[])),
        "80, 443" if nested_field(ingress, "spec", "tls") else "80",
        age(ingress, now),
    ]


def _class_parameters(ingress_class: Obj) -> str:
    """Return the parameters cell of an ingress class: `kind.group/name`."""
    parameters = nested_field(ingress_class, "spec", "parameters")
    if parameters is None:
        return NONE
    kind = (
        parameters["kind"] if parameters.get("apiGroup") is None else f"{parameters['kind']}.{parameters['apiGroup']}"
    )
    return f"{kind}/{parameters.get('name', '')}"


_DEFAULT_CLASS = name_or_default(is_default_ingress_class)
_CLASS_CELLS = (field("spec", "controller"), _class_parameters)
_CLASS_ROW = ByRelease({V1_36: row(*_CLASS_CELLS, first=_DEFAULT_CLASS), V1_31: row(*_CLASS_CELLS)})


def _default_class(ingress_class: Obj, ctx: Context) -> None:
    """Set the defaults of an ingress class, in place."""
    parameters = nested_field(ingress_class, "spec", "parameters")
    if parameters is not None:
        default_if_nil(parameters, "scope", "Cluster")


def _default_policy(policy: Obj, ctx: Context) -> None:
    """Set the defaults of a network policy, in place (upstream: `SetDefaults_NetworkPolicy`)."""
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction) or []:
            for port in rule.get("ports") or []:
                default_if_nil(port, "protocol", "TCP")


def _default_slice(obj: Obj, ctx: Context) -> None:
    """Set the defaults of an endpoint slice, in place."""
    for port in obj.get("ports") or []:
        default_if_nil(port, "name", "")
        default_if_nil(port, "protocol", "TCP")


def _slice_ports(obj: Obj) -> str:
    """Return the ports cell of an endpoint slice."""
    texts = []
    for port in obj.get("ports") or []:
        number, port_name = port.get("port"), port.get("name")
        texts.append(str(number) if number is not None else "*" if port_name is None else port_name)
    return shortened(texts, 3) or UNSET


def _slice_addresses(obj: Obj) -> str:
    """Return the addresses cell of an endpoint slice."""
    texts = [a for endpoint in obj.get("endpoints") or [] for a in endpoint.get("addresses") or []]
    return shortened(texts, 3) or UNSET


def _warn_slice(obj: Obj, ctx: Context) -> None:
    """Warn of the deprecated address type FQDN."""
    if obj.get("addressType") == "FQDN":
        ctx.warn("spec.addressType: FQDN endpoints are deprecated")


# Controllers that write canonical addresses, so that what they write is not looked at.
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


def _warn_of_addresses(obj: Obj, ctx: Context) -> None:
    """Warn of addresses that are not in canonical form (upstream: `warnOnBadIPs`)."""
    if (obj["metadata"].get("labels") or {}).get("endpointslice.kubernetes.io/managed-by") in _CONTROLLERS:
        return
    for i, endpoint in enumerate(obj.get("endpoints") or ()):
        for j, address in enumerate(endpoint.get("addresses") or ()):
            warn_of_ip(address, Path("endpoints").index(i).child("addresses").index(j), ctx)


def _hints(obj: Obj) -> list[Obj]:
    return [endpoint["hints"] for endpoint in obj.get("endpoints") or () if endpoint.get("hints")]


def _take_hints(obj: Obj) -> None:
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("hints", None)


def _take_nodes(obj: Obj) -> None:
    for hints in _hints(obj):
        hints.pop("forNodes", None)


_SLICE_GUARDS = (
    Guard(features.TOPOLOGY_AWARE_HINTS, lambda obj: bool(_hints(obj)), _take_hints),
    Guard(
        features.PREFER_SAME_TRAFFIC_DISTRIBUTION,
        lambda obj: any(hints.get("forNodes") is not None for hints in _hints(obj)),
        _take_nodes,
    ),
)


def _drop_topology(obj: Obj, old: Obj) -> None:
    """Drop the deprecated topology of endpoints that change; a node that is stored there becomes the node's name.

    Upstream: `dropTopologyOnV1`.
    """
    if obj.get("endpoints") == old.get("endpoints"):
        return
    nodes = {(e.get("deprecatedTopology") or {}).get("kubernetes.io/hostname") for e in old.get("endpoints") or ()}
    for endpoint in obj.get("endpoints") or []:
        node = (endpoint.pop("deprecatedTopology", None) or {}).get("kubernetes.io/hostname")
        if node in nodes and endpoint.get("nodeName") is None and node and not dns_subdomain_texts(node):
            endpoint["nodeName"] = node


def _first_generation(obj: Obj, ctx: Context) -> None:
    """Prepare a new endpoint slice: its generation starts at 1, and the deprecated topology is dropped."""
    obj["metadata"]["generation"] = 1
    drop_disabled_fields(_SLICE_GUARDS, obj, None, ctx.gates)
    _drop_topology(obj, {})


def _count_slice_generation(obj: Obj, old: Obj, ctx: Context) -> None:
    """Count the generation of an endpoint slice, also if labels change, since consumers watch them, or fields that are
    dropped after that."""
    metadata, before = obj["metadata"], old["metadata"]
    same = {k: v for k, v in obj.items() if k != "metadata"} == {k: v for k, v in old.items() if k != "metadata"}
    if not same or (metadata.get("labels") or {}) != (before.get("labels") or {}):
        metadata["generation"] = before.get("generation", 0) + 1
    drop_disabled_fields(_SLICE_GUARDS, obj, old, ctx.gates)
    _drop_topology(obj, old)


def _parent(ip_address: Obj) -> str:
    """Return the parentRef cell of an IPAddress: `services/default/kubernetes`."""
    parent = nested_field(ip_address, "spec", "parentRef")
    if parent is None:
        return NONE
    resource = f"{parent.get('resource', '')}.{parent.get('group', '')}".removesuffix(".").lower()
    return "/".join(part for part in (resource, parent.get("namespace"), parent.get("name", "")) if part is not None)


def _wipe_status(service_cidr: Obj, ctx: Context) -> None:
    """Empty the status of a new ServiceCIDR."""
    if ctx.gates[features.SERVICE_CIDR_STATUS_FIELD_WIPING]:
        service_cidr["status"] = {}


def _keep_status(service_cidr: Obj, old: Obj, ctx: Context) -> None:
    """Keep the stored status of an updated ServiceCIDR."""
    if ctx.gates[features.SERVICE_CIDR_STATUS_FIELD_WIPING]:
        copy_stored(service_cidr, old, "status")


def _ip_addresses(version: Version) -> Behavior:
    metadata = Metadata(name=service_networks.ADDRESS_NAME[version])
    return Behavior(
        strategy=Strategy(
            validate_metadata=metadata.created,
            validate=service_networks.ip_address,
            validate_update=all_of(
                as_on_create(metadata.created, service_networks.ip_address), CORE.updated, service_networks.same_parent
            ),
        ),
        table_row=row(_parent),
    )


def _service_cidrs(version: Version) -> Behavior:
    again = until(V1_33, as_on_create(CORE.created, service_networks.service_cidr))
    resets = version >= V1_36  # before, upstream named another API group here
    return Behavior(
        strategy=Strategy(
            prepare_for_create=_wipe_status,
            prepare_for_update=_keep_status,
            validate=service_networks.service_cidr,
            validate_update=all_of(again, CORE.updated, service_networks.same_networks),
            reset_fields=STATUS_RESET if resets else {},
        ),
        status=status_strategy(
            keep_metadata(*RESET_FOR_STATUS),
            validate_update=CORE.updated,
            reset_fields=METADATA_RESET if resets else {},
        ),
        table_row=row(lambda service_cidr: ",".join(nested_field(service_cidr, "spec", "cidrs", default=[]))),
    )


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        (NETWORKING, "Ingress"): Behavior(
            strategy=resource_strategy(
                NETWORKING,
                "v1",
                "Ingress",
                validate=ingresses.create,
                validate_update=all_of(CORE.updated, as_on_create(CORE.created), ingresses.update),
                warn_create=ingresses.warn,
                generation=True,
            ),
            status=status_strategy(
                validate_update=all_of(CORE.updated, ingresses.status_update), warn_update=ingresses.warn_of_status
            ),
            table_row=_ingress_row,
        ),
        (NETWORKING, "IngressClass"): Behavior(
            defaults=_default_class,
            strategy=Strategy(
                validate=ingresses.ingress_class,
                validate_update=all_of(
                    CORE.updated, ingresses.same_controller, as_on_create(CORE.created, ingresses.ingress_class)
                ),
                generation=True,
            ),
            table_row=_CLASS_ROW[version],
        ),
        (NETWORKING, "NetworkPolicy"): Behavior(
            defaults=_default_policy,
            strategy=Strategy(
                validate=network_policies.create,
                validate_update=all_of(
                    until(V1_36, as_on_create(CORE.created, network_policies.create)),
                    CORE.updated,
                    network_policies.update,
                ),
                warn_create=network_policies.warn,
                warn_update=lambda policy, old, ctx: network_policies.warn(policy, ctx),
                generation=True,
                generation_counts_empty=True,
            ),
            table_row=row(lambda policy: selector(nested_field(policy, "spec", "podSelector"))),
        ),
        (NETWORKING, "IPAddress"): _ip_addresses(version),
        (NETWORKING, "ServiceCIDR"): _service_cidrs(version),
        (DISCOVERY, "EndpointSlice"): Behavior(
            defaults=_default_slice,
            strategy=Strategy(
                prepare_for_create=_first_generation,
                prepare_for_update=_count_slice_generation,
                validate=endpoints.slice_create,
                validate_update=all_of(as_on_create(CORE.created), endpoints.slice_update, endpoints.slice_changes),
                warn_create=create_steps(_warn_slice, _warn_of_addresses),
                warn_update=lambda obj, old, ctx: _warn_of_addresses(obj, ctx),
            ),
            table_row=row(field("addressType"), _slice_ports, _slice_addresses),
        ),
    }
