"""Label selectors, as they stand in specs."""

from __future__ import annotations

from understudy.admission.core.formats import each, labels, qualified
from understudy.admission.field import Errors, Path, forbidden, invalid, required
from understudy.admission.names import label_value_texts
from understudy.apiserver.types import Obj


def validate(selector: Obj | None, path: Path, *, any_values: bool = False) -> Errors:
    """A metav1.LabelSelector. `any_values` lets expressions have values that no label can have."""
    if selector is None:
        return []
    errors = labels(selector.get("matchLabels"), path.child("matchLabels"))
    where = path.child("matchExpressions")
    for i, item in enumerate(selector.get("matchExpressions") or ()):
        errors += _expression(item, where.index(i), any_values)
    return errors


def _expression(item: Obj, path: Path, any_values: bool) -> Errors:
    values, where = item.get("values") or [], path.child("values")
    errors: Errors = []
    match item.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                errors.append(required(where, "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                errors.append(forbidden(where, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
        case operator:
            errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    errors += qualified(item.get("key", ""), path.child("key"))
    if not any_values:
        for i, value in enumerate(values):
            errors += each(label_value_texts(value), value, where.index(i))
    return errors


def empty(selector: Obj | None) -> bool:
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def matches(selector: Obj | None, found: dict[str, str]) -> bool:
    """Whether labels meet a valid selector; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(item, found.get(item.get("key", ""))) for item in selector.get("matchExpressions") or ())


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
