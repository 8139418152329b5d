"""The operators, conversions and functions of CEL itself (cel-spec, "List of Standard Definitions")."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from understudy.cel.ast import UnsignedInt
from understudy.cel.errors import EvaluationError
from understudy.cel.library import operators
from understudy.cel.library.time import format_duration, format_timestamp, to_duration, to_timestamp
from understudy.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Value,
    conversion_error,
    in_range,
    type_of,
    unsigned_in_range,
)
from understudy.machinery.golang import regexp
from understudy.machinery.util.regex import regex

_INTEGER = regex(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = regex(r"[+-]?(?:inf|infinity|nan|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.ASCII | re.IGNORECASE)
_BOOLS = {
    **dict.fromkeys(["1", "t", "T", "TRUE", "true", "True"], True),
    **dict.fromkeys(["0", "f", "F", "FALSE", "false", "False"], False),
}


def _string_to_int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or len(text) > 40 or not INT_MIN <= int(text) <= INT_MAX:
        raise conversion_error(text, "int")
    return int(text)


def _string_to_uint(text: str) -> UnsignedInt:
    if not text.isascii() or not text.isdigit() or len(text) > 40 or int(text) > UINT_MAX:
        raise conversion_error(text, "uint")
    return UnsignedInt(int(text))


def _double_to_int(value: float) -> int:
    # The bounds are not exact in floating point, so cel-go refuses them, too.
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> UnsignedInt:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UnsignedInt(int(value))


def _string_to_double(text: str) -> float:
    number = float(text) if _DOUBLE.fullmatch(text) else None
    if number is None or (math.isinf(number) and text[-1] in "0123456789."):  # out of range
        raise conversion_error(text, "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise conversion_error(text, "bool")
    return _BOOLS[text]


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def _double_to_string(value: float) -> str:
    """Return the shortest decimal that reads back as the same value, as Go's `%g` prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    shortest = Decimal(repr(value))
    exponent = shortest.adjusted() if value else 0
    if -5 < exponent < 6:
        return f"{shortest:f}".removesuffix(".0")
    digits = "".join(map(str, shortest.as_tuple().digits)).rstrip("0")
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{exponent:+03d}"


def _matches(text: str, pattern: str) -> bool:
    try:
        return regexp.compile_pattern(pattern).search(text) is not None
    except regexp.PatternError as error:
        raise EvaluationError(str(error)) from None


def _identity(value: Value) -> Value:
    return value


def _size(value: Value) -> int:
    return len(value)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **operators.FUNCTIONS,
    "matches": _matches,
    "matches_string": _matches,
    "contains_string": lambda text, part: part in text,
    "starts_with_string": lambda text, part: text.startswith(part),
    "ends_with_string": lambda text, part: text.endswith(part),
    **dict.fromkeys(
        ["size_bytes", "bytes_size", "size_list", "list_size", "size_map", "map_size", "size_string", "string_size"],
        _size,
    ),
    **dict.fromkeys(
        [
            "bool_to_bool",
            "bytes_to_bytes",
            "double_to_double",
            "duration_to_duration",
            "int64_to_int64",
            "string_to_string",
            "timestamp_to_timestamp",
            "to_dyn",
            "uint64_to_uint64",
        ],
        _identity,
    ),
    "type": type_of,
    "string_to_bool": _string_to_bool,
    "string_to_bytes": lambda text: text.encode(),
    "bytes_to_string": _bytes_to_string,
    "string_to_double": _string_to_double,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_duration": to_duration,
    "duration_to_int64": lambda value: value.nanos,
    "double_to_int64": _double_to_int,
    "string_to_int64": _string_to_int,
    "timestamp_to_int64": lambda value: value.nanos // 10**9,
    "uint64_to_int64": lambda value: in_range(int(value)),
    "double_to_uint64": _double_to_uint,
    "int64_to_uint64": unsigned_in_range,
    "string_to_uint64": _string_to_uint,
    "int64_to_timestamp": to_timestamp,
    "string_to_timestamp": to_timestamp,
    "bool_to_string": lambda value: "true" if value else "false",
    "double_to_string": _double_to_string,
    "duration_to_string": format_duration,
    "int64_to_string": str,
    "timestamp_to_string": format_timestamp,
    "uint64_to_string": lambda value: str(int(value)),
}
