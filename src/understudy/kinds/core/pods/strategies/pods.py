"""Pods and their subresources: strategies, field labels, graceful deletion."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

from understudy.kinds.common.printers import field
from understudy.kinds.context import Context
from understudy.kinds.core import resource_lists
from understudy.kinds.core.pods import pod_defaults, pod_disabled_fields, pod_table
from understudy.kinds.core.pods.containers import pod_resource_defaults
from understudy.kinds.core.pods.qos import qos_class
from understudy.kinds.core.pods.strategies import pod_preparation, pod_resize
from understudy.kinds.core.pods.validation import pod_spec, pod_warnings, updates
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import RESET_FOR_STATUS, STATUS_RESET, copy_stored, keep_metadata
from understudy.machinery.releases.version import V1_32, V1_33, V1_37, Version
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, nested_field

# Annotations of a time before init containers were fields.
INIT_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/{what}"
    for stage in ("alpha", "beta")
    for what in ("init-containers", "init-container-statuses")
)


def _defaults(pod: Obj, ctx: Context) -> None:
    """Set the defaults of a pod, and remove annotations of a time before init containers were fields."""
    pod_defaults.pod(pod, ctx)
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    annotations = pod["metadata"].get("annotations")
    if annotations and not annotations.keys().isdisjoint(INIT_ANNOTATIONS):
        pod["metadata"]["annotations"] = {k: v for k, v in annotations.items() if k not in INIT_ANNOTATIONS}
    status = pod.get("status") or {}
    _mirror_ips(status)
    resource_lists.round_up(status, "allocatedResources")
    resource_lists.round_up_requirements(status.get("resources"))
    for kind in pod_disabled_fields.STATUSES:
        for container in status.get(kind) or []:
            resource_lists.round_up(container, "allocatedResources")
            resource_lists.round_up_requirements(container.get("resources"))


def _mirror_ips(status: Obj) -> None:
    """Set podIP to the first of podIPs, and the other way round; where they differ podIP wins, for kubelets that know
    no other."""
    first, ips = status.get("podIP"), status.get("podIPs") or []
    if first and (not ips or ips[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif ips and not first and ips[0].get("ip"):
        status["podIP"] = ips[0]["ip"]


def _create(pod: Obj, ctx: Context) -> None:
    """Prepare a new pod: reset its status, drop disabled fields (upstream: `podStrategy.PrepareForCreate`)."""
    spec = pod["spec"]
    if ctx.release >= V1_33:
        pod["metadata"]["generation"] = 1
    sent_class = nested_field(pod, "status", "qosClass")
    pod["status"] = {"phase": "Pending"}
    if ctx.release < V1_37:
        pod["status"]["qosClass"] = sent_class or qos_class(pod, ctx.gates)
    pod_disabled_fields.drop_spec(spec, None, ctx.gates)
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [{**GATED, "lastTransitionTime": ctx.now}]
    pod_preparation.match_label_keys(pod, ctx)
    pod_preparation.sync_app_armor(pod, ctx)
    if ctx.release >= V1_37:
        pod_resource_defaults.default_stored(spec, ctx.gates, ctx.release)
        pod["status"]["qosClass"] = qos_class(pod, ctx.gates)


GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _update(pod: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated pod: keep its status, drop disabled fields (upstream: `podStrategy.PrepareForUpdate`)."""
    copy_stored(pod, old, "status")
    pod_resource_defaults.keep_stored(pod["spec"], old["spec"], ctx.gates)
    pod_disabled_fields.drop_spec(pod["spec"], old["spec"], ctx.gates)
    pod_disabled_fields.drop_status(pod.get("status") or {}, old, ctx)
    pod_preparation.count_generation(pod, old, ctx)


