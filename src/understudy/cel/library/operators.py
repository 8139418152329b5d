"""Arithmetic, comparison and membership: the functions of the operators that `standard` declares."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from understudy.cel.ast import UnsignedInt
from understudy.cel.errors import EvaluationError
from understudy.cel.library.shared_lists import concat
from understudy.cel.library.time import duration_in_range, timestamp_in_range
from understudy.cel.values import Value, equal, in_range, map_key, unsigned_in_range


def _divide(one: int, other: int) -> int:
    """Return the quotient rounded towards zero, as Go does; Python rounds down."""
    if other == 0:
        raise EvaluationError("division by zero")
    quotient = abs(int(one)) // abs(int(other))
    return in_range(quotient if (one < 0) is (other < 0) else -quotient)


def _modulo(one: int, other: int) -> int:
    """Return the remainder with the sign of the dividend, as in Go."""
    if other == 0:
        raise EvaluationError("modulus by zero")
    return int(math.copysign(1, one)) * (abs(one) % abs(other))


def _divide_unsigned(one: int, other: int) -> UnsignedInt:
    if other == 0:
        raise EvaluationError("division by zero")
    return UnsignedInt(int(one) // int(other))


def _modulo_unsigned(one: int, other: int) -> UnsignedInt:
    if other == 0:
        raise EvaluationError("modulus by zero")
    return UnsignedInt(int(one) % int(other))


def _divide_double(one: float, other: float) -> float:
    """Return the quotient; division by zero gives infinity or NaN, as IEEE 754 says."""
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _multiply_double(one: float, other: float) -> float:
    return one * other


def _not_equal(one: Value, other: Value) -> bool:
    """Report whether two values are different; those that cannot be compared are."""
    try:
        return not equal(one, other)
    except EvaluationError:
        return True


def _in_map(key: Value, entries: dict[object, Value]) -> bool:
    try:
        return map_key(key) in entries
    except TypeError:
        return False


def _unsigned(op: Callable[[int, int], int]) -> Callable[[int, int], UnsignedInt]:
    """Return the unsigned form of an operation on integers, which checks for overflow."""
    return lambda one, other: unsigned_in_range(op(int(one), int(other)))


def _number_comparison(compare: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    """Return a comparison of numbers of which one is a double. It raises `EvaluationError` for NaN."""

    def run(one: Value, other: Value) -> bool:
        if one != one or other != other:  # only NaN is not equal to itself
            raise EvaluationError("NaN values cannot be ordered")
        return compare(one, other)

    return run


_COMPARISONS: Mapping[str, Callable[[Value, Value], bool]] = {
    "less": operator.lt,
    "less_equals": operator.le,
    "greater": operator.gt,
    "greater_equals": operator.ge,
}
_COMPARED = ["bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration"]
_COMPARED += [f"{a}_{b}" for a in ("int64", "uint64", "double") for b in ("int64", "uint64", "double") if a != b]

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "logical_not": operator.not_,
    "equals": equal,
    "not_equals": _not_equal,
    "in_list": lambda value, values: any(equal(value, each) for each in values),
    "in_map": _in_map,
    "negate_int64": lambda value: in_range(-value),
    "negate_double": operator.neg,
    "add_int64": lambda one, other: in_range(one + other),
    "subtract_int64": lambda one, other: in_range(one - other),
    "multiply_int64": lambda one, other: in_range(one * other),
    "divide_int64": _divide,
    "modulo_int64": _modulo,
    "add_uint64": _unsigned(operator.add),
    "subtract_uint64": _unsigned(operator.sub),
    "multiply_uint64": _unsigned(operator.mul),
    "divide_uint64": _divide_unsigned,
    "modulo_uint64": _modulo_unsigned,
    "add_double": operator.add,
    "subtract_double": operator.sub,
    "multiply_double": _multiply_double,
    "divide_double": _divide_double,
    "add_string": operator.add,
    "add_bytes": operator.add,
    "add_list": concat,
    "add_duration_duration": lambda one, other: duration_in_range(one.nanos + other.nanos),
    "add_duration_timestamp": lambda one, other: timestamp_in_range(one.nanos + other.nanos, other.zone),
    "add_timestamp_duration": lambda one, other: timestamp_in_range(one.nanos + other.nanos, one.zone),
    "subtract_duration_duration": lambda one, other: duration_in_range(one.nanos - other.nanos),
    "subtract_timestamp_duration": lambda one, other: timestamp_in_range(one.nanos - other.nanos, one.zone),
    "subtract_timestamp_timestamp": lambda one, other: duration_in_range(one.nanos - other.nanos),
    **{
        f"{name}_{kind}": _number_comparison(compare) if "double" in kind else compare
        for name, compare in _COMPARISONS.items()
        for kind in _COMPARED
    },
}
