"""resource.k8s.io, Dynamic Resource Allocation: how its kinds are written, converted, selected and shown.

Which objects are valid is said in `admission.resource`. Fields behind a feature gate are dropped before validation
while the gate is off, unless the stored object uses the feature already (KEP-4381).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from understudy.admission import meta
from understudy.admission.field import Errors, Path
from understudy.admission.resource import (
    deviceclass,
    gated,
    podschedulingcontext,
    resourceclaim,
    resourceclaimtemplate,
    resourceslice,
)
from understudy.admission.resource.devices import EXACT_COUNT
from understudy.admission.resource.equality import same
from understudy.admission.resource.limits import Limits
from understudy.apiserver.kind import Context, Conversion, Rules, Strategy
from understudy.apiserver.kinds.common import SPEC_RESET, STATUS_RESET, restore
from understudy.apiserver.printing import age
from understudy.apiserver.quantity import parse
from understudy.apiserver.types import Obj

SPEC, STATUS = Path("spec"), Path("status")

# What a write of the status leaves as it is.
_OUTSIDE_STATUS = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def rules(release: str) -> dict[str, Rules]:
    """The rules of the kinds that a release has, by name."""
    internal, alpha = _VERSIONS[release]
    slices = {"v1alpha3": Conversion(_capacity_values, _capacity_quantities)} if alpha else {}
    found = {
        "ResourceClaim": replace(_CLAIM, internal=internal, row=_claim_row(Limits.of(release))),
        "ResourceClaimTemplate": replace(_TEMPLATE, internal=internal),
        "DeviceClass": replace(_CLASS, internal=internal),
        "ResourceSlice": replace(_SLICE, internal=internal, conversions=slices),
    }
    if release == "1.31":
        found["PodSchedulingContext"] = replace(_SCHEDULING, internal=internal)
    return found


# The version whose form is the internal one, and whether v1alpha3 differs from it.
_VERSIONS = {"1.31": ("v1alpha3", False), "1.32": ("v1beta1", True)}


# --- metadata -----------------------------------------------------------------------------------------------------


def _created(obj: Obj, ctx: Context) -> Errors:
    """What kinds ask of the metadata besides what the registry validates."""
    return meta.finalizer_names(obj["metadata"])


def _validated_again(obj: Obj, ctx: Context, namespaced: bool) -> Errors:
    return meta.validate(obj["metadata"], namespaced=namespaced, release=ctx.release) + _created(obj, ctx)


def _replaced(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return [*meta.validate_update(obj["metadata"], old["metadata"], release=ctx.release), *_created(obj, ctx)]


def _keep_outside_status(obj: Obj, old: Obj) -> None:
    restore(obj, old, "spec")
    restore(obj["metadata"], old["metadata"], *_OUTSIDE_STATUS)


def _first_generation(obj: Obj) -> None:
    obj["metadata"]["generation"] = 1


def _next_generation(obj: Obj, old: Obj, changed: bool) -> None:
    if changed:
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# --- ResourceClaim ------------------------------------------------------------------------------------------------


def _default_claim(obj: Obj, ctx: Context) -> None:
    _default_requests(obj["spec"])


def _default_template(obj: Obj, ctx: Context) -> None:
    _default_requests(obj["spec"].get("spec") or {})


def _default_requests(spec: Obj) -> None:
    """One device each, unless the request says otherwise."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        admin_access = request.pop("adminAccess", None)
        if not request.get("allocationMode"):
            request["allocationMode"] = EXACT_COUNT
        if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
            request["count"] = 1
        if admin_access is not None:
            request["adminAccess"] = admin_access  # the last one, as in Go


def _prepare_claim(obj: Obj, ctx: Context) -> None:
    obj["status"] = {}
    gated.drop_from_claim(obj, None, ctx.gates)


def _prepare_claim_update(obj: Obj, old: Obj, ctx: Context) -> None:
    restore(obj, old, "status")
    gated.drop_from_claim(obj, old, ctx.gates)


def _prepare_claim_status(obj: Obj, old: Obj, ctx: Context) -> None:
    _keep_outside_status(obj, old)
    gated.drop_deallocated(obj, old, ctx.gates)
    gated.drop_from_claim(obj, old, ctx.gates)


