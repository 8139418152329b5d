"""Validation of leases."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.formats import invalid_texts, nonnegative
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, not_supported
from understudy.machinery.validation.names import qualified_name_texts

_SPEC = Path("spec")
_STRATEGIES = ("OldestEmulationVersion",)


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a lease (upstream: `ValidateLease`)."""
    spec = obj.get("spec") or {}
    seconds, strategy = spec.get("leaseDurationSeconds"), spec.get("strategy")
    errors: Errors = []
    if seconds is not None and seconds <= 0:
        errors.append(invalid(_SPEC.child("leaseDurationSeconds"), seconds, "must be greater than 0"))
    errors += nonnegative(spec.get("leaseTransitions"), _SPEC.child("leaseTransitions"))
    if strategy is not None:
        errors += _strategy(strategy, _SPEC.child("strategy", "strategy"))
    if spec.get("preferredHolder") and not strategy:
        text = "may only be specified if `strategy` is defined"
        errors.append(forbidden(_SPEC.child("preferredHolder"), text))
    return errors


def _strategy(value: str, path: Path) -> Errors:
    if "/" in value:
        return invalid_texts(qualified_name_texts(value), value, path)
    return [] if value in _STRATEGIES else [not_supported(path, value, _STRATEGIES)]
