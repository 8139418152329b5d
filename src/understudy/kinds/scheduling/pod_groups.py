"""Validation of PodGroups and Workloads, which have pods scheduled together (KEP-4671).

Most rules are upstream's declarative ones (`zz_generated.validations.go`): an update is checked where it changes
something, and a change of a field that cannot change is not checked any further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.kinds.common import conditions
from understudy.kinds.common.formats import invalid_texts, qualified, subdomain
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.kinds.scheduling.validation import HIGHEST
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import V1_36
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import (
    Errors,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from understudy.machinery.validation.names import label_name, long_name_texts, path_segment_name, short_name_texts

_SPEC, _STATUS = Path("spec"), Path("status")
_MAX_CLAIMS, _MAX_TEMPLATES, _MAX_TOPOLOGIES = 4, 8, 1
_V1ALPHA2 = "k8s.io/api/scheduling/v1alpha2."


# --- PodGroups --------------------------------------------------------------------------------------------------------


def pod_group(group: Obj, ctx: Context) -> Errors:
    """Check a new PodGroup (upstream: `Validate_PodGroupSpec`)."""
    spec = group["spec"]
    errors = _template_reference(spec.get("podGroupTemplateRef"), _SPEC.child("podGroupTemplateRef"))
    return errors + _scheduling(spec, _SPEC, ctx)


def changed_pod_group(group: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed PodGroup: its spec stays as it is."""
    spec, before = group["spec"], old["spec"]
    errors: Errors = []
    for name in ("podGroupTemplateRef", "schedulingPolicy", *_OPTIONAL):
        gate, path = _OPTIONAL.get(name), _SPEC.child(name)
        if equal_ignoring_empty(spec.get(name), before.get(name)):
            continue
        if gate in (None, features.DRA_WORKLOAD_RESOURCE_CLAIMS) or ctx.gates[gate]:
            errors.append(invalid(path, None, IMMUTABLE))
            errors += _claim_count(spec.get(name) or (), path) if name == "resourceClaims" else []
        elif spec.get(name) is not None:
            errors.append(forbidden(path, ""))
    return errors


