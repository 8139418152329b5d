"""Validation of device taints, in slices and in DeviceTaintRules (KEP-5055)."""

from __future__ import annotations

from understudy.kinds.common.formats import invalid_texts, qualified
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, not_supported, required
from understudy.machinery.validation.names import label_value_texts


def validate(taint: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check one taint (upstream: `validateDeviceTaint`)."""
    value, effect = taint.get("value", ""), taint.get("effect", "")
    errors = qualified(taint.get("key", ""), path.child("key"))
    errors += invalid_texts(label_value_texts(value), value, path.child("value"))
    if not effect:
        errors.append(required(path.child("effect")))
    elif effect not in rules.taint_effects:
        errors.append(not_supported(path.child("effect"), effect, rules.taint_effects))
    return errors
