"""Checks of label selectors in specs."""

from __future__ import annotations

from understudy.kinds.common.formats import invalid_texts, labels, qualified
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required
from understudy.machinery.validation.names import label_value_texts


def validate(selector: Obj | None, path: Path, *, any_values: bool = False) -> Errors:
    """Check a metav1.LabelSelector (upstream: `ValidateLabelSelector`).

    `any_values` allows expressions with values that no label can have.
    """
    if selector is None:
        return []
    errors = labels(selector.get("matchLabels"), path.child("matchLabels"))
    where = path.child("matchExpressions")
    for i, item in enumerate(selector.get("matchExpressions") or ()):
        errors += requirement(item, where.index(i), any_values=any_values)
    return errors


def requirement(item: Obj, path: Path, *, any_values: bool = False, any_operator: bool = False) -> Errors:
    """Check one expression of a label selector (upstream: `ValidateLabelSelectorRequirement`)."""
    errors = operands(item, path, any_operator=any_operator) + qualified(item.get("key", ""), path.child("key"))
    if not any_values:
        for i, value in enumerate(item.get("values") or ()):
            errors += invalid_texts(label_value_texts(value), value, path.child("values").index(i))
    return errors


def operands(item: Obj, path: Path, *, any_operator: bool = False) -> Errors:
    """Check that an expression has values where its operator needs some. `any_operator` allows unknown ones."""
    values, where = item.get("values"), path.child("values")
    match item.get("operator", ""):
        case "In" | "NotIn":
            return [] if values else [required(where, "must be specified when `operator` is 'In' or 'NotIn'")]
        case "Exists" | "DoesNotExist":
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [forbidden(where, text)] if values else []
        case operator:
            text = "not a valid selector operator"
            return [] if any_operator else [invalid(path.child("operator"), operator, text)]


def empty(selector: Obj | None) -> bool:
    """Report whether a selector has no term at all."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def matches(selector: Obj | None, values: dict[str, str]) -> bool:
    """Report whether labels meet a valid selector. No selector selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(values.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(item, values.get(item.get("key", ""))) for item in selector.get("matchExpressions") or ())


def _meets(item: Obj, value: str | None) -> bool:
    values = item.get("values") or []
    match item.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
    return value is None
