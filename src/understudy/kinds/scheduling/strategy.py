"""Priority classes, groups of pods and workloads: defaults, strategies, table cells."""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.compose import all_of
from understudy.kinds.common.disabled_fields import drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, age, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.kinds.scheduling import pod_groups, validation, workloads
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, default_if_nil, nested_field


def _defaults(priority: Obj, ctx: Context) -> None:
    default_if_nil(priority, "preemptionPolicy", "PreemptLowerPriority")


def _first_generation(priority: Obj, ctx: Context) -> None:
    priority["metadata"]["generation"] = 1


def _row(priority: Obj, now: float) -> list[Any]:
    """Return the cells of a priority class."""
    value, default = priority.get("value", 0), bool(priority.get("globalDefault"))
    return [name(priority), value, default, age(priority, now), priority.get("preemptionPolicy", "")]


def _row_without_preemption_policy(priority: Obj, now: float) -> list[Any]:
    """Return the cells of a priority class but the last."""
    return _row(priority, now)[:-1]


_GROUP_GUARDS = tuple(
    field_guard(gate, "spec", *names)
    for gate, names in (
        (features.TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, ("schedulingConstraints",)),
        (features.DRA_WORKLOAD_RESOURCE_CLAIMS, ("resourceClaims",)),
        (features.WORKLOAD_AWARE_PREEMPTION, ("disruptionMode",)),
        (features.WORKLOAD_AWARE_PREEMPTION, ("priorityClassName",)),
        (features.WORKLOAD_AWARE_PREEMPTION, ("priority",)),
    )
)


def _default_group(group: Obj, ctx: Context) -> None:
    default_if_nil(group.setdefault("spec", {}), "disruptionMode", "Pod")


def _drop_from_group(group: Obj, old: Obj | None, ctx: Context) -> None:
    drop_disabled_fields(_GROUP_GUARDS, group, old, ctx.gates)


def _drop_from_group_status(group: Obj, old: Obj, ctx: Context) -> None:
    """Drop the claims of a group's status, unless the gate is on or the group has claims."""
    if not ctx.gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS] and not old["spec"].get("resourceClaims"):
        (group.get("status") or {}).pop("resourceClaimStatuses", None)


def _drop_from_templates(workload: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields from the templates of a workload; each is compared with the stored one at its place.

    A template says that it has no constraints, since their field is not left out where it is empty.
    """
    stored = nested_field(old, "spec", "podGroupTemplates", default=[])
    for i, template in enumerate(nested_field(workload, "spec", "podGroupTemplates", default=[])):
        _drop_from_group({"spec": template}, {"spec": stored[i]} if i < len(stored) else None, ctx)
        template.setdefault("schedulingConstraints", None)


def _group_row(group: Obj, now: float) -> list[Any]:
    """Return the cells of a group of pods (upstream: `printPodGroup`)."""
    conditions = {c.get("type"): c for c in nested_field(group, "status", "conditions", default=[])}
    status = "Pending"
    if "PodGroupScheduled" in conditions:
        status = "Scheduled" if conditions["PodGroupScheduled"].get("status") == "True" else "Unschedulable"
    if "DisruptionTarget" in conditions:
        status = conditions["DisruptionTarget"].get("reason", "")
    workload = nested_field(group, "spec", "podGroupTemplateRef", "workload", "workloadName", default=NONE)
    policy = "Gang" if nested_field(group, "spec", "schedulingPolicy", "gang") is not None else "Basic"
    return [name(group), policy, workload, status, age(group, now)]


_GROUP = Behavior(
    defaults=_default_group,
    strategy=resource_strategy(
        "scheduling.k8s.io",
        "v1alpha2",
        "PodGroup",
        lambda group, ctx: _drop_from_group(group, None, ctx),
        prepare_update=_drop_from_group,
        validate=pod_groups.pod_group,
        validate_update=all_of(CORE.updated, pod_groups.changed_pod_group),
        canonicalize=_default_group,  # a dropped field gets its default when the stored object is read
    ),
    status=status_strategy(
        keep_metadata(*RESET_FOR_STATUS),
        _drop_from_group_status,
        validate_update=all_of(CORE.updated, pod_groups.pod_group_status),
        reset_fields=METADATA_RESET,
    ),
    table_row=_group_row,
)
_WORKLOAD = Behavior(
    strategy=Strategy(
        prepare_for_create=lambda workload, ctx: _drop_from_templates(workload, None, ctx),
        prepare_for_update=_drop_from_templates,
        validate=pod_groups.workload,
        validate_update=all_of(CORE.updated, pod_groups.changed_workload),
    ),
    table_row=lambda workload, now: [name(workload), age(workload, now)],
)


_GROUPS = ByRelease[dict[str, Behavior]](
    {
        V1_37: {
            "PodGroup": workloads.POD_GROUP,
            "CompositePodGroup": workloads.COMPOSITE_POD_GROUP,
            "Workload": workloads.WORKLOAD,
        },
        V1_31: {"PodGroup": _GROUP, "Workload": _WORKLOAD},
    }
)
_ROWS = ByRelease({V1_31: _row_without_preemption_policy, V1_32: _row})


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of these kinds by (group, kind)."""
    strategy = Strategy(
        prepare_for_create=_first_generation,
        validate=validation.create,
        validate_update=all_of(CORE.updated, validation.changes),
    )
    protected = dict.fromkeys(validation.SYSTEM, "this is a system priority class and cannot be deleted")
    return {
        ("scheduling.k8s.io", "PriorityClass"): Behavior(
            defaults=_defaults, strategy=strategy, table_row=_ROWS[version], protected=protected
        ),
        **{("scheduling.k8s.io", kind): behavior for kind, behavior in _GROUPS[version].items()},
    }