def _validate_claim(obj: Obj, ctx: Context) -> Errors:
    return _created(obj, ctx) + resourceclaim.validate_spec(obj["spec"], SPEC, Limits.of(ctx.release))


def _validate_claim_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    limits = Limits.of(ctx.release)
    return [
        *_validated_again(obj, ctx, namespaced=True),
        *resourceclaim.validate_spec(obj["spec"], SPEC, limits),
        *_replaced(obj, old, ctx),
        *resourceclaim.validate_unchanged(obj["spec"], old["spec"], resourceclaim.SPEC, SPEC, limits),
        *resourceclaim.validate_spec(obj["spec"], SPEC, limits.stored),
    ]


def _validate_claim_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return _replaced(obj, old, ctx) + resourceclaim.validate_status(obj, old, STATUS, Limits.of(ctx.release))


def _claim_row(limits: Limits) -> Callable[[Obj], list[Any]]:
    return lambda obj: [obj["metadata"]["name"], resourceclaim.state(obj, limits), age(obj)]


_CLAIM = Rules(
    defaults=_default_claim,
    strategy=Strategy(
        prepare_for_create=_prepare_claim,
        prepare_for_update=_prepare_claim_update,
        validate=_validate_claim,
        validate_update=_validate_claim_update,
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=_prepare_claim_status,
        validate_update=_validate_claim_status,
        reset_fields=SPEC_RESET,
    ),
    deleted=True,
)


# --- ResourceClaimTemplate ----------------------------------------------------------------------------------------


def _prepare_template(obj: Obj, ctx: Context) -> None:
    gated.drop_from_template(obj, None, ctx.gates)


def _prepare_template_update(obj: Obj, old: Obj, ctx: Context) -> None:
    gated.drop_from_template(obj, old, ctx.gates)


def _validate_template(obj: Obj, ctx: Context) -> Errors:
    return _created(obj, ctx) + resourceclaimtemplate.validate_spec(obj["spec"], SPEC, Limits.of(ctx.release))


def _validate_template_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    limits, spec = Limits.of(ctx.release), obj["spec"]
    return [
        *_validated_again(obj, ctx, namespaced=True),
        *resourceclaimtemplate.validate_spec(spec, SPEC, limits),
        *_replaced(obj, old, ctx),
        *resourceclaim.validate_unchanged(spec, old["spec"], resourceclaimtemplate.SPEC, SPEC, limits),
        *resourceclaimtemplate.validate_spec(spec, SPEC, limits.stored),
    ]


_TEMPLATE = Rules(
    defaults=_default_template,
    strategy=Strategy(
        prepare_for_create=_prepare_template,
        prepare_for_update=_prepare_template_update,
        validate=_validate_template,
        validate_update=_validate_template_update,
    ),
    deleted=True,
)


# --- DeviceClass --------------------------------------------------------------------------------------------------


def _prepare_class(obj: Obj, ctx: Context) -> None:
    _first_generation(obj)
    gated.drop_from_class(obj, None, ctx.gates)


def _prepare_class_update(obj: Obj, old: Obj, ctx: Context) -> None:
    gated.drop_from_class(obj, old, ctx.gates)
    _next_generation(obj, old, not same(obj["spec"], old["spec"]))


def _validate_class(obj: Obj, ctx: Context) -> Errors:
    return _created(obj, ctx) + deviceclass.validate_spec(obj["spec"], SPEC, Limits.of(ctx.release))


def _validate_class_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    limits = Limits.of(ctx.release)
    unchanged = same(obj["spec"].get("config"), old["spec"].get("config"))
    return [
        *_validated_again(obj, ctx, namespaced=False),
        *deviceclass.validate_spec(obj["spec"], SPEC, limits),
        *_replaced(obj, old, ctx),
        *deviceclass.validate_spec(obj["spec"], SPEC, limits.stored if unchanged else limits),
    ]


_CLASS = Rules(
    strategy=Strategy(
        prepare_for_create=_prepare_class,
        prepare_for_update=_prepare_class_update,
        validate=_validate_class,
        validate_update=_validate_class_update,
    ),
    deleted=True,
)


# --- ResourceSlice ------------------------------------------------------------------------------------------------


