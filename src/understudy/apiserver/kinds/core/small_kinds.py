"""Small kinds of the core group: namespaces, configmaps, secrets, service accounts, endpoints, limits, quotas."""

from __future__ import annotations

import uuid
from base64 import b64encode
from typing import Any

from understudy.admission.context import Context
from understudy.admission.validation.compose import all_of, as_on_create
from understudy.admission.validation.core import config_maps_and_secrets, endpoints, limits_and_quotas, namespaces
from understudy.admission.validation.core.pods import pod_spec, pod_warnings
from understudy.admission.validation.core.pods.pod_options import options
from understudy.admission.validation.objectmeta import CORE, Metadata
from understudy.apiserver.kinds.common import keep, main, restore, status
from understudy.apiserver.kinds.core import pod_defaults, pod_disabled_fields, resource_lists
from understudy.apiserver.kinds.printers import (
    NONE,
    age,
    containers,
    count,
    created_at,
    field,
    labels,
    name,
    row,
    shortened,
)
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, at
from understudy.machinery.validation.field import Errors, Path
from understudy.machinery.validation.names import label_name

NAMESPACE_NAME = "kubernetes.io/metadata.name"


def _name_label(namespace: Obj, ctx: Context) -> None:
    """Set the label with the namespace's name, in place (upstream: `Canonicalize`)."""
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAMESPACE_NAME: metadata["name"]}


def _default_namespace(namespace: Obj, ctx: Context) -> None:
    """Set the defaults of a namespace, in place (upstream: `SetDefaults_Namespace`)."""
    _name_label(namespace, ctx)
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _create_namespace(namespace: Obj, ctx: Context) -> None:
    """Prepare a new namespace: it is active and has the finalizer `kubernetes`."""
    namespace["status"] = {"phase": "Active"}
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if "kubernetes" not in finalizers:
        spec["finalizers"] = [*finalizers, "kubernetes"]


