"""The list library of Kubernetes: `sum`, `min`, `max`, `isSorted`, `indexOf`, `lastIndexOf`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from understudy.cel.ast import UnsignedInt
from understudy.cel.errors import EvaluationError
from understudy.cel.library.operators import FUNCTIONS as OPERATORS
from understudy.cel.values import Duration, Value, equal, is_number


def _is_greater(one: Value, other: Value) -> bool:
    """Report whether a value is greater than another; values that cannot be compared are not."""
    comparable = type(one) is type(other) or (is_number(one) and is_number(other))
    return comparable and not isinstance(one, (list, dict)) and bool(one > other)


def _is_sorted(values: list[Value]) -> bool:
    return not any(_is_greater(one, other) for one, other in pairwise(values))


def _extreme(name: str, better: Callable[[Value, Value], bool]) -> Callable[[list[Value]], Value]:
    """Return the function that picks the smallest or the largest element; the first one if several are equal."""

    def pick(values: list[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if better(value, best):
                best = value
        return best

    return pick


def _sum(add: str, zero: Value) -> Callable[[list[Value]], Value]:
    """Return the function that adds up elements, given the overload of `+` and the sum of no elements."""

    def total(values: list[Value]) -> Value:
        result = zero
        for value in values:
            if type(value) is not type(zero):
                raise EvaluationError("no such overload")
            result = OPERATORS[add](result, value)
        return result

    return total


def _index_of(values: list[Value], element: Value) -> int:
    return next((index for index, value in enumerate(values) if equal(value, element)), -1)


def _last_index_of(values: list[Value], element: Value) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if equal(values[index], element)), -1)


_KINDS = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]
_MIN = _extreme("min", lambda one, other: _is_greater(other, one))
_MAX = _extreme("max", _is_greater)

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _KINDS},
    **{f"list_{kind}_min_{kind}": _MIN for kind in _KINDS},
    **{f"list_{kind}_max_{kind}": _MAX for kind in _KINDS},
    "list_int_sum_int": _sum("add_int64", 0),
    "list_uint_sum_uint": _sum("add_uint64", UnsignedInt(0)),
    "list_double_sum_double": _sum("add_double", 0.0),
    "list_duration_sum_duration": _sum("add_duration_duration", Duration(0)),
}
