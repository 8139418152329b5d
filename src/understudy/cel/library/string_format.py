"""The formatting of `"…".format([…])`, for the validator and for the evaluation (`ext/formatting.go`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TypeVar

from understudy.cel.ast import UnsignedInt
from understudy.cel.errors import EvaluationError
from understudy.cel.library.standard import FUNCTIONS as STANDARD
from understudy.cel.library.time import format_duration, format_timestamp
from understudy.cel.limits.budget import LARGEST, check_size
from understudy.cel.limits.interrupts import current_meter
from understudy.cel.types import Type
from understudy.cel.values import Duration, Timestamp, Value, count_values, map_keys, type_name
from understudy.machinery.golang.text import go_quote, parse_int
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.util.regex import regex

Argument = TypeVar("Argument")

_CLAUSE_REQUIREMENTS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and"
    " timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
"""The error message of each clause for arguments of another type; it continues with `, was given <type>`."""

_PRECISION = regex(r"\.([0-9]*)", re.ASCII)
FormatArgument = Callable[[str, int | None, Argument], str]
"""Formats one argument: (clause, precision or None, argument) → text. Raises `EvaluationError`."""


def interpolate(text: str, args: Sequence[Argument], format_argument: FormatArgument[Argument]) -> tuple[str, int]:
    """Return the text with its clauses replaced by formatted arguments, and the number of arguments used.

    Raises `EvaluationError` for a clause that is invalid or has no argument.
    """
    out: list[str] = []
    used = pos = size = 0
    while (mark := text.find("%", pos)) >= 0:
        out.append(text[pos:mark])
        if text.startswith("%%", mark):
            out.append("%")
            pos = mark + 2
            continue
        if mark + 1 >= len(text) and used < len(args):
            raise EvaluationError("unexpected end of string")
        if used >= len(args):
            raise EvaluationError(f"index {used} out of range")
        clause, precision, pos = _parse_clause(text, mark + 1)
        try:
            out.append(format_argument(clause, precision, args[used]))
            size += len(out[-1])
            check_size(size)
        except EvaluationError as error:
            error.args = (f"error during formatting: {error}",)
            raise
        used += 1
    out.append(text[pos:])
    return "".join(out), used


def _parse_clause(text: str, pos: int) -> tuple[str, int | None, int]:
    """Return the clause at an offset after a percent sign, its precision or None, and the offset after it."""
    precision: int | None = None
    match = _PRECISION.match(text, pos)
    if match is not None:
        pos = match.end()
        if pos >= len(text):
            raise _clause_error("error while parsing precision: could not find end of precision specifier")
        try:
            precision = parse_int(match[1])
        except ValueError as error:
            reason = str(error).replace("ParseInt", "Atoi", 1)
            raise _clause_error(
                f"error while parsing precision: error while converting precision to integer: {reason}"
            ) from None
    clause = text[pos]
    if clause not in "sdfebxXo":
        raise _clause_error(f'unrecognized formatting clause "{clause}"')
    return clause, precision, pos + 1


def _clause_error(reason: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {reason}")


def argument_type_error(clause: str, given_type: str) -> EvaluationError:
    """Return the error for an argument whose type a clause does not accept."""
    return EvaluationError(f"{_CLAUSE_REQUIREMENTS[clause.lower()]}, was given {given_type}")


# The space around the multiplication sign of `%e`: Go's package `text` has none since 1.36.
_SPACE = ByRelease({V1_36: "", V1_31: "\u202f"})


def formatter(version: Version) -> Callable[[str, list[Value]], str]:
    """Return the function that makes the result of `text.format(args)` in a release."""
    space = _SPACE[version]

    def format_argument(clause: str, precision: int | None, value: Value) -> str:
        return _format_argument(clause, precision, value, space)

    return lambda text, args: interpolate(text, args, format_argument)[0]


def _format_argument(clause: str, precision: int | None, value: Value, space: str) -> str:
    kind = type(value)
    whole = kind is int or kind is UnsignedInt
    match clause:
        case "s":
            check_size(count_values(value, LARGEST))
            return format_value(value)
        case "d" if whole:
            return str(int(value))
        case "b" if whole or kind is bool:
            return f"{int(value):b}"
        case "o" if whole:
            return f"{int(value):o}"
        case "x" | "X":
            return _format_hex(clause, value)
        case "f" | "e" if kind is float or value in ("NaN", "Infinity", "-Infinity"):
            return _format_double(clause, 6 if precision is None else precision, float(value), space)
    raise argument_type_error(clause, type_name(value))


def _format_hex(clause: str, value: Value) -> str:
    match value:
        case bool():
            raise argument_type_error(clause, "bool")
        case int():
            text = f"{int(value):x}"
        case str():
            text = value.encode().hex()
        case bytes():
            text = value.hex()
        case _:
            raise argument_type_error(clause, type_name(value))
    return text.upper() if clause == "X" else text


def _format_double(clause: str, precision: int, value: float, space: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if precision // 10 > _MAX_PRECISION:
        return "%!(NOVERB)"
    value = value or 0.0  # a negative zero loses its sign
    if clause == "f":
        return _fixed(precision, value)
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    superscript = f"{int(exponent):03d}" if int(exponent) < 0 else f"{int(exponent):02d}"
    text = f"{mantissa}{space}\u00d7{space}10{superscript.translate(_SUPERSCRIPT)}"
    return text.rjust(precision & 0xFFFF)  # upstream takes the precision for the width


_MAX_PRECISION = 10**6  # before the last digit: Go's package `text` reads on no further


def _fixed(precision: int, value: float) -> str:
    """Return a number with the fraction that Go's package `text` writes, which keeps the precision in 16 bits, with a
    sign, for the most digits, and in 8 bits for the fewest; a negative one stands for as many as there are."""
    fewest, most = precision & 0xFF, (precision + 2**15) % 2**16 - 2**15
    whole, _, fraction = (f"{value:,.{most}f}" if most >= 0 else f"{Decimal(repr(value)):,f}").partition(".")
    fraction = fraction.rstrip("0").ljust(fewest, "0")
    return f"{whole}.{fraction}" if fraction else whole


_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def format_value(value: Value) -> str:
    """Return the text of a value for `%s`."""
    match value:
        case None:
            return "null"
        case list():
            return f"[{', '.join(_format_literal(each) for each in value)}]"
        case dict():
            return f"{{{', '.join(sorted(f'{_format_literal(k)}:{_format_literal(v)}' for k, v in _entries(value)))}}}"
        case Type():
            return value.name
    id_ = _TO_STRING.get(type(value))
    if id_ is None:
        raise argument_type_error("s", type_name(value))
    try:
        return str(STANDARD[id_](value))
    except EvaluationError as error:
        raise EvaluationError(f"could not convert argument {go_quote(str(error))} to string") from None


def _entries(entries: dict[object, Value]) -> list[tuple[Value, Value]]:
    return list(zip(map_keys(entries), entries.values(), strict=True))


_TO_STRING: dict[type, str] = {
    bool: "bool_to_string",
    bytes: "bytes_to_string",
    float: "double_to_string",
    int: "int64_to_string",
    str: "string_to_string",
    Duration: "duration_to_string",
    Timestamp: "timestamp_to_string",
    UnsignedInt: "uint64_to_string",
}


def _format_literal(value: Value) -> str:
    """Return the text of a value inside a list or map, in CEL's notation."""
    match value:
        case str():
            return quote(value)
        case bytes():
            return f"b{quote(format_value(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else f'"{format_value(value)}"'
        case Timestamp():
            return f'timestamp("{format_timestamp(value)}")'
        case Duration():
            return f'duration("{format_duration(value)}")'
    return format_value(value)


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}


def quote(text: str) -> str:
    """Return a text in double quotes with its control characters escaped (`strings.quote`)."""
    current_meter().count(len(text))
    return f'"{"".join(_ESCAPES.get(char, char) for char in text)}"'
