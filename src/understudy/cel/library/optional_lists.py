"""The functions that the second version of the optional library added: `first`, `last`, `optional.unwrap`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.library.string_format import format_value
from understudy.cel.values import NONE, Optional, Value


def _unwrap(values: list[Value]) -> list[Value]:
    """Return the values of the optionals that have one. Raises `EvaluationError` if an element is not optional."""
    for value in values:
        if not isinstance(value, Optional):
            raise EvaluationError(f"value {format_value(value)} is not optional")
    return [value.value for value in values if value is not NONE]


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "list_first": lambda values: Optional(values[0]) if values else NONE,
    "list_last": lambda values: Optional(values[-1]) if values else NONE,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
}
