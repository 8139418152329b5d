"""Small kinds of the core group: namespaces, configmaps, secrets, service accounts, endpoints, limits, quotas."""

from __future__ import annotations

from typing import Any

from understudy.admission.core import pod_defaults
from understudy.apiserver.kind import Context, Rules, Strategy
from understudy.apiserver.kinds.common import keep, main, restore, status
from understudy.apiserver.printing import (
    NONE,
    age,
    at,
    containers,
    count,
    created_at,
    field,
    labels,
    name,
    row,
    shortened,
)
from understudy.apiserver.types import Obj

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def _name_label(namespace: Obj, ctx: Context) -> None:
    """Every namespace carries its name as a label, however it got the name."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAMESPACE_NAME: metadata["name"]}


def _default_namespace(namespace: Obj, ctx: Context) -> None:
    _name_label(namespace, ctx)
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _create_namespace(namespace: Obj, ctx: Context) -> None:
    namespace["status"] = {"phase": "Active"}
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        spec["finalizers"] = [*finalizers, "kubernetes"]


def _update_namespace(namespace: Obj, old: Obj, ctx: Context) -> None:
    restore(namespace, old, "status")
    restore(namespace.setdefault("spec", {}), old.get("spec", {}), "finalizers")


def _terminate(namespace: Obj, ctx: Context) -> None:
    """A deleted namespace stays until its finalizers, too, are gone from its spec."""
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


def _endpoints_cell(endpoints: Obj) -> str:
    subsets = endpoints.get("subsets") or []
    if not subsets:
        return NONE
    shown: list[str] = []
    total = 0
    for subset in subsets:
        ips = [a["ip"] for a in subset.get("addresses") or []]
        for port in subset.get("ports") or [None]:
            total += len(ips)
            shown += ips if port is None else [_host_port(ip, port["port"]) for ip in ips]
    return shortened(shown, 3, total) if total > 3 else ",".join(shown)


def _host_port(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _default_endpoints(endpoints: Obj, ctx: Context) -> None:
    for subset in endpoints.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _default_secret(secret: Obj, ctx: Context) -> None:
    secret.setdefault("type", "Opaque")


def _only_names_of_secrets(account: Obj, ctx: Context) -> None:
    """A service account refers to secrets of its own namespace: only their names are kept."""
    if account.get("secrets"):
        account["secrets"] = [{"name": ref["name"]} if ref.get("name") else {} for ref in account["secrets"]]


def _quota_cells(quota: Obj) -> list[Any]:
    hard, used = at(quota, "status", "hard", default={}), at(quota, "status", "used", default={})
    texts = [(resource, f"{resource}: {used.get(resource, '0')}/{hard[resource]}") for resource in sorted(hard)]
    requests = [text for resource, text in texts if not resource.startswith("limits.")]
    limits = [text for resource, text in texts if resource.startswith("limits.")]
    return [name(quota), age(quota), ", ".join(requests), ", ".join(limits)]


def _component_cells(component: Obj) -> list[Any]:
    for condition in component.get("conditions") or []:
        if condition["type"] == "Healthy":
            health = "Healthy" if condition["status"] == "True" else "Unhealthy"
            return [name(component), health, condition.get("message", ""), condition.get("error", "")]
    return [name(component), "Unknown", "", ""]


def _template_cells(template: Obj) -> list[Any]:
    inner = template.get("template") or {}
    return [name(template), *containers(inner.get("spec")), labels(at(inner, "metadata", "labels"))]


def _default_limits(limits: Obj, ctx: Context) -> None:
    """Containers' limits default to the maximum, their requests to the limits, then to the minimum."""
    for item in at(limits, "spec", "limits", default=[]):
        if item.get("type") == "Container":
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            item.update({key: found for key, found in (("default", default), ("defaultRequest", request)) if found})


# PUT of the `finalize` subresource: the spec (its finalizers) changes, the status does not.
NAMESPACE_FINALIZE = Strategy(prepare_for_update=keep("status"), reset_fields={"": (("status",),)})
NAMESPACES = Rules(
    defaults=_default_namespace,
    strategy=Strategy(
        prepare_for_create=_create_namespace,
        prepare_for_update=_update_namespace,
        canonicalize=_name_label,
        reset_fields={"": (("status",),)},
    ),
    status=status(),
    subresources={"finalize": NAMESPACE_FINALIZE},
    selectable={"status.phase": field("status", "phase")},
    row=row(field("status", "phase")),
    deleted=True,
    terminate=_terminate,
    pending=lambda namespace: bool(at(namespace, "spec", "finalizers")),
)
CONFIG_MAPS = Rules(row=row(lambda c: len(c.get("data") or ()) + len(c.get("binaryData") or ())))
SECRETS = Rules(
    defaults=_default_secret,
    selectable={"type": field("type")},
    row=row(field("type"), count("data")),
)
SERVICE_ACCOUNTS = Rules(
    strategy=Strategy(
        prepare_for_create=_only_names_of_secrets,
        prepare_for_update=lambda account, old, ctx: _only_names_of_secrets(account, ctx),
    ),
    row=row(count("secrets")),
    deleted=True,
)
ENDPOINTS = Rules(defaults=_default_endpoints, strategy=Strategy(create_on_update=True), row=row(_endpoints_cell))
LIMIT_RANGES = Rules(defaults=_default_limits, strategy=Strategy(create_on_update=True), row=created_at)


def rules(release: str) -> dict[tuple[str, str], Rules]:
    """By (group, kind)."""
    return {
        ("", "Namespace"): NAMESPACES,
        ("", "ConfigMap"): CONFIG_MAPS,
        ("", "Secret"): SECRETS,
        ("", "ServiceAccount"): SERVICE_ACCOUNTS,
        ("", "Endpoints"): ENDPOINTS,
        ("", "LimitRange"): LIMIT_RANGES,
        ("", "ResourceQuota"): Rules(
            strategy=main("", "v1", "ResourceQuota"), status=status(), row=_quota_cells, deleted=True
        ),
        ("", "ComponentStatus"): Rules(row=_component_cells),
        ("", "PodTemplate"): Rules(
            defaults=lambda template, ctx: pod_defaults.template(template.get("template"), ctx.gates),
            strategy=Strategy(generation=True),
            row=_template_cells,
            deleted=True,
        ),
    }
