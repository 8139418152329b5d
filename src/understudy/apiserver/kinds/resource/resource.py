"""The kinds of resource.k8s.io (Dynamic Resource Allocation): defaults, strategies, conversions, field labels, table
cells.

`admission.validation.resource` validates the objects. Disabled fields are dropped before validation, unless the stored
object uses the feature already (KEP-4381).

On update the real server validates most of an object two or three times, and clients count the causes of a Status, so
`validate_update` repeats the same checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from understudy.admission.context import Context
from understudy.admission.validation.compose import Check, Update, all_of, as_on_create
from understudy.admission.validation.objectmeta import CORE, IMMUTABLE
from understudy.admission.validation.resource import deviceclass, podschedulingcontext, resourceslice
from understudy.admission.validation.resource.claims import resourceclaim, resourceclaimtemplate
from understudy.admission.validation.resource.claims.devices import EXACT_COUNT
from understudy.admission.validation.resource.equality import semantic_deep_equal
from understudy.admission.validation.resource.release_rules import ReleaseRules
from understudy.apiserver.kinds.common import RESET_FOR_STATUS, SPEC_RESET, STATUS_RESET, copy_stored
from understudy.apiserver.kinds.printers import age
from understudy.apiserver.kinds.resource import conversions, disabled_fields
from understudy.apiserver.registry.kind import Behavior, Strategy
from understudy.machinery.quantity import parse
from understudy.machinery.releases.version import V1_32, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid

SPEC, STATUS = Path("spec"), Path("status")

ValidateSpec = Callable[[Obj, Path, ReleaseRules], Errors]


class ValidateFixedSpec(Protocol):
    """Validate a spec that cannot be changed; `stored`: it was stored before."""

    def __call__(self, spec: Obj, path: Path, rules: ReleaseRules, stored: bool = False, /) -> Errors: ...


def behaviors(release: Version) -> dict[str, Behavior]:
    """Return the behaviour of the kinds that a release has, by name."""
    kinds = {
        "ResourceClaim": replace(_CLAIM, table_row=_claim_row(ReleaseRules.of(release))),
        "ResourceClaimTemplate": _TEMPLATE,
        "DeviceClass": _CLASS,
        "ResourceSlice": replace(_SLICE, conversions=conversions.SLICE[release]),
    }
    if release < V1_32:
        kinds["PodSchedulingContext"] = _SCHEDULING
    return kinds


# --- shared by the kinds ----------------------------------------------------------------------------------------------


def _spec(validate: ValidateSpec) -> Check:
    """Return a check of the spec of a new object."""
    return lambda obj, ctx: validate(obj["spec"], SPEC, ReleaseRules.in_force(ctx))


def _update_fixed(validate: ValidateFixedSpec, shown: Callable[[Obj, ReleaseRules], Typed]) -> Update:
    """Return the check of updates of a kind whose spec cannot be changed; `shown` is a spec as errors show it."""

    def unchanged(obj: Obj, old: Obj, ctx: Context) -> Errors:
        rules = ReleaseRules.in_force(ctx)
        equal = semantic_deep_equal(obj["spec"], old["spec"])
        errors = [] if equal else [invalid(SPEC, shown(obj["spec"], rules), IMMUTABLE)]
        return errors + validate(obj["spec"], SPEC, rules, True)

    return all_of(as_on_create(CORE.created, _spec(validate)), CORE.updated, unchanged)


def _keep_status(obj: Obj, old: Obj) -> None:
    """Keep the stored status."""
    copy_stored(obj, old, "status")


def _keep_all_but_status(obj: Obj, old: Obj) -> None:
    """Keep the stored spec, and the stored metadata that a status update cannot change."""
    copy_stored(obj, old, "spec")
    copy_stored(obj["metadata"], old["metadata"], *RESET_FOR_STATUS)


def _first_generation(obj: Obj) -> None:
    obj["metadata"]["generation"] = 1


def _next_generation(obj: Obj, old: Obj) -> None:
    obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


# --- ResourceClaim ----------------------------------------------------------------------------------------------------


def _default_requests(spec: Obj) -> None:
    """Set the defaults of device requests, in place: one device each."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        admin_access = request.pop("adminAccess", None)
        if not request.get("allocationMode"):
            request["allocationMode"] = EXACT_COUNT
        if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
            request["count"] = 1
        if admin_access is not None:
            request["adminAccess"] = admin_access  # the last field, as in Go


def _prepare_claim(obj: Obj, ctx: Context) -> None:
    """Prepare a new claim: empty its status, drop disabled fields."""
    obj["status"] = {}
    disabled_fields.drop_from_claim(obj, None, ctx)


