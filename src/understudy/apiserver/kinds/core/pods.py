"""Pods and their subresources."""

from __future__ import annotations

from copy import deepcopy

from understudy.admission.context import Context
from understudy.admission.validation.core.pods import pod_spec, pod_warnings, updates
from understudy.admission.validation.core.pods.qos import qos_class
from understudy.apiserver.kinds.common import STATUS_RESET, restore
from understudy.apiserver.kinds.core import (
    pod_defaults,
    pod_disabled_fields,
    pod_preparation,
    pod_table,
    resource_lists,
)
from understudy.apiserver.kinds.printers import field
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.types import Obj, at

# Annotations of a time before init containers were fields.
INIT_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/{what}"
    for stage in ("alpha", "beta")
    for what in ("init-containers", "init-container-statuses")
)


def _defaults(pod: Obj, ctx: Context) -> None:
    pod_defaults.pod(pod, ctx.gates)
    spec = pod["spec"]
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    annotations = pod["metadata"].get("annotations")
    if annotations and not annotations.keys().isdisjoint(INIT_ANNOTATIONS):
        pod["metadata"]["annotations"] = {k: v for k, v in annotations.items() if k not in INIT_ANNOTATIONS}
    status = pod.get("status") or {}
    _mirror_ips(status)
    for kind in pod_disabled_fields.STATUSES:
        for container in status.get(kind) or []:
            resource_lists.round_up(container, "allocatedResources")
            resource_lists.round_up_requirements(container.get("resources"))


def _mirror_ips(status: Obj) -> None:
    """podIP always is the first of podIPs; where they differ podIP wins, for kubelets that know no other."""
    first, ips = status.get("podIP"), status.get("podIPs") or []
    if first and (not ips or ips[0].get("ip") != first):
        status["podIPs"] = [{"ip": first}]
    elif ips and not first and ips[0].get("ip"):
        status["podIP"] = ips[0]["ip"]


def _create(pod: Obj, ctx: Context) -> None:
    spec = pod["spec"]
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod)}
    pod_disabled_fields.drop_spec(spec, None, ctx.gates)
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [{**GATED, "lastTransitionTime": ctx.now}]
    if ctx.gates[features.MATCH_LABEL_KEYS_IN_POD_AFFINITY]:
        pod_preparation.match_label_keys(pod)
    pod_preparation.sync_app_armor(pod, ctx)


GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _update(pod: Obj, old: Obj, ctx: Context) -> None:
    restore(pod, old, "status")
    pod_disabled_fields.drop_spec(pod["spec"], old["spec"], ctx.gates)
    pod_disabled_fields.drop_status(pod.get("status") or {}, old["spec"], ctx.gates)


def _update_status(pod: Obj, old: Obj, ctx: Context) -> None:
    restore(pod, old, "spec")
    restore(pod["metadata"], old["metadata"], "ownerReferences", "deletionTimestamp")
    status = pod.setdefault("status", {})
    # In 1.31 the class of service could still be changed.
    if ctx.release >= V1_32 and not status.get("qosClass") and at(old, "status", "qosClass"):
        status["qosClass"] = old["status"]["qosClass"]


def _update_ephemeral(pod: Obj, old: Obj, ctx: Context) -> None:
    """Of the whole pod only the ephemeral containers change, and nobody comes to own them."""
    wanted = pod["spec"].get("ephemeralContainers")
    named = {name: pod["metadata"].get(name, "") for name in ("resourceVersion", "uid")}
    pod["metadata"] = {**deepcopy(old["metadata"]), **named}
    restore(pod, old, "spec", "status")
    pod["spec"].pop("ephemeralContainers", None)
    if wanted:
        pod["spec"]["ephemeralContainers"] = wanted
    pod_disabled_fields.drop_spec(pod["spec"], old["spec"], ctx.gates)


def delete_grace(pod: Obj, seconds: int | None) -> int:
    """The seconds that a deleted pod is given; 0: it goes at once.

    `seconds` is what the DeleteOptions say. Pods that no node has, or that have ended, need no time.
    """
    if not at(pod, "spec", "nodeName") or at(pod, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    wanted = at(pod, "spec", "terminationGracePeriodSeconds", default=0) if seconds is None else seconds
    return 1 if wanted < 0 else int(wanted)


SELECTABLE = {
    f"spec.{key}": field("spec", key) for key in ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName")
} | {
    "spec.host": field("spec", "nodeName"),
    "spec.hostNetwork": lambda pod: "true" if at(pod, "spec", "hostNetwork") else "false",
    "status.phase": field("status", "phase"),
    "status.podIP": lambda pod: (at(pod, "status", "podIPs") or [{}])[0].get("ip", ""),
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
    reset_fields={"": (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))},
)
# PUT and PATCH of the `ephemeralcontainers` subresource.
EPHEMERAL = Strategy(
    prepare_for_update=_update_ephemeral,
    validate_update=updates.update_ephemeral,
    reset_fields=STATUS_RESET,
)


def behaviors(release: Version) -> dict[tuple[str, str], Behavior]:
    """By (group, kind)."""
    return {
        ("", "Pod"): Behavior(
            defaults=_defaults,
            strategy=MAIN,
            status=STATUS,
            subresources={"ephemeralcontainers": EPHEMERAL},
            selectable=SELECTABLE,
            table_row=pod_table.row,
            row_conditions=pod_table.row_conditions,
            delete_returns_object=True,
            graceful_delete=delete_grace,
        )
    }