def _update_namespace(namespace: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated namespace: its status and finalizers stay."""
    restore(namespace, old, "status")
    restore(namespace.setdefault("spec", {}), old.get("spec", {}), "finalizers")


def _terminate(namespace: Obj, ctx: Context) -> None:
    """Set the phase of a deleted namespace, which stays until the finalizers of its spec are gone."""
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


def _endpoints_cell(obj: Obj) -> str:
    """Return the first addresses with ports (upstream: `formatEndpoints`)."""
    subsets = obj.get("subsets") or []
    if not subsets:
        return NONE
    addresses: list[str] = []
    total = 0
    for subset in subsets:
        ips = [a["ip"] for a in subset.get("addresses") or []]
        for port in subset.get("ports") or [None]:
            total += len(ips)
            addresses += ips if port is None else [_host_port(ip, port["port"]) for ip in ips]
    return shortened(addresses, 3, total) if total > 3 else ",".join(addresses)


def _host_port(ip: str, port: int) -> str:
    """Return `10.0.0.1:80`, or `[::1]:80` (Go: `net.JoinHostPort`)."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _default_endpoints(obj: Obj, ctx: Context) -> None:
    """Set the protocol of ports to TCP, in place."""
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _default_secret(secret: Obj, ctx: Context) -> None:
    """Set the type of a secret, and move the write-only `stringData` into `data`, in place."""
    secret.setdefault("type", "Opaque")
    texts = secret.pop("stringData", None)
    if texts:
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _only_names_of_secrets(account: Obj, ctx: Context) -> None:
    """Keep only the names of a service account's secrets, which are in its own namespace."""
    if account.get("secrets"):
        account["secrets"] = [{"name": ref["name"]} if ref.get("name") else {} for ref in account["secrets"]]


def _quota_cells(quota: Obj, now: float) -> list[Any]:
    """Return the cells of a resource quota (upstream: `printResourceQuota`)."""
    hard, used = at(quota, "status", "hard", default={}), at(quota, "status", "used", default={})
    texts = [(resource, f"{resource}: {used.get(resource, '0')}/{hard[resource]}") for resource in sorted(hard)]
    requests = [text for resource, text in texts if not resource.startswith("limits.")]
    limits_and_quotas = [text for resource, text in texts if resource.startswith("limits.")]
    return [name(quota), age(quota, now), ", ".join(requests), ", ".join(limits_and_quotas)]


def _component_cells(component: Obj, now: float) -> list[Any]:
    """Return the cells of a component status."""
    for condition in component.get("conditions") or []:
        if condition["type"] == "Healthy":
            health = "Healthy" if condition["status"] == "True" else "Unhealthy"
            return [name(component), health, condition.get("message", ""), condition.get("error", "")]
    return [name(component), "Unknown", "", ""]


def _template_cells(template: Obj, now: float) -> list[Any]:
    """Return the cells of a pod template."""
    inner = template.get("template") or {}
    return [name(template), *containers(inner.get("spec")), labels(at(inner, "metadata", "labels"))]


def _update_template(template: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of an updated pod template."""
    pod_disabled_fields.drop_spec(at(template, "template", "spec"), at(old, "template", "spec"), ctx.gates)


def _validate_template(template: Obj, ctx: Context) -> Errors:
    """Validate the template of a PodTemplate."""
    return pod_spec.template(template.get("template"), Path("template"), options(ctx.release, ctx.gates))


def _name_limits(obj: Obj, ctx: Context) -> None:
    """Give a limit range without a name a random one."""
    if not obj["metadata"].get("name"):
        obj["metadata"]["name"] = str(uuid.uuid4())


def _default_limits(obj: Obj, ctx: Context) -> None:
    """Set missing limits to the maximum, and missing requests to the limits, then to the minimum, in place."""
    for item in at(obj, "spec", "limits", default=[]):
        if item.get("type") == "Container":
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            item.update(
                {key: amounts for key, amounts in (("default", default), ("defaultRequest", request)) if amounts}
            )
        resource_lists.round_up(item, "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_quota(obj: Obj, ctx: Context) -> None:
    """Round the amounts of a quota and of its status."""
    resource_lists.round_up(obj.get("spec"), "hard")
    resource_lists.round_up(obj.get("status"), "hard", "used")


# The strategy of the `finalize` subresource, which changes the spec's finalizers.
NAMESPACE_FINALIZE = Strategy(
    prepare_for_update=keep("status"),
    validate_update=all_of(CORE.updated, namespaces.finalize),
    reset_fields={"": (("status",),)},
)
_NAMESPACE = Metadata(name=label_name)
NAMESPACES = Behavior(
    defaults=_default_namespace,
    strategy=Strategy(
        prepare_for_create=_create_namespace,
        prepare_for_update=_update_namespace,
        canonicalize=_name_label,
        validate_metadata=_NAMESPACE.created,
        validate=namespaces.validate,
        validate_update=all_of(as_on_create(_NAMESPACE.created, namespaces.validate), _NAMESPACE.updated),
        reset_fields={"": (("status",),)},
    ),
    status=status(validate_update=all_of(CORE.updated, namespaces.update_status)),
    subresources={"finalize": NAMESPACE_FINALIZE},
    selectable={"status.phase": field("status", "phase")},
    table_row=row(field("status", "phase")),
    delete_returns_object=True,
    begin_termination=_terminate,
    held_by_spec_finalizers=lambda namespace: bool(at(namespace, "spec", "finalizers")),
)
CONFIG_MAPS = Behavior(
    strategy=Strategy(
        validate=config_maps_and_secrets.config_map,
        validate_update=all_of(
            CORE.updated,
            config_maps_and_secrets.config_map_changes,
            as_on_create(CORE.created, config_maps_and_secrets.config_map),
        ),
    ),
    table_row=row(lambda c: len(c.get("data") or ()) + len(c.get("binaryData") or ())),
)
SECRETS = Behavior(
    defaults=_default_secret,
    strategy=Strategy(
        validate=config_maps_and_secrets.secret,
        validate_update=all_of(
            CORE.updated,
            config_maps_and_secrets.secret_changes,
            as_on_create(CORE.created, config_maps_and_secrets.secret),
        ),
        warn_create=config_maps_and_secrets.warn_secret,
        warn_update=lambda secret, old, ctx: config_maps_and_secrets.warn_secret(secret, ctx),
    ),
    selectable={"type": field("type")},
    table_row=row(field("type"), count("data")),
)
SERVICE_ACCOUNTS = Behavior(
    strategy=Strategy(
        prepare_for_create=_only_names_of_secrets,
        prepare_for_update=lambda account, old, ctx: _only_names_of_secrets(account, ctx),
        validate_update=all_of(CORE.updated, as_on_create(CORE.created)),
        warn_create=lambda account, ctx: namespaces.warn_account(account, None, ctx),
        warn_update=namespaces.warn_account,
    ),
    table_row=row(count("secrets")),
    delete_returns_object=True,
)
ENDPOINTS = Behavior(
    defaults=_default_endpoints,
    strategy=Strategy(
        create_on_update=True,
        validate=endpoints.validate,
        validate_update=all_of(CORE.updated, as_on_create(CORE.created, endpoints.validate)),
    ),
    table_row=row(_endpoints_cell),
)
LIMIT_RANGES = Behavior(
    defaults=_default_limits,
    strategy=Strategy(
        prepare_for_create=_name_limits,
        create_on_update=True,
        validate=limits_and_quotas.limit_range,
        validate_update=as_on_create(CORE.created, limits_and_quotas.limit_range),
    ),
    table_row=created_at,
)
QUOTAS = Behavior(
    defaults=_default_quota,
    strategy=main(
        "",
        "v1",
        "ResourceQuota",
        validate=limits_and_quotas.quota,
        validate_update=all_of(CORE.updated, as_on_create(limits_and_quotas.quota), limits_and_quotas.quota_changes),
    ),
    status=status(validate_update=all_of(CORE.updated, limits_and_quotas.quota_status_update)),
    table_row=_quota_cells,
    delete_returns_object=True,
)
POD_TEMPLATES = Behavior(
    defaults=lambda template, ctx: pod_defaults.template(template.get("template"), ctx.gates),
    strategy=Strategy(
        prepare_for_create=lambda template, ctx: pod_disabled_fields.drop_spec(
            at(template, "template", "spec"), None, ctx.gates
        ),
        prepare_for_update=_update_template,
        validate=_validate_template,
        validate_update=all_of(CORE.updated, as_on_create(_validate_template)),
        warn_create=lambda template, ctx: pod_warnings.template(template.get("template"), Path("template"), ctx),
        generation=True,
    ),
    table_row=_template_cells,
    delete_returns_object=True,
)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "Namespace"): NAMESPACES,
        ("", "ConfigMap"): CONFIG_MAPS,
        ("", "Secret"): SECRETS,
        ("", "ServiceAccount"): SERVICE_ACCOUNTS,
        ("", "Endpoints"): ENDPOINTS,
        ("", "LimitRange"): LIMIT_RANGES,
        ("", "ResourceQuota"): QUOTAS,
        ("", "ComponentStatus"): Behavior(table_row=_component_cells),
        ("", "PodTemplate"): POD_TEMPLATES,
    }
