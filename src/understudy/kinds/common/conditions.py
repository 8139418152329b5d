"""Validation of `metav1.Condition` where kinds use the common type (upstream: `ValidateConditions`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from understudy.machinery.releases.version import V1_31, V1_34, V1_37, ByRelease
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import TextByRelease
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, not_supported, required, too_long
from understudy.machinery.validation.names import condition_reason_texts, qualified_name_texts, size

STATUSES = ("False", "True", "Unknown")
REASON_LENGTH = 1024
MESSAGE_LENGTH = 32 * 1024


_MISSING = TextByRelease(ByRelease({V1_34: "", V1_31: "must be set"}))


def validate(conditions: Sequence[Obj], path: Path, *, missing: str | TextByRelease = _MISSING) -> Errors:
    """Check each condition, and that no two are of one type.

    missing  the detail of an error about a time or reason that is missing
    """
    errors: Errors = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        here, kind = path.index(i), condition.get("type", "")
        if kind in seen:
            errors.append(replace(duplicate(here.child("type"), kind), newer=(V1_37, duplicate(here, kind))))
        seen.add(kind)
        errors += _condition(condition, here, missing)
    return errors


def _condition(condition: Obj, path: Path, missing: str | TextByRelease) -> Errors:
    kind, status, generation = (condition.get(name) for name in ("type", "status", "observedGeneration"))
    errors = [invalid(path.child("type"), kind or "", text) for text in qualified_name_texts(kind or "")]
    if not kind:
        no_type = required(path.child("type"), "is required")
        errors = [replace(error, newer=(V1_37, no_type)) for error in errors]  # equal errors are reported once
    if status not in STATUSES:
        older = not_supported(path.child("status"), status or "", STATUSES)
        errors.append(older if status else replace(older, newer=(V1_37, required(path.child("status")))))
    if (generation or 0) < 0:
        errors.append(invalid(path.child("observedGeneration"), generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(path.child("lastTransitionTime"), missing))
    errors += _reason(condition.get("reason", ""), path.child("reason"), missing)
    if size(condition.get("message", "")) > MESSAGE_LENGTH:
        errors.append(too_long(path.child("message"), MESSAGE_LENGTH, in_bytes=True))
    return errors


def _reason(reason: str, path: Path, missing: str | TextByRelease) -> Errors:
    if not reason:
        return [required(path, missing)]
    errors = [invalid(path, reason, text) for text in condition_reason_texts(reason)]
    if size(reason) > REASON_LENGTH:
        errors.append(too_long(path, REASON_LENGTH, in_bytes=True))
    return errors