def _converted_capacity(convert: Callable[[Any], Any]) -> Callable[[Obj], Obj]:
    """Slices with another form of their devices' capacities."""

    def basic(device: Obj) -> Obj:
        capacity = {name: convert(value) for name, value in device["capacity"].items()}
        return {**device, "capacity": capacity}

    def device(found: Obj) -> Obj:
        return {**found, "basic": basic(found["basic"])} if (found.get("basic") or {}).get("capacity") else found

    def slice_(obj: Obj) -> Obj:
        devices = obj["spec"].get("devices")
        return {**obj, "spec": {**obj["spec"], "devices": list(map(device, devices))}} if devices else {**obj}

    return slice_


_capacity_values = _converted_capacity(lambda quantity: {"value": quantity})
_capacity_quantities = _converted_capacity(lambda capacity: capacity["value"])
_compared = _converted_capacity(lambda capacity: parse(capacity["value"] if isinstance(capacity, dict) else capacity))


def _amounts(obj: Obj) -> Obj:
    """The spec with capacities that can be compared: 1000m is 1."""
    spec: Obj = _compared(obj)["spec"]
    return spec


def _prepare_slice(obj: Obj, ctx: Context) -> None:
    _first_generation(obj)


def _prepare_slice_update(obj: Obj, old: Obj, ctx: Context) -> None:
    _next_generation(obj, old, not same(_amounts(obj), _amounts(old)))


def _validate_slice(obj: Obj, ctx: Context) -> Errors:
    return _created(obj, ctx) + resourceslice.validate_spec(obj["spec"], None, SPEC, Limits.of(ctx.release))


def _validate_slice_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    found = resourceslice.validate_spec(obj["spec"], old["spec"], SPEC, Limits.of(ctx.release))
    return _replaced(obj, old, ctx) + found


def _slice_row(obj: Obj) -> list[Any]:
    spec = obj["spec"]
    return [obj["metadata"]["name"], spec.get("nodeName", ""), spec["driver"], spec["pool"]["name"], age(obj)]


_SLICE = Rules(
    strategy=Strategy(
        prepare_for_create=_prepare_slice,
        prepare_for_update=_prepare_slice_update,
        validate=_validate_slice,
        validate_update=_validate_slice_update,
    ),
    selectable={
        "spec.nodeName": lambda obj: str(obj["spec"].get("nodeName", "")),
        "spec.driver": lambda obj: str(obj["spec"].get("driver", "")),
    },
    unknown_field="field label not supported for {api_version}, Kind={kind}: {label}",
    row=_slice_row,
    deleted=True,
)


# --- PodSchedulingContext (1.31) ----------------------------------------------------------------------------------


def _prepare_scheduling(obj: Obj, ctx: Context) -> None:
    obj["status"] = {}


def _prepare_scheduling_update(obj: Obj, old: Obj, ctx: Context) -> None:
    restore(obj, old, "status")


def _prepare_scheduling_status(obj: Obj, old: Obj, ctx: Context) -> None:
    _keep_outside_status(obj, old)


def _validate_scheduling(obj: Obj, ctx: Context) -> Errors:
    return _created(obj, ctx) + podschedulingcontext.validate_spec(obj["spec"], SPEC, Limits.of(ctx.release))


def _validate_scheduling_update(obj: Obj, old: Obj, ctx: Context) -> Errors:
    # All of it twice, with what is new for updates between.
    found = _validated_again(obj, ctx, namespaced=True)
    found += podschedulingcontext.validate_spec(obj["spec"], SPEC, Limits.of(ctx.release))
    return [*found, *_replaced(obj, old, ctx), *found]


def _validate_scheduling_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    found = podschedulingcontext.validate_status(obj.get("status") or {}, STATUS, Limits.of(ctx.release))
    return _replaced(obj, old, ctx) + found


def _scheduling_row(obj: Obj) -> list[Any]:
    return [obj["metadata"]["name"], obj["spec"].get("selectedNode", ""), age(obj)]


_SCHEDULING = Rules(
    strategy=Strategy(
        prepare_for_create=_prepare_scheduling,
        prepare_for_update=_prepare_scheduling_update,
        validate=_validate_scheduling,
        validate_update=_validate_scheduling_update,
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=_prepare_scheduling_status,
        validate_update=_validate_scheduling_status,
        reset_fields=SPEC_RESET,
    ),
    row=_scheduling_row,
    deleted=True,
)
