"""PodGroups, CompositePodGroups and Workloads since 1.37 (KEP-4671): strategies, rules, table cells.

Most rules are declared by their types, see `kinds.declared_rules`; those here are upstream's hand-written ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from understudy.kinds.common import conditions
from understudy.kinds.common.compose import all_of
from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.kinds.common.objectmeta import CORE
from understudy.kinds.common.printers import NONE, age, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import (
    METADATA_RESET,
    RESET_FOR_STATUS,
    Update,
    keep_metadata,
    resource_strategy,
    status_strategy,
)
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, default_if_nil, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required

_SPEC, _STATUS = Path("spec"), Path("status")
_MAX_DEPTH = 4
_TEMPLATES = "[]k8s.io/kubernetes/pkg/apis/scheduling.CompositePodGroupTemplate"


# --- Fields behind gates ----------------------------------------------------------------------------------------------

_PREEMPTION = field_guard(features.POD_GROUP_PREEMPTION_POLICY, "spec", "preemptionPolicy")
_GROUP_GUARDS = (
    field_guard(features.TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, "spec", "schedulingConstraints"),
    field_guard(features.DRA_WORKLOAD_RESOURCE_CLAIMS, "spec", "resourceClaims"),
    _PREEMPTION,
    field_guard(features.COMPOSITE_POD_GROUP, "spec", "parentCompositePodGroupName"),
)
_TEMPLATE_GUARDS = _GROUP_GUARDS[:3]
_COMPOSITE_GUARDS = (_PREEMPTION,)


def _drop(guards: Sequence[Guard], obj: Obj, old: Obj | None, ctx: Context) -> None:
    drop_disabled_fields(guards, obj, old, ctx.gates)


def _drop_from_status(group: Obj, old: Obj, ctx: Context) -> None:
    """Drop the claims of a group's status, unless the gate is on or the group has claims."""
    if not ctx.gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS] and not old["spec"].get("resourceClaims"):
        (group.get("status") or {}).pop("resourceClaimStatuses", None)