def _update_status(pod: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an update of the status: keep the spec and the owners (upstream:
    `podStatusStrategy.PrepareForUpdate`)."""
    copy_stored(pod, old, "spec")
    copy_stored(pod["metadata"], old["metadata"], "ownerReferences", "deletionTimestamp")
    status = pod.setdefault("status", {})
    # 1.31 does not keep the stored class.
    if ctx.release >= V1_32 and not status.get("qosClass") and nested_field(old, "status", "qosClass"):
        status["qosClass"] = old["status"]["qosClass"]
    if ctx.release >= V1_37:
        _keep_claims(status, old.get("status") or {})
    if ctx.release >= V1_33:
        pod_preparation.keep_observed_generations(status, old.get("status") or {})
        pod_disabled_fields.drop_status(status, old, ctx)


def _keep_claims(status: Obj, before: Obj) -> None:
    """Keep what clients that do not know claims leave out of a pod's status; an empty list clears it."""
    for name in ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"):
        if status.get(name) is None and before.get(name) is not None and not was_sent_empty(status, name):
            status[name] = before[name]


def _update_ephemeral(pod: Obj, old: Obj, ctx: Context) -> None:
    """Keep all of the stored pod but its ephemeral containers; before 1.33 no manager comes to own them.

    Upstream: `podEphemeralContainersStrategy.PrepareForUpdate`.
    """
    ephemeral = pod["spec"].get("ephemeralContainers")
    if ctx.release >= V1_33:
        keep_metadata(*RESET_FOR_STATUS)(pod, old, ctx)
    else:
        named = {name: pod["metadata"].get(name, "") for name in ("resourceVersion", "uid")}
        pod["metadata"] = {**deepcopy(old["metadata"]), **named}
    copy_stored(pod, old, "spec", "status")
    pod["spec"].pop("ephemeralContainers", None)
    if ephemeral:
        pod["spec"]["ephemeralContainers"] = ephemeral
    pod_disabled_fields.drop_spec(pod["spec"], old["spec"], ctx.gates)
    pod_preparation.count_generation(pod, old, ctx)


def delete_grace(pod: Obj, seconds: int | None) -> int:
    """Return the seconds that a deleted pod gets to end; 0 if it is removed immediately (upstream:
    `CheckGracefulDelete`).

    `seconds` is gracePeriodSeconds of the DeleteOptions. Pods without a node, and finished ones, get no time.
    """
    if not nested_field(pod, "spec", "nodeName") or nested_field(pod, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    grace = nested_field(pod, "spec", "terminationGracePeriodSeconds", default=0) if seconds is None else seconds
    return 1 if grace < 0 else int(grace)


SELECTABLE = {
    f"spec.{key}": field("spec", key) for key in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
} | {
    "spec.host": field("spec", "nodeName"),
    "spec.hostNetwork": lambda pod: "true" if nested_field(pod, "spec", "hostNetwork") else "false",
    "status.phase": field("status", "phase"),
    "status.podIP": lambda pod: (nested_field(pod, "status", "podIPs") or [{}])[0].get("ip", ""),
    "status.podIPs": lambda pod: "",
    "status.nominatedNodeName": field("status", "nominatedNodeName"),
}

MAIN = Strategy(
    prepare_for_create=_create,
    prepare_for_update=_update,
    validate=pod_spec.create,
    validate_update=updates.update,
    warn_create=pod_warnings.create,
    reset_fields=STATUS_RESET,
)
STATUS = Strategy(
    prepare_for_update=_update_status,
    validate_update=updates.update_status,
    warn_update=pod_warnings.status,
    reset_fields={"": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))},
)
# PUT and PATCH of the `ephemeralcontainers` subresource.
EPHEMERAL = Strategy(
    prepare_for_update=_update_ephemeral,
    validate_update=updates.update_ephemeral,
    reset_fields=STATUS_RESET,
)


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    return {
        ("", "Pod"): Behavior(
            defaults=_defaults,
            strategy=MAIN,
            status=STATUS,
            subresources={"ephemeralcontainers": EPHEMERAL, "resize": pod_resize.RESIZE},
            selectable=SELECTABLE,
            table_row=partial(pod_table.row, version=version),
            row_conditions=pod_table.row_conditions,
            delete_returns_object=True,
            graceful_delete=delete_grace,
        )
    }
