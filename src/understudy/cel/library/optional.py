"""Optional values: `a.?b`, `a[?b]`, `optional.of(x)`, `x.orValue(y)` (`OptionalTypes` in cel-go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.parser import macros
from understudy.cel.values import NONE, Optional, Value

MACROS = macros.OPTIONAL_MACROS
DECLARATIONS = """
_?._
    select_optional_field: (dyn, string) -> optional_type(V)
_[?_]
    list_optindex_optional_int: (list(V), int) -> optional_type(V)
    optional_list_optindex_optional_int: (optional_type(list(V)), int) -> optional_type(V)
    map_optindex_optional_value: (map(K, V), K) -> optional_type(V)
    optional_map_optindex_optional_value: (optional_type(map(K, V)), K) -> optional_type(V)
_[_]
    optional_list_index_int: (optional_type(list(V)), int) -> optional_type(V)
    optional_map_index_value: (optional_type(map(K, V)), K) -> optional_type(V)
hasValue
    optional_hasValue: optional_type(V).() -> bool
optional.none
    optional_none: () -> optional_type(V)
optional.of
    optional_of: (V) -> optional_type(V)
optional.ofNonZeroValue
    optional_ofNonZeroValue: (V) -> optional_type(V)
or
    optional_or_optional: optional_type(V).(optional_type(V)) -> optional_type(V)
orValue
    optional_orValue_value: optional_type(V).(V) -> V
value
    optional_value: optional_type(V).() -> V
"""


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
