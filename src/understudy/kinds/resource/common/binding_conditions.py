"""Validation of binding conditions: what a device must report before a pod that uses it is bound (KEP-5007)."""

from __future__ import annotations

from understudy.kinds.common.formats import qualified
from understudy.kinds.resource.common.each import duplicates, validate_list
from understudy.kinds.resource.common.release_rules import BINDING_CONDITIONS, ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid

_STRINGS = "[]string"


def validate(device: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check both lists of a device or of an allocation's result (upstream: `validateDeviceBindingParameters`)."""
    conditions, where = device.get("bindingConditions") or [], path.child("bindingConditions")
    failures, failures_at = device.get("bindingFailureConditions") or [], path.child("bindingFailureConditions")
    errors = [
        *validate_list(conditions, BINDING_CONDITIONS, qualified, where, rules),
        *validate_list(failures, BINDING_CONDITIONS, qualified, failures_at, rules),
        *duplicates(conditions, where),
    ]
    for i, failure in enumerate(failures):
        if failure in failures[:i]:
            errors.append(duplicate(failures_at.index(i), failure))
        if failure in conditions:
            text = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(failures_at.index(i), failure, text))
    if failures and not conditions:
        text = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(where, Typed.of_field(device, "bindingConditions", _STRINGS), text))
    if conditions and not failures:
        text = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(failures_at, Typed.of_field(device, "bindingFailureConditions", _STRINGS), text))
    return errors
