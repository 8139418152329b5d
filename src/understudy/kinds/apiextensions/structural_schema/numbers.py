"""Limits of numbers: multipleOf, minimum and maximum, and the ranges of number formats."""

from __future__ import annotations

import math
from collections.abc import Callable

from understudy.kinds.apiextensions.structural_schema.correlation import Correlation
from understudy.kinds.apiextensions.structural_schema.json_values import MAX_INT64, MIN_INT64
from understudy.kinds.apiextensions.structural_schema.result import Result
from understudy.machinery.golang.text import go_scalar
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import ErrorType

NumberCheck = Callable[[float, str, Result, Correlation | None], None]  # as `values.Check`
LimitCheck = Callable[[float, float, str, Result], None]
Misfit = Callable[[float, str], str]

_MAX_FLOAT32 = 3.4028235677973366e38  # what is as large rounds to infinity
_CHECKS_RANGE = ByRelease({V1_36: True, V1_31: False})


def is_whole(number: float) -> bool:
    """Report whether a number is an integer to go-openapi: up to 2**53, and within a trifle of a whole number."""
    if not abs(number) < 2**53:
        return False
    whole = math.trunc(number)
    return number == whole or (number > 1 and (number - whole) / (number + whole) < 1e-9)


def to_int64(number: float) -> int:
    """Return a float as Go converts it to an int64: one that does not fit becomes the smallest."""
    whole = math.trunc(number)
    return whole if MIN_INT64 <= whole <= MAX_INT64 else MIN_INT64


def compile_number(
    schema: Obj, types: tuple[str, ...], number_format: str, version: Version, *, integers: bool
) -> NumberCheck | None:
    """Return the check of numbers by a schema with these types, None if any number is fine.

    integers  whether the numbers are integers, which fit 64 bits
    """
    checks_range = _CHECKS_RANGE[version] and types in (("integer",), ("number",))
    misfit = _range_check(types[0], number_format) if checks_range else _fits_always
    all_fit = misfit is _fits_always or (integers and types == ("integer",) and number_format != "int32")
    limits = [
        _compile_limit(float(schema[name]), label, check, misfit)
        for name, label, check in (
            ("multipleOf", "MultipleOf", _multiple_of),
            ("minimum", "Minimum boundary", _minimum(bool(schema.get("exclusiveMinimum")))),
            ("maximum", "Maximum boundary", _maximum(bool(schema.get("exclusiveMaximum")))),
        )
        if schema.get(name) is not None
    ]
    if not limits and all_fit:
        return None

    def check_number(value: float, place: str, result: Result, old: Correlation | None) -> None:
        if not all_fit and (text := misfit(value, "Checked")):
            result.add_plain(text + place)
        for check_limit in limits:
            check_limit(value, place, result)

    return check_number


def _compile_limit(limit: float, label: str, check: LimitCheck, misfit: Misfit) -> Callable[[float, str, Result], None]:
    """Return the check of a limit. For an integer it is made an integer, too, unless it is none of the type itself."""
    outside, whole = misfit(limit, label), to_int64(limit)

    def check_limit(value: float, place: str, result: Result) -> None:
        if outside:
            result.add_plain(outside + place)
            check(float(value), limit, place, result)
        else:
            check(value, whole if isinstance(value, int) else limit, place, result)

    return check_limit


def _fits_always(value: float, label: str) -> str:
    return ""


def _range_check(kind: str, number_format: str) -> Misfit:
    """Return the check whether a number is within its type (since 1.36); it returns the text of the error without the
    place (upstream: `IsValueValidAgainstRange`)."""
    if kind == "number" and number_format != "float":
        return _fits_always
    bits = 31 if number_format == "int32" else 63
    is_own_format = number_format in (("float",) if kind == "number" else ("int32", "int64"))
    written = f"with format {number_format}" if is_own_format else "(default format)"

    def check(value: float, label: str) -> str:
        if kind == "number":
            fits = abs(value) < _MAX_FLOAT32
        else:
            fits = value == math.trunc(value) and -(2**bits) <= value < 2**bits
        return "" if fits else f"{label} value must be of type {kind} {written} in "

    return check


def _multiple_of(value: float, factor: float, place: str, result: Result) -> None:
    if factor <= 0:
        text = f"factor MultipleOf declared for {place} must be positive: {go_scalar(factor)}"
        result.add(ErrorType.INVALID, place, text, factor)
    elif not _is_multiple(value, factor):
        result.add_invalid(place, value, f"should be a multiple of {go_scalar(factor)}")


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int):
        return value % factor == 0
    return is_whole(1 / factor * value if factor < 1 else value / factor)


def _minimum(exclusive: bool) -> LimitCheck:
    bound = "greater than" if exclusive else "greater than or equal to"

    def check(value: float, limit: float, place: str, result: Result) -> None:
        if value < limit or (exclusive and value == limit):
            result.add_invalid(place, value, f"should be {bound} {go_scalar(limit)}")

    return check


def _maximum(exclusive: bool) -> LimitCheck:
    bound = "less than" if exclusive else "less than or equal to"

    def check(value: float, limit: float, place: str, result: Result) -> None:
        if value > limit or (exclusive and value == limit):
            result.add_invalid(place, value, f"should be {bound} {go_scalar(limit)}")

    return check