def pod_group_status(group: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the status of a PodGroup (upstream: `ValidatePodGroupStatusUpdate`)."""
    status, path = group.get("status") or {}, _STATUS.child("resourceClaimStatuses")
    claims, before = status.get("resourceClaimStatuses") or [], (old.get("status") or {}).get("resourceClaimStatuses")
    known = {claim.get("name", "") for claim in old["spec"].get("resourceClaims") or ()}
    errors = conditions.validate(status.get("conditions") or (), _STATUS.child("conditions"))
    text = "must match the name of an entry in `spec.resourceClaims`"
    errors += [
        invalid(path.index(i).child("name"), claim.get("name", ""), text)
        for i, claim in enumerate(claims)
        if claim.get("name", "") not in known
    ]
    if equal_ignoring_empty(claims, before):
        return errors
    if wrong := _claim_count(claims, path):
        return errors + wrong
    errors += _unique(claims, path, "PodGroupResourceClaimStatus")
    for i, claim in enumerate(claims):
        if claim.get("resourceClaimName") is not None and claim not in (before or ()):
            errors += _long_name(claim["resourceClaimName"], path.index(i).child("resourceClaimName"))
    return errors


# Fields behind gates of PodGroups and of the templates of Workloads, in Go's order.
_OPTIONAL: dict[str, Gate] = {
    "schedulingConstraints": features.TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    "resourceClaims": features.DRA_WORKLOAD_RESOURCE_CLAIMS,
    "disruptionMode": features.WORKLOAD_AWARE_PREEMPTION,
    "priorityClassName": features.WORKLOAD_AWARE_PREEMPTION,
    "priority": features.WORKLOAD_AWARE_PREEMPTION,
}


def _template_reference(reference: Obj | None, path: Path) -> Errors:
    if reference is None:
        return []
    workload, here = reference.get("workload"), path.child("workload")
    if workload is None:
        return [invalid(path, "", "must specify one of: `workload`")]
    errors: Errors = []
    for name, check in (("workloadName", _long_name), ("podGroupTemplateName", _short_name)):
        value = workload.get(name, "")
        errors += check(value, here.child(name)) if value else [required(here.child(name))]
    return errors


def _scheduling(spec: Obj, path: Path, ctx: Context) -> Errors:
    """Check the fields that PodGroups and their templates share. Fields whose gate is off were dropped before."""
    errors = _policy(spec.get("schedulingPolicy") or {}, path.child("schedulingPolicy"))
    errors += _constraints(spec.get("schedulingConstraints") or {}, path.child("schedulingConstraints"))
    errors += _claims(spec.get("resourceClaims") or [], path.child("resourceClaims"))
    mode, name, priority = (spec.get(field) for field in ("disruptionMode", "priorityClassName", "priority"))
    if mode is not None and mode not in ("Pod", "PodGroup"):
        errors.append(not_supported(path.child("disruptionMode"), mode, ("Pod", "PodGroup")))
    if name:
        errors += _long_name(name, path.child("priorityClassName"))
    if priority is not None and priority > HIGHEST:
        errors.append(invalid(path.child("priority"), priority, f"must be less than or equal to {HIGHEST}"))
    return errors


def _policy(policy: Obj, path: Path) -> Errors:
    errors = _one_of(policy, ("basic", "gang"), path)
    gang, here = policy.get("gang"), path.child("gang", "minCount")
    if gang is None:
        return errors
    count = gang.get("minCount", 0)
    if not count:
        return [*errors, required(here)]
    return errors + ([invalid(here, count, "must be greater than or equal to 1")] if count < 1 else [])


def _one_of(union: Obj, names: Sequence[str], path: Path) -> Errors:
    """Check that exactly one member of a union is set (upstream: `validate.Union`)."""
    present, quoted = [name for name in names if union.get(name) is not None], ", ".join(f"`{name}`" for name in names)
    if len(present) > 1:
        return [invalid(path, f"{{{', '.join(present)}}}", f"must specify exactly one of: {quoted}")]
    return [] if present else [invalid(path, "", f"must specify one of: {quoted}")]


def _constraints(constraints: Obj, path: Path) -> Errors:
    topologies, here = constraints.get("topology") or [], path.child("topology")
    if len(topologies) > _MAX_TOPOLOGIES:
        return [too_many(here, len(topologies), _MAX_TOPOLOGIES)]
    errors: Errors = []
    for i, topology in enumerate(topologies):
        key, where = topology.get("key", ""), here.index(i).child("key")
        errors += qualified(key, where) if key else [required(where)]
    return errors


def _claims(claims: Sequence[Obj], path: Path) -> Errors:
    """Check claims of a group; upstream: `Validate_PodGroupResourceClaim`."""
    if wrong := _claim_count(claims, path):
        return wrong
    errors = _unique(claims, path, "PodGroupResourceClaim")
    for i, claim in enumerate(claims):
        here, name = path.index(i), claim.get("name", "")
        errors += _one_of(claim, ("resourceClaimName", "resourceClaimTemplateName"), here)
        errors += _short_name(name, here.child("name")) if name else [required(here.child("name"))]
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(field) is not None:
                errors += _long_name(claim[field], here.child(field))
    return errors


def _short_name(value: str, path: Path) -> Errors:
    return invalid_texts(short_name_texts(value), value, path)


def _long_name(value: str, path: Path) -> Errors:
    return invalid_texts(long_name_texts(value), value, path)


def _claim_count(claims: Sequence[Obj], path: Path) -> Errors:
    return [too_many(path, len(claims), _MAX_CLAIMS)] if len(claims) > _MAX_CLAIMS else []


def _unique(items: Sequence[Obj], path: Path, go_type: str) -> Errors:
    """Check that no two items have one name (upstream: `validate.Unique`)."""
    names = [item.get("name", "") for item in items]
    return [
        duplicate(path.index(i), Typed(item, _V1ALPHA2 + go_type))
        for i, item in enumerate(items)
        if names[i] in names[:i]
    ]


# --- Workloads --------------------------------------------------------------------------------------------------------


def workload(obj: Obj, ctx: Context) -> Errors:
    """Check a new Workload."""
    if ctx.release < V1_36:
        return _first_workload(obj)
    return _controller(obj["spec"], _long_name) + _templates(obj["spec"], ctx)


def changed_workload(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a changed Workload: its controller and its templates stay as they are."""
    spec, before = obj["spec"], old["spec"]
    if ctx.release < V1_36:
        return _first_workload(obj) + _first_changes(spec, before)
    errors: Errors = []
    if not equal_ignoring_empty(spec.get("controllerRef"), before.get("controllerRef")):
        errors.append(invalid(_SPEC.child("controllerRef"), None, IMMUTABLE))
    templates, path = spec.get("podGroupTemplates") or [], _SPEC.child("podGroupTemplates")
    if not equal_ignoring_empty(templates, before.get("podGroupTemplates")):
        errors.append(invalid(path, None, IMMUTABLE))
        errors += _template_count(templates, path)
    return errors


def _controller(spec: Obj, check_group: Callable[[str, Path], Errors]) -> Errors:
    reference, path = spec.get("controllerRef"), _SPEC.child("controllerRef")
    if reference is None:
        return []
    errors = check_group(reference["apiGroup"], path.child("apiGroup")) if reference.get("apiGroup") else []
    for name in ("kind", "name"):
        value, here = reference.get(name, ""), path.child(name)
        errors += invalid_texts(path_segment_name(value, False), value, here) if value else [required(here)]
    return errors


def _template_count(templates: Sequence[Obj], path: Path) -> Errors:
    if not templates:
        return [required(path)]
    return [too_many(path, len(templates), _MAX_TEMPLATES)] if len(templates) > _MAX_TEMPLATES else []


def _templates(spec: Obj, ctx: Context) -> Errors:
    templates, path = spec.get("podGroupTemplates") or [], _SPEC.child("podGroupTemplates")
    if wrong := _template_count(templates, path):
        return wrong
    errors = _unique(templates, path, "PodGroupTemplate")
    for i, template in enumerate(templates):
        name, here = template.get("name", ""), path.index(i)
        errors += _short_name(name, here.child("name")) if name else [required(here.child("name"))]
        errors += _scheduling(template, here, ctx)
    return errors


def _first_workload(obj: Obj) -> Errors:
    """Check a Workload of 1.35, whose groups are parts of it (v1alpha1)."""
    spec, path = obj["spec"], _SPEC.child("podGroups")
    errors, groups = _controller(spec, subdomain), spec.get("podGroups") or []
    if not groups:
        return [*errors, required(path, "must have at least one item")]
    if len(groups) > _MAX_TEMPLATES:
        return [*errors, too_many(path, len(groups), _MAX_TEMPLATES)]
    names: set[str] = set()
    for i, group in enumerate(groups):
        name, here = group.get("name", ""), path.index(i).child("name")
        errors += invalid_texts(label_name(name, False), name, here)
        errors += [duplicate(here, name)] if name in names else []
        names.add(name)
        errors += _first_policy(group.get("policy") or {}, path.index(i).child("policy"))
    return errors


def _first_policy(policy: Obj, path: Path) -> Errors:
    present = [f"`{name}`" for name in ("basic", "gang") if policy.get(name) is not None]
    text = "exactly one of `basic`, `gang` is required"
    if not present:
        return [required(path, text)]
    if len(present) > 1:
        return [invalid(path, f"{{{', '.join(present)}}}", f"{text}, but multiple fields are set")]
    count = (policy.get("gang") or {"minCount": 1}).get("minCount", 0)
    return [] if count > 0 else [invalid(path.child("gang", "minCount"), count, "must be greater than zero")]


def _first_changes(spec: Obj, before: Obj) -> Errors:
    errors: Errors = []
    types = {"controllerRef": "k8s.io/kubernetes/pkg/apis/scheduling.TypedLocalObjectReference"}
    types["podGroups"] = "[]k8s.io/kubernetes/pkg/apis/scheduling.PodGroup"
    for name, go_type in types.items():
        stored = before.get(name)
        if stored is not None and not equal_ignoring_empty(spec.get(name), stored):
            bad_value = Typed.of_field(spec, name, go_type)
            errors.append(invalid(Path(name), None if bad_value.value is None else bad_value, IMMUTABLE))
    return errors
