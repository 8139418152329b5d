"""Validation of ResourceClaim: spec and status, and the State column (KEP-4381, KEP-5018, KEP-4817)."""

from __future__ import annotations

from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.resource.claims import allocation, devices, devicestatus
from understudy.kinds.resource.common import identifiers
from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

SPEC = "k8s.io/kubernetes/pkg/apis/resource.ResourceClaimSpec"
ALLOCATION = "k8s.io/kubernetes/pkg/apis/resource.AllocationResult"
CONSUMER = ("apiGroup", "resource", "name", "uid")


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, stored: bool = False) -> Errors:
    """Check the spec of a claim or of a template (upstream: `validateResourceClaimSpec`).

    stored  whether the spec is unchanged since it was stored
    """
    errors = devices.validate(spec.get("devices") or {}, path.child("devices"), rules, stored)
    if controller := spec.get("controller"):
        errors += identifiers.driver(controller, path.child("controller"), rules)
    return errors


def shown(spec: Obj, rules: ReleaseRules) -> Typed:
    """Return the spec of a claim as errors show it."""
    return Typed(rules.shown_claim(spec), SPEC)


def validate_status(claim: Obj, old: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check a new status. Every rule reports for itself, in the real server's order."""
    status, old_status = claim.get("status") or {}, old.get("status") or {}
    return [
        *_consumers(status.get("reservedFor") or (), path.child("reservedFor"), rules),
        *devicestatus.validate(status, path.child("devices"), rules),
        *_reservation(claim, old_status, path.child("reservedFor")),
        *_allocation(claim, old_status, path.child("allocation"), rules),
        *_deallocation(status, old_status, path),
    ]


def _consumers(consumers: list[Obj] | tuple[Obj, ...], path: Path, rules: ReleaseRules) -> Errors:
    return validate_set(
        consumers, rules.reserved_for, _consumer, lambda consumer: consumer.get("uid", ""), path, rules, "uid"
    )


def _consumer(consumer: Obj, path: Path) -> Errors:
    return [required(path.child(name)) for name in ("resource", "name", "uid") if not consumer.get(name)]


def _reservation(claim: Obj, old: Obj, path: Path) -> Errors:
    status = claim.get("status") or {}
    consumers = status.get("reservedFor")
    if not consumers:
        return []
    if status.get("allocation") is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    ending = claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested")
    if ending and _identities(consumers) - _identities(old.get("reservedFor") or []):
        text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [forbidden(path, text)]
    return []


def _identities(consumers: list[Obj]) -> set[tuple[str, ...]]:
    return {tuple(consumer.get(name, "") for name in CONSUMER) for consumer in consumers}


def _allocation(claim: Obj, old: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check that an allocation is set once. A stored one is validated again only where the release does so."""
    result, before = (claim.get("status") or {}).get("allocation"), old.get("allocation")
    if result is None:
        return []
    errors: Errors = []
    if before is None or rules.revalidates:
        names = devices.request_names((claim.get("spec") or {}).get("devices") or {})
        errors += allocation.validate(result, path, names, rules)
    if before is not None and not semantic_deep_equal(result, before):
        errors.append(invalid(path, Typed(result, ALLOCATION), IMMUTABLE))
    return errors


def _deallocation(status: Obj, old: Obj, path: Path) -> Errors:
    """Check the request to deallocate (1.31), which needs an allocation that is not in use and cannot be withdrawn."""
    asked, before = bool(status.get("deallocationRequested")), bool(old.get("deallocationRequested"))
    allocated = status.get("allocation") is not None
    where = path.child("deallocationRequested")
    errors: Errors = []
    if asked and not before and status.get("reservedFor"):
        errors.append(forbidden(where, "deallocation cannot be requested while `reservedFor` is set"))
    if asked and not allocated:
        errors.append(forbidden(path, "`allocation` must be set when `deallocationRequested` is set"))
    if before and not asked and allocated:
        errors.append(forbidden(where, "may not be cleared when `allocation` is set"))
    return errors


def state(claim: Obj, rules: ReleaseRules) -> str:
    """Return the State column of a claim, such as "allocated,reserved"."""
    status = claim.get("status") or {}
    ending = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if ending else []
    if status.get("allocation") is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if status.get("reservedFor"):
        states.append("reserved")
    elif rules.shows_deallocating and (ending or status.get("deallocationRequested")):
        states.append("deallocating")
    return ",".join(states)
