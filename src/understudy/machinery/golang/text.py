"""Strings and values as Go quotes and prints them in errors, and integers as it reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from os import PathLike
from typing import Any

from understudy.machinery.util.pieces import join
from understudy.machinery.util.regex import regex

ADDRESS = "0xc000a1e5d0"  # of every pointer that is printed: any will do, since clients cannot rely on it
_SPECIAL = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_TO_ESCAPE = regex(r'[\x00-\x1f\x7f\\"\x80-\xa0\xad]|[^\x00-\xff]')


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    if char in _SPECIAL:
        return _SPECIAL[char]
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_quote(text: str) -> str:
    """Quote a text as `strconv.Quote` does (%q)."""
    if '"' not in text and "\\" not in text and text.isprintable():
        return f'"{text}"'  # a megabyte of which takes 15 ms to look through for what is to be escaped
    return f'"{_TO_ESCAPE.sub(_escaped, text)}"'


def aggregate(texts: Iterable[str]) -> str:
    """Join the texts of errors into one, each once (`k8s.io/apimachinery/pkg/util/errors`, `Aggregate`)."""
    return listed([*dict.fromkeys(texts)])


def path_error(error: OSError, path: PathLike[str] | str) -> str:
    """Return the text of the error of a file that cannot be read, as Go has it (`fs.PathError`)."""
    action = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{action} {path}: {(error.strerror or '').lower()}"


def listed(texts: Sequence[str], before: str = "") -> str:
    """Join texts into one behind another, in brackets if there are several."""
    return before + texts[0] if len(texts) == 1 else join(", ", texts, f"{before}[", "]")


_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_bool(text: str | None) -> bool | None:
    """Parse a boolean, None for any other text. Go: `strconv.ParseBool`."""
    return _BOOLEANS.get(text or "")


_INTEGER = regex(r"([+-]?)([0-9]+)")
_LONGEST = 20  # the most digits of a 64-bit integer; Python refuses to parse thousands of them


def parse_int(text: str, *, signed: bool = True) -> int:
    """Parse a 64-bit integer as `strconv.ParseInt` does, or `ParseUint` if it is not `signed`. Raises ValueError with
    their text."""
    low, high = (-(2**63), 2**63) if signed else (0, 2**64)
    match = _INTEGER.fullmatch(text)
    sign, digits = (match[1], match[2].lstrip("0") or "0") if match else ("", "")
    if not digits or (sign and not signed):
        problem = "invalid syntax"
    elif len(digits) <= _LONGEST and low <= (number := int(sign + digits)) < high:
        return number
    else:
        problem = "value out of range"
    raise ValueError(f"strconv.Parse{'Int' if signed else 'Uint'}: parsing {go_quote(text)}: {problem}")


def go_float(value: float, digits: int = 21) -> str:
    """Return the shortest text of a float, with an exponent below 1e-4 and from 10**digits on.

    JSON writes one from 1e21 on, YAML and %v from 1e6 on. Numbers that are not finite are NaN, +Inf and -Inf.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".title()
    exact = Decimal(repr(value)).normalize()
    exponent = exact.adjusted() if value else 0
    if -4 <= exponent < digits:
        return f"{exact:f}"
    return f"{exact.scaleb(-exponent):f}e{exponent:+03d}"


_PRINTED = 6  # the digits of a float that %v prints without an exponent


def go_scalar(value: Any) -> str:
    """Return a string, a boolean or a number as %v prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_float(value, _PRINTED) if isinstance(value, float) else str(value)


def go_value(value: Any) -> str:
    """Return a value as a field error prints it: strings quoted, others as %v, null as "null" in quotes."""
    if isinstance(value, str):
        return go_quote(value)
    if value is None:
        return '"null"'
    return go_scalar(value)
