"""Optional values: `a.?b`, `a[?b]`, `optional.of(x)`, `x.orValue(y)` (`OptionalTypes` in cel-go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.values import NONE, Optional, Value


def _of_non_zero(value: Value) -> Optional:
    """Return a value as an optional, `NONE` for the zero value of its type."""
    if isinstance(value, Optional):
        return NONE if value is NONE else Optional(value)
    zero = value is None or value is False or (isinstance(value, (int, float, str, bytes, list, dict)) and not value)
    return NONE if zero or getattr(value, "nanos", 1) == 0 else Optional(value)


def _value(optional: Optional) -> Value:
    """Return the value of an optional. Raises `EvaluationError` if it has none."""
    if optional is NONE:
        raise EvaluationError("optional.none() dereference")
    return optional.value


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda optional: optional is not NONE,
}