def _prepare_claim_update(obj: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated claim: keep its status, drop disabled fields."""
    _keep_status(obj, old)
    disabled_fields.drop_from_claim(obj, old, ctx)


def _prepare_claim_status(obj: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an update of a claim's status."""
    _keep_all_but_status(obj, old)
    disabled_fields.drop_deallocated(obj, old, ctx)
    disabled_fields.drop_from_claim(obj, old, ctx)


def _claim_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourceclaim.validate_status(obj, old, STATUS, ReleaseRules.in_force(ctx))


def _claim_row(rules: ReleaseRules) -> Callable[[Obj, float], list[Any]]:
    return lambda obj, now: [obj["metadata"]["name"], resourceclaim.state(obj, rules), age(obj, now)]


_CLAIM = Behavior(
    conversions=conversions.CLAIM,
    defaults=lambda obj, ctx: _default_requests(obj["spec"]),
    strategy=Strategy(
        prepare_for_create=_prepare_claim,
        prepare_for_update=_prepare_claim_update,
        validate=_spec(resourceclaim.validate_spec),
        validate_update=_update_fixed(resourceclaim.validate_spec, resourceclaim.shown),
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=_prepare_claim_status,
        validate_update=all_of(CORE.updated, _claim_status),
        reset_fields=SPEC_RESET,
    ),
    delete_returns_object=True,
)


# --- ResourceClaimTemplate --------------------------------------------------------------------------------------------

_TEMPLATE = Behavior(
    conversions=conversions.TEMPLATE,
    defaults=lambda obj, ctx: _default_requests(obj["spec"].get("spec") or {}),
    strategy=Strategy(
        prepare_for_create=lambda obj, ctx: disabled_fields.drop_from_template(obj, None, ctx),
        prepare_for_update=lambda obj, old, ctx: disabled_fields.drop_from_template(obj, old, ctx),
        validate=_spec(resourceclaimtemplate.validate_spec),
        validate_update=_update_fixed(resourceclaimtemplate.validate_spec, resourceclaimtemplate.shown),
    ),
    delete_returns_object=True,
)


# --- DeviceClass ------------------------------------------------------------------------------------------------------

_class_spec = _spec(deviceclass.validate_spec)


def _prepare_class(obj: Obj, ctx: Context) -> None:
    _first_generation(obj)
    disabled_fields.drop_from_class(obj, None, ctx)


def _prepare_class_update(obj: Obj, old: Obj, ctx: Context) -> None:
    disabled_fields.drop_from_class(obj, old, ctx)
    if not semantic_deep_equal(obj["spec"], old["spec"]):
        _next_generation(obj, old)


def _class_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return deviceclass.validate_spec(obj["spec"], SPEC, ReleaseRules.in_force(ctx), old["spec"])


_CLASS = Behavior(
    strategy=Strategy(
        prepare_for_create=_prepare_class,
        prepare_for_update=_prepare_class_update,
        validate=_class_spec,
        validate_update=all_of(as_on_create(CORE.created, _class_spec), CORE.updated, _class_changes),
    ),
    delete_returns_object=True,
)


# --- ResourceSlice ----------------------------------------------------------------------------------------------------


def _capacity_amounts(devices: list[Obj]) -> list[Obj]:
    """Return devices with their capacities as amounts, to compare them: 1000m equals 1."""
    return [
        {**device, "capacity": {name: parse(capacity["value"]) for name, capacity in device["capacity"].items()}}
        if device.get("capacity")
        else device
        for device in devices
    ]


def _prepare_slice_update(obj: Obj, old: Obj, ctx: Context) -> None:
    """Count the generation of a slice whose spec has changed; capacities that are equal amounts are no change."""
    new, before = (
        {**spec, "devices": _capacity_amounts(spec.get("devices") or [])} for spec in (obj["spec"], old["spec"])
    )
    if not semantic_deep_equal(obj["spec"], old["spec"]) and not semantic_deep_equal(new, before):
        _next_generation(obj, old)


def _slice_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourceslice.validate_spec(obj["spec"], SPEC, ReleaseRules.in_force(ctx), old["spec"])


def _slice_row(obj: Obj, now: float) -> list[Any]:
    spec = obj["spec"]
    return [obj["metadata"]["name"], spec.get("nodeName", ""), spec["driver"], spec["pool"]["name"], age(obj, now)]


_SLICE = Behavior(
    strategy=Strategy(
        prepare_for_create=lambda obj, ctx: _first_generation(obj),
        prepare_for_update=_prepare_slice_update,
        validate=_spec(resourceslice.validate_spec),
        validate_update=all_of(CORE.updated, _slice_changes),
    ),
    selectable={
        "spec.nodeName": lambda obj: str(obj["spec"].get("nodeName", "")),
        "spec.driver": lambda obj: str(obj["spec"].get("driver", "")),
    },
    unknown_field="field label not supported for {api_version}, Kind={kind}: {label}",
    table_row=_slice_row,
    delete_returns_object=True,
)


# --- PodSchedulingContext (1.31) --------------------------------------------------------------------------------------

_scheduling_spec = _spec(podschedulingcontext.validate_spec)
_whole_scheduling = as_on_create(CORE.created, _scheduling_spec)


def _prepare_scheduling(obj: Obj, ctx: Context) -> None:
    obj["status"] = {}


def _scheduling_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return podschedulingcontext.validate_status(obj.get("status") or {}, STATUS, ReleaseRules.in_force(ctx))


_SCHEDULING = Behavior(
    strategy=Strategy(
        prepare_for_create=_prepare_scheduling,
        prepare_for_update=lambda obj, old, ctx: _keep_status(obj, old),
        validate=_scheduling_spec,
        validate_update=all_of(_whole_scheduling, CORE.updated, _whole_scheduling),
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=lambda obj, old, ctx: _keep_all_but_status(obj, old),
        validate_update=all_of(CORE.updated, _scheduling_status),
        reset_fields=SPEC_RESET,
    ),
    table_row=lambda obj, now: [obj["metadata"]["name"], obj["spec"].get("selectedNode", ""), age(obj, now)],
    delete_returns_object=True,
)
