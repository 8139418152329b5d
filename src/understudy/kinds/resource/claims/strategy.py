"""ResourceClaim and ResourceClaimTemplate: strategies, conversions, table cells. Their specs cannot be changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from understudy.kinds.common.compose import Update, all_of, as_on_create, until
from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import CORE, IMMUTABLE
from understudy.kinds.common.printers import age, name
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Strategy
from understudy.kinds.declarations.strategies import METADATA_RESET, SPEC_RESET, STATUS_RESET
from understudy.kinds.resource.claims import (
    adminaccess,
    defaults,
    disabled_fields,
    resourceclaim,
    resourceclaimtemplate,
    status_rights,
)
from understudy.kinds.resource.common import conversions
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.kinds.resource.common.strategies import SPEC, STATUS, check_spec, keep_all_but_status, keep_status
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid


class _ValidateSpec(Protocol):
    """Validate a spec; `stored`: it was stored before."""

    def __call__(self, spec: Obj, path: Path, rules: ReleaseRules, stored: bool = False, /) -> Errors: ...


def claim(version: Version) -> Behavior:
    """Return the behavior of ResourceClaim in a release."""
    status = replace(_CLAIM_STATUS, reset_fields=_RESET_BY_STATUS[version])
    return replace(_CLAIM, status=status, table_row=_claim_row(ReleaseRules.of(version)))


# --- specs that cannot be changed -------------------------------------------------------------------------------------


def _unchanged(shown: Callable[[Obj, ReleaseRules], Typed]) -> Update:
    """Return a check that the spec is the stored one; `shown` is a spec as errors show it."""

    def unchanged(obj: Obj, old: Obj, ctx: Context) -> Errors:
        if semantic_deep_equal(obj["spec"], old["spec"]):
            return []
        return [invalid(SPEC, shown(obj["spec"], ReleaseRules.of(ctx.release)), IMMUTABLE)]

    return unchanged


def _stored(validate: _ValidateSpec) -> Update:
    """Return a check of a spec as one that was stored before: if it was not, it has an error anyway."""
    return lambda obj, old, ctx: validate(obj["spec"], SPEC, ReleaseRules.in_force(ctx), True)


# --- ResourceClaim ----------------------------------------------------------------------------------------------------

_claim_spec = check_spec(resourceclaim.validate_spec)


def _prepare_claim(obj: Obj, ctx: Context) -> None:
    """Prepare a new claim: empty its status, drop disabled fields."""
    obj["status"] = {}
    disabled_fields.drop_from_claim(obj, None, ctx)


def _prepare_claim_update(obj: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an updated claim: keep its status, drop disabled fields."""
    keep_status(obj, old)
    disabled_fields.drop_from_claim(obj, old, ctx)


def _prepare_claim_status(obj: Obj, old: Obj, ctx: Context) -> None:
    """Prepare an update of a claim's status."""
    keep_all_but_status(obj, old)
    disabled_fields.drop_from_status(obj, old, ctx)


def _claim_metadata(obj: Obj, ctx: Context) -> Errors:
    namespace = obj["metadata"].get("namespace", "")
    return adminaccess.validate_requests(obj["spec"], namespace, ctx) + CORE.created(obj, ctx)


def _admin_results(obj: Obj, old: Obj, ctx: Context) -> Errors:
    namespace = obj["metadata"].get("namespace", "")
    return adminaccess.validate_results(obj.get("status") or {}, old.get("status") or {}, namespace, ctx)


def _claim_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    return resourceclaim.validate_status(obj, old, STATUS, ReleaseRules.in_force(ctx))


def _claim_row(rules: ReleaseRules) -> Callable[[Obj, float], list[Any]]:
    return lambda obj, now: [name(obj), resourceclaim.state(obj, rules), age(obj, now)]


_RESET_BY_STATUS = ByRelease[Mapping[str, tuple[tuple[str, ...], ...]]]({V1_35: METADATA_RESET, V1_31: SPEC_RESET})
_CLAIM_STATUS = Strategy(
    prepare_for_update=_prepare_claim_status,
    validate_update=all_of(_admin_results, status_rights.validate, CORE.updated, _claim_status),
)
_CLAIM = Behavior(
    conversions=conversions.CLAIM,
    defaults=defaults.default_claim,
    strategy=Strategy(
        prepare_for_create=_prepare_claim,
        prepare_for_update=_prepare_claim_update,
        validate_metadata=_claim_metadata,
        validate=_claim_spec,
        validate_update=all_of(
            as_on_create(CORE.created),
            until(V1_35, as_on_create(_claim_spec)),
            CORE.updated,
            _unchanged(resourceclaim.shown),
            until(V1_35, _stored(resourceclaim.validate_spec)),
        ),
        reset_fields=STATUS_RESET,
    ),
    delete_returns_object=True,
)


# --- ResourceClaimTemplate --------------------------------------------------------------------------------------------

_template_spec = check_spec(resourceclaimtemplate.validate_spec)


def _template_metadata(obj: Obj, ctx: Context) -> Errors:
    namespace = obj["metadata"].get("namespace", "")
    return adminaccess.validate_requests(obj["spec"].get("spec") or {}, namespace, ctx) + CORE.created(obj, ctx)


TEMPLATE = Behavior(
    conversions=conversions.TEMPLATE,
    defaults=defaults.default_template,
    strategy=Strategy(
        prepare_for_create=lambda obj, ctx: disabled_fields.drop_from_template(obj, None, ctx),
        prepare_for_update=lambda obj, old, ctx: disabled_fields.drop_from_template(obj, old, ctx),
        validate_metadata=_template_metadata,
        validate=_template_spec,
        validate_update=all_of(
            as_on_create(CORE.created, _template_spec),
            CORE.updated,
            _unchanged(resourceclaimtemplate.shown),
            until(V1_35, _stored(resourceclaimtemplate.validate_spec)),
        ),
    ),
    delete_returns_object=True,
)