def _drop_from_workload(workload: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields from the templates of a workload, at any depth."""
    spec, before = workload["spec"], {} if old is None else old["spec"]
    _drop_from_templates(spec.get("podGroupTemplates") or [], before.get("podGroupTemplates") or [], ctx)
    _drop_from_composites(spec, before, ctx)


def _drop_from_templates(templates: Sequence[Obj], stored: Sequence[Obj], ctx: Context) -> None:
    """Drop disabled fields from templates; each is compared with the stored one at its place.

    A template says that it has no constraints, since their field is not left out where it is empty.
    """
    for i, template in enumerate(templates):
        _drop(_TEMPLATE_GUARDS, {"spec": template}, {"spec": stored[i]} if i < len(stored) else None, ctx)
        template.setdefault("schedulingConstraints", None)


def _drop_from_composites(holder: Obj, before: Obj, ctx: Context) -> None:
    """Drop disabled fields from templates of groups of groups; each is compared with the stored one of its name."""
    stored = {template.get("name"): template for template in before.get("compositePodGroupTemplates") or ()}
    if not ctx.gates[features.COMPOSITE_POD_GROUP] and not stored:
        holder.pop("compositePodGroupTemplates", None)
    for template in holder.get("compositePodGroupTemplates") or ():
        known = stored.get(template.get("name"))
        _drop(_COMPOSITE_GUARDS, {"spec": template}, known and {"spec": known}, ctx)
        _drop_from_composites(template, known or {}, ctx)
        parts = (known or {}).get("podGroupTemplates") or []
        _drop_from_templates(template.get("podGroupTemplates") or [], parts, ctx)


# --- Rules ------------------------------------------------------------------------------------------------------------


def _group(group: Obj, ctx: Context) -> Errors:
    """Check a new PodGroup (upstream: `ValidatePodGroup`)."""
    spec = group["spec"]
    if spec.get("parentCompositePodGroupName") is None or spec.get("workloadRef") is not None:
        return []
    return [required(_SPEC.child("workloadRef"), "must be set when parentCompositePodGroupName is set")]


def _group_status(group: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of a PodGroup (upstream: `ValidatePodGroupStatusUpdate`)."""
    path = _STATUS.child("resourceClaimStatuses")
    known = {claim.get("name", "") for claim in group["spec"].get("resourceClaims") or ()}
    statuses = nested_field(group, "status", "resourceClaimStatuses", default=())
    text = "must match the name of an entry in `spec.resourceClaims`"
    return _conditions(group, old, ctx) + [
        invalid(path.index(i).child("name"), status.get("name", ""), text)
        for i, status in enumerate(statuses)
        if status.get("name", "") not in known
    ]


def _conditions(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return conditions.validate(nested_field(obj, "status", "conditions", default=()), _STATUS.child("conditions"))


def _workload(workload: Obj, ctx: Context) -> Errors:
    """Check the templates of a Workload (upstream: `ValidateWorkloadSpec`)."""
    spec, path = workload["spec"], _SPEC.child("compositePodGroupTemplates")
    composites = spec.get("compositePodGroupTemplates") or []
    names = {template.get("name", "") for template in spec.get("podGroupTemplates") or ()}
    errors = _names(composites, path, names)
    for i, template in enumerate(composites):
        if _depth(template) > _MAX_DEPTH:
            children = Typed.of_field(template, "compositePodGroupTemplates", _TEMPLATES)
            errors.append(invalid(path.index(i), children, f"maximum template hierarchy depth is {_MAX_DEPTH}"))
    errors += _one_priority(spec)
    return errors + [error for i, template in enumerate(composites) for error in _children(template, path.index(i))]


def _names(templates: Sequence[Obj], path: Path, names: set[str]) -> Errors:
    """Check that the names of templates differ from those of other lists; `names` gets those that were seen."""
    errors = _new_names(templates, path, names)
    for i, template in enumerate(templates):
        below = path.index(i)
        errors += _new_names(template.get("podGroupTemplates") or (), below.child("podGroupTemplates"), names)
        children = template.get("compositePodGroupTemplates") or ()
        errors += _names(children, below.child("compositePodGroupTemplates"), names)
    return errors


def _new_names(templates: Sequence[Obj], path: Path, names: set[str]) -> Errors:
    listed = [template.get("name", "") for template in templates]
    errors = [duplicate(path.index(i).child("name"), one) for i, one in enumerate(listed) if one in names]
    names.update(listed)
    return errors


def _depth(template: Obj) -> int:
    return 1 + max(map(_depth, template.get("compositePodGroupTemplates") or ()), default=0)


def _one_priority(spec: Obj) -> Errors:
    """Check that all templates have one priority and one class."""
    groups = [*map(_priority, spec.get("podGroupTemplates") or ())]
    if len({*groups}) > 1:
        return [invalid(_SPEC, None, "detected multiple priority configurations")]
    composites = spec.get("compositePodGroupTemplates") or ()
    if len({*groups, *(one for template in composites for one in _priorities(template))}) > 1:
        text = "all priority and priorityClassName values must be identical, detected multiple values"
        return [invalid(_SPEC, None, text)]
    return []


def _priority(template: Obj) -> tuple[str, int | None]:
    return template.get("priorityClassName", ""), template.get("priority")


def _priorities(template: Obj) -> Iterator[tuple[str, int | None]]:
    yield _priority(template)
    for child in template.get("compositePodGroupTemplates") or ():
        yield from _priorities(child)
    yield from map(_priority, template.get("podGroupTemplates") or ())


def _children(template: Obj, path: Path) -> Errors:
    """Check that a template of groups of groups has templates below it."""
    children = template.get("compositePodGroupTemplates") or ()
    errors: Errors = []
    if not children and not template.get("podGroupTemplates"):
        text = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        errors.append(invalid(path, template.get("name", ""), text))
    here = path.child("compositePodGroupTemplates")
    return errors + [error for i, child in enumerate(children) for error in _children(child, here.index(i))]


# --- Tables -----------------------------------------------------------------------------------------------------------


def _status_of(group: Obj) -> str:
    by_type = {c.get("type"): c for c in nested_field(group, "status", "conditions", default=[])}
    if "DisruptionTarget" in by_type:
        return str(by_type["DisruptionTarget"].get("reason", ""))
    if "PodGroupInitiallyScheduled" not in by_type:
        return "Pending"
    return "Scheduled" if by_type["PodGroupInitiallyScheduled"].get("status") == "True" else "Unschedulable"


def _cells(group: Obj) -> list[Any]:
    policy = "Gang" if nested_field(group, "spec", "schedulingPolicy", "gang") is not None else "Basic"
    return [name(group), policy, nested_field(group, "spec", "workloadRef", "workloadName", default=NONE)]


def _group_row(group: Obj, now: float) -> list[Any]:
    """Return the cells of a group of pods (upstream: `printPodGroup`)."""
    return [*_cells(group), _status_of(group), age(group, now)]


# --- Behaviors --------------------------------------------------------------------------------------------------------


def _defaults(group: Obj, ctx: Context) -> None:
    spec = group.setdefault("spec", {})
    if ctx.gates[features.POD_GROUP_PREEMPTION_POLICY]:
        default_if_nil(spec, "preemptionPolicy", "PreemptLowerPriority")
    default_if_nil(spec, "disruptionMode", {"single": {}})


def _resource(kind: str, guards: Sequence[Guard], **rules: Any) -> Strategy:
    return resource_strategy(
        "scheduling.k8s.io",
        "v1alpha3",
        kind,
        lambda group, ctx: _drop(guards, group, None, ctx),
        prepare_update=lambda group, old, ctx: _drop(guards, group, old, ctx),
        validate_update=CORE.updated,
        unconditional_update=False,
        **rules,
    )


def _status(rules: Callable[[Obj, Obj, Context], Errors], *prepare: Update) -> Strategy:
    return status_strategy(
        keep_metadata(*RESET_FOR_STATUS),
        *prepare,
        validate_update=all_of(CORE.updated, rules),
        unconditional_update=False,
        reset_fields=METADATA_RESET,
    )


POD_GROUP = Behavior(
    defaults=_defaults,
    strategy=_resource("PodGroup", _GROUP_GUARDS, validate=_group),
    status=_status(_group_status, _drop_from_status),
    table_row=_group_row,
)
COMPOSITE_POD_GROUP = Behavior(
    defaults=_defaults,
    strategy=_resource("CompositePodGroup", _COMPOSITE_GUARDS),
    status=_status(_conditions),
    table_row=lambda group, now: [*_cells(group), age(group, now)],
)
WORKLOAD = Behavior(
    strategy=Strategy(
        prepare_for_create=lambda workload, ctx: _drop_from_workload(workload, None, ctx),
        prepare_for_update=_drop_from_workload,
        validate=_workload,
        validate_update=all_of(CORE.updated, lambda workload, old, ctx: _workload(workload, ctx)),
        unconditional_update=False,
    ),
    table_row=lambda workload, now: [name(workload), age(workload, now)],
)
