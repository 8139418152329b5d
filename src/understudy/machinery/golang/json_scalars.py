"""JSON scalars as Go decodes them: numbers into integer types of so many bits, base64, and `interface{}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from understudy.machinery.golang.json_reader import Node, parse, to_text
from understudy.machinery.golang.json_writer import GoFloat, go_number
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.util.regex import regex

_INTEGER = regex(r"-?[0-9]+", re.ASCII)
_BITS = {"int": 64, "int64": 64, "int32": 32, "int16": 16, "int8": 8}
_UNSIGNED = {"uint": 64, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8}
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def python_value(node: Node, number: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a node as Python has it; the last of duplicate keys wins.

    number  returns the value of a literal; without it, that of `interface_number`, whose OverflowError is raised
    """
    if node.kind == "object":
        return {key: python_value(item, number) for key, item in node.value}
    if node.kind == "array":
        return [python_value(item, number) for item in node.value]
    return (number or interface_number)(node.value) if node.kind == "number" else node.value


def loads(body: bytes) -> Any:
    """Parse JSON that the server itself has written, however deep it nests."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:  # orjson reads 1024 levels
        return call_deeply(python_value, parse(to_text(body), max_depth=len(body)))


def interface_number(literal: str) -> Any:
    """Return the number that Go decodes into an `interface{}`: an int64 if the literal is one, else a float64. Raises
    OverflowError."""
    if "." not in literal and _INTEGER.fullmatch(literal) and len(literal) < 21:
        value = int(literal)
        if -(2**63) <= value < 2**63:
            return value
    real = float(literal)
    if real in (float("inf"), float("-inf")):
        raise OverflowError
    return go_number(real)


def raw_number(literal: str) -> Any:
    """Return the number that Go decodes from raw JSON: as `interface_number`, but 1.0 stays a float. Raises
    OverflowError."""
    value = interface_number(literal)
    return value if type(value) is not int or _INTEGER.fullmatch(literal) else GoFloat(value)


def lenient_value(node: Node) -> Any:
    """Return the value of raw JSON for code that only reads it: an empty object or list where Python cannot hold the
    value."""
    try:
        return python_value(node)
    except OverflowError:
        return {} if node.kind == "object" else []


def sized_integer(literal: str, kind: str) -> int | None:
    """Return the integer that a literal says, or None if the Go type `kind` (int32, uint8, …) cannot hold it."""
    if not _INTEGER.fullmatch(literal) or len(literal) > 21:
        return None
    value = int(literal)
    if kind in _UNSIGNED:
        return value if 0 <= value < 2 ** _UNSIGNED[kind] and literal[0] != "-" else None
    half = 2 ** (_BITS[kind] - 1)
    return value if -half <= value < half else None


def base64_error_offset(text: str) -> int | None:
    """Return the offset of the first byte that is not base64 (Go: `CorruptInputError`), or None if all is well. Line
    breaks are skipped."""
    data = text.encode()
    at = pending = 0  # pending: the number of characters read of the current group of four
    while at < len(data):
        char = chr(data[at])
        at += 1
        if char in _BASE64:
            pending = (pending + 1) % 4
        elif char not in "\r\n":
            break
    else:
        return at - pending if pending else None
    if char != "=" or pending < 2:
        return at - 1
    if pending == 2:
        at = _after_line_breaks(data, at)
        if data[at : at + 1] != b"=":
            return at - 1 if at < len(data) else at
        at += 1
    at = _after_line_breaks(data, at)
    return at if at < len(data) else None


def _after_line_breaks(data: bytes, at: int) -> int:
    while data[at : at + 1] in (b"\r", b"\n"):
        at += 1
    return at
