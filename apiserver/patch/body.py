"""Patch bodies as Go reads them: JSON with the texts of its syntax errors, and the duplicate keys that strict field
validation speaks of.

Owns the bytes of a request; knows nothing of what a patch means. Numbers become int where they fit 64 bits, else float
(sigs.k8s.io/json, "preserve ints").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HEX = re.compile(rb"[0-9a-fA-F]*")
_SPACE = re.compile(rb"[ \t\r\n]*")
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


class MalformedError(Exception):
    """The text is not JSON; the message is Go's."""


def loads(body: bytes) -> Any:
    """The value of a JSON text. Raises MalformedError."""
    return _decode(body, None)


def loads_strict(body: bytes) -> tuple[Any, list[str]]:
    """The value, and the paths of duplicate keys in the order in which they are met: `metadata.labels.a`, `[0].op`.
    The last of several wins. Raises MalformedError."""
    found = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        out = dict(items)
        found = found or len(out) != len(items)
        return out

    value = _decode(body, pairs)
    return value, list(_duplicates(_decode(body, _Pairs), "")) if found else []


class _Pairs(list[tuple[str, Any]]):
    """An object with every key that was written."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, item in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                yield here
            seen.add(key)
            yield from _duplicates(item, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")


def kind_of(value: Any) -> str:
    """object, array, string, bool or number, as Go's "cannot unmarshal" names it."""
    return _GO_KINDS[type(value)]


def _decode(body: bytes, pairs: Any) -> Any:
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=_integer, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise MalformedError(_why(body)) from None
    return value


def _integer(text: str) -> int | float:
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(text)


def _no_constant(text: str) -> Any:
    raise ValueError(text)  # Python reads NaN and Infinity, JSON has none


def _why(body: bytes) -> str:
    """Go's text for the first thing that is wrong. It feeds one blank after the end, which may itself be wrong."""
    try:
        fed = body + b" "
        end = _space(body, _value(fed, _space(fed, 0)))
    except _WrongAtError as wrong:
        return str(wrong)
    except (IndexError, RecursionError):
        return "unexpected end of JSON input"
    if end < len(body):
        return str(_WrongAtError(body, end, "after top-level value"))
    return "unexpected end of JSON input"


class _WrongAtError(Exception):
    def __init__(self, body: bytes, at: int, context: str) -> None:
        char = chr(body[at])
        shown = {"'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}.get(char, char)
        if shown == char and not char.isprintable():
            shown = f"\\x{body[at]:02x}" if body[at] < 0x80 else f"\\u{body[at]:04x}"
        super().__init__(f"invalid character '{shown}' {context}")


def _space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    return match.end() if match else at


def _value(body: bytes, at: int) -> int:
    """The position after the value that starts at `at`. IndexError: the text ends too early."""
    char = body[at : at + 1]
    if char == b"{":
        return _object(body, _space(body, at + 1))
    if char == b"[":
        return _array(body, _space(body, at + 1))
    if char == b'"':
        return _string(body, at + 1)
    if char == b"-" or char.isdigit():
        return _number(body, at)
    literal = _LITERALS.get(body[at])
    if literal is None:
        raise _WrongAtError(body, at, "looking for beginning of value")
    for offset, expected in enumerate(literal):
        if body[at + offset] != expected:
            raise _WrongAtError(body, at + offset, f"in literal {literal.decode()} (expecting '{chr(expected)}')")
    return at + len(literal)


def _object(body: bytes, at: int) -> int:
    if body[at] == ord("}"):
        return at + 1
    while True:
        if body[at] != ord('"'):
            raise _WrongAtError(body, at, "looking for beginning of object key string")
        at = _space(body, _string(body, at + 1))
        if body[at] != ord(":"):
            raise _WrongAtError(body, at, "after object key")
        at = _space(body, _value(body, _space(body, at + 1)))
        if body[at] == ord("}"):
            return at + 1
        if body[at] != ord(","):
            raise _WrongAtError(body, at, "after object key:value pair")
        at = _space(body, at + 1)


def _array(body: bytes, at: int) -> int:
    if body[at] == ord("]"):
        return at + 1
    while True:
        at = _space(body, _value(body, at))
        if body[at] == ord("]"):
            return at + 1
        if body[at] != ord(","):
            raise _WrongAtError(body, at, "after array element")
        at = _space(body, at + 1)


def _string(body: bytes, at: int) -> int:
    match = _STRING.match(body, at)
    at = match.end() if match else at
    if body[at] == ord('"'):
        return at + 1
    if body[at] != ord("\\"):
        raise _WrongAtError(body, at, "in string literal")
    if body[at + 1] != ord("u"):
        raise _WrongAtError(body, at + 1, "in string escape code")
    digits = _HEX.match(body, at + 2)
    raise _WrongAtError(body, digits.end() if digits else at + 2, "in \\u hexadecimal character escape")


def _number(body: bytes, at: int) -> int:
    at += body[at] == ord("-")
    if body[at] == ord("0"):
        at += 1
    else:
        at = _digits(body, at, "in numeric literal")
    if body[at] == ord("."):
        at = _digits(body, at + 1, "after decimal point in numeric literal")
    if body[at] in b"eE":
        at += 1
        at += body[at] in b"+-"
        at = _digits(body, at, "in exponent of numeric literal")
    return at


def _digits(body: bytes, at: int, context: str) -> int:
    match = _DIGITS.match(body, at)
    end = match.end() if match else at
    if end == at:
        raise _WrongAtError(body, at, context)
    return end
