"""The kinds of resource.k8s.io (Dynamic Resource Allocation): strategies, conversions, field labels, table cells.

The other modules of this folder validate the objects. Disabled fields are dropped before validation, unless the stored
object uses the feature already (KEP-4381).

On update older servers validate most of an object two or three times, and clients count the causes of a Status, so
`validate_update` repeats the same checks.
"""

from __future__ import annotations

from understudy.kinds.common.compose import all_of, as_on_create, until
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import CORE, created_with_declared_name
from understudy.kinds.common.printers import age, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import SPEC_RESET, STATUS_RESET
from understudy.kinds.resource import deviceclass, podschedulingcontext
from understudy.kinds.resource.claims import disabled_fields
from understudy.kinds.resource.claims import strategy as claims
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.kinds.resource.common.strategies import (
    SPEC,
    STATUS,
    check_spec,
    first_generation,
    keep_all_but_status,
    keep_status,
    next_generation,
)
from understudy.kinds.resource.slices import strategy as slices
from understudy.machinery.releases.version import V1_35, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors

GROUP = "resource.k8s.io"


def behaviors(version: Version) -> dict[tuple[str, str], Behavior]:
    """Return the behavior of each kind by (group, kind), those that the release does not have included."""
    rules = {
        "ResourceClaim": claims.claim(version),
        "ResourceClaimTemplate": claims.TEMPLATE,
        "DeviceClass": _CLASS,
        **slices.behaviors(version),
        "PodSchedulingContext": _SCHEDULING,
    }
    return {(GROUP, kind): behavior for kind, behavior in rules.items()}


# --- DeviceClass ------------------------------------------------------------------------------------------------------

_class_spec = check_spec(deviceclass.validate_spec)


def _prepare_class(obj: Obj, ctx: Context) -> None:
    first_generation(obj)
    disabled_fields.drop_from_class(obj, None, ctx)


def _prepare_class_update(obj: Obj, old: Obj, ctx: Context) -> None:
    disabled_fields.drop_from_class(obj, old, ctx)
    if not semantic_deep_equal(obj["spec"], old["spec"]):
        next_generation(obj, old)


def _class_changes(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return deviceclass.validate_spec(obj["spec"], SPEC, ReleaseRules.in_force(ctx), old["spec"])


_CLASS = Behavior(
    strategy=Strategy(
        prepare_for_create=_prepare_class,
        prepare_for_update=_prepare_class_update,
        validate_metadata=created_with_declared_name,
        validate=_class_spec,
        validate_update=all_of(
            as_on_create(created_with_declared_name),
            until(V1_35, as_on_create(_class_spec)),
            CORE.updated,
            _class_changes,
        ),
    ),
    delete_returns_object=True,
)


# --- PodSchedulingContext (1.31) --------------------------------------------------------------------------------------

_scheduling_spec = check_spec(podschedulingcontext.validate_spec)
_whole_scheduling = as_on_create(CORE.created, _scheduling_spec)


def _prepare_scheduling(obj: Obj, ctx: Context) -> None:
    obj["status"] = {}


def _scheduling_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return podschedulingcontext.validate_status(obj.get("status") or {}, STATUS, ReleaseRules.in_force(ctx))


_SCHEDULING = Behavior(
    strategy=Strategy(
        prepare_for_create=_prepare_scheduling,
        prepare_for_update=lambda obj, old, ctx: keep_status(obj, old),
        validate=_scheduling_spec,
        validate_update=all_of(_whole_scheduling, CORE.updated, _whole_scheduling),
        reset_fields=STATUS_RESET,
    ),
    status=Strategy(
        prepare_for_update=lambda obj, old, ctx: keep_all_but_status(obj, old),
        validate_update=all_of(CORE.updated, _scheduling_status),
        reset_fields=SPEC_RESET,
    ),
    table_row=lambda obj, now: [
        name(obj),
        nested_field(obj, "spec", "selectedNode", default=""),
        age(obj, now),
    ],
    delete_returns_object=True,
)
