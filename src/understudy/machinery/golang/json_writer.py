"""JSON as Go's encoder writes it, and values that keep the bytes they were sent with.

A RawExtension (the opaque parameters of a device's configuration) keeps its bytes: order, number spelling, duplicates.
Here such a value is a `RawObject`: a dict to read that keeps its bytes. Two of them are equal if their bytes are,
as in Go. JSON that is not an object is kept in the same way (`RawArray`, `RawString`, `RawNumber`); null is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from math import copysign, isinf
from operator import is_not
from typing import Any

import orjson

from understudy.machinery.types import same_json
from understudy.machinery.util.regex import regex

_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_SEPARATORS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
_SPACE_OR_STRING = regex(rb'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', re.DOTALL)
_TOKEN = regex(rb'"[^"\\]*(?:\\.[^"\\]*)*"|\{\}|\[\]|[{}\[\],:]|[^"{}\[\],:]+')
_SPACE = regex(rb"[ \t\r\n]")
_SURROGATE = regex("[\ud800-\udfff]")


class Raw:
    """A JSON value with the bytes that it is written with (Go: `json.RawMessage`): `source`, spaces included.

    `is_readable` is false if the bytes, which came in protobuf, are nothing that Go's converters read as JSON.
    """

    source: bytes = b"null"
    is_readable = True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Raw):
            return self.source == other.source
        return same_json(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.source)

    def compact(self) -> bytes:
        """Return `source` without spaces between tokens, which Go's encoder drops."""
        if not _SPACE.search(self.source):
            return self.source
        return _SPACE_OR_STRING.sub(lambda match: match[1] or b"", self.source)


class RawObject(Raw, dict[str, Any]):  # type: ignore[misc]  # dict and list cannot be hashed, a spelling can
    """A JSON object with its bytes."""


class RawArray(Raw, list[Any]):  # type: ignore[misc]
    """A JSON array with its bytes."""


class RawString(Raw, str):
    """A JSON string with its bytes."""


class RawNumber(Raw, float):
    """A JSON number with its bytes."""


def with_source(value: Any, source: bytes) -> Any:
    """Return `value` tagged with the bytes it was parsed from. null and booleans need no tag: JSON spells them one
    way."""
    kept: Raw
    if isinstance(value, dict):
        kept = RawObject(value)
    elif isinstance(value, list):
        kept = RawArray(value)
    elif isinstance(value, str):
        kept = RawString(value)
    elif value is None or isinstance(value, bool):
        return value
    else:
        kept = RawNumber(value)
    kept.source = source
    return kept


def holds_unreadable(value: Any) -> bool:
    """Report whether a value has a raw part that is no JSON."""
    if isinstance(value, Raw):
        return not value.is_readable
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(holds_unreadable(item) for item in items)


class GoFloat(float):
    """A float that orjson and Go write differently, such as 1000.0: Go writes 1000."""


def go_number(value: float) -> Any:
    """Return a float64 in the Python type that `encode` writes as Go does: whole numbers without a fraction."""
    if abs(value) >= 2**63 or 0 < abs(value) < 1e-3:
        return GoFloat(value)
    if value != int(value):
        return value
    return GoFloat(value) if str(value) == "-0.0" else int(Decimal(repr(value)))


def go_interface(value: Any) -> Any:
    """Return a parsed JSON value as Go keeps it in an `interface{}`: keys sorted, each number an int64 or a float64."""
    if isinstance(value, dict):
        return {str(name): go_interface(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [go_interface(item) for item in value]
    if isinstance(value, float) or (type(value) is int and not -(2**63) <= value < 2**63):
        return go_number(float(value))
    return value


_EXACT = frozenset((str, int, bool, type(None)))  # types whose values are read as they were


def go_json(value: Any) -> Any:
    """Return a parsed JSON value as `go_interface` does, but tell floats from integers: 1.0 stays a float.

    Raises OverflowError for a number beyond float64.
    """
    if isinstance(value, dict):
        return {str(name): go_json(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [go_json(item) for item in value]
    if isinstance(value, float):
        if isinf(value):
            raise OverflowError
        return GoFloat(value)
    return go_interface(value)


def as_read_again(value: Any) -> Any:
    """Return a value with its numbers as they are read from the JSON that Go writes: 1.0 is 1, and -0.0 is 0. Parts
    without such numbers are shared."""
    return _with_floats(value, lambda number: go_number(float(number)) if number else 0)


def with_go_floats(value: Any) -> Any:
    """Return a value whose floats stay floats, and are written in JSON as Go writes them: 1.0 as 1. Parts without such
    numbers are shared."""
    return _with_floats(value, lambda number: number if type(go_number(number)) is float else GoFloat(number))


def _with_floats(value: Any, change: Callable[[float], Any]) -> Any:
    """Return a value with its floats changed."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        changed = {
            k: new for k, v in value.items() if type(v) not in _EXACT and (new := _with_floats(v, change)) is not v
        }
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        items = [_with_floats(item, change) for item in value]
        return items if any(map(is_not, items, value)) else value
    return change(value) if isinstance(value, float) else value


def encode_sorted(value: Any) -> bytes:
    """Return the JSON that Go writes for a value whose type it does not know (`interface{}`)."""
    return encode(go_interface(value))


def encode_map(obj: dict[str, Any]) -> bytes:
    """Encode a JSON object with the keys of all its maps sorted, as Go writes maps."""
    try:
        out = orjson.dumps(obj, _default, orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return encode_sorted(obj)
    return _escaped(out)


def _float_text(value: float) -> str:
    """Return a float64 as Go writes it in JSON: with an exponent below 1e-6 and from 1e21 on."""
    if not value:
        return "-0" if copysign(1, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return repr(value).replace("e-0", "e-")


def _default(value: Any) -> Any:
    """Encode what orjson does not write itself: subclasses of JSON's types. Raises TypeError."""
    if isinstance(value, Raw):
        return orjson.Fragment(value.compact())
    if isinstance(value, float):
        return orjson.Fragment(_float_text(float(value)))
    for base in (str, int, dict, list):
        if isinstance(value, base):
            plain: Any = base
            return plain(value)
    raise TypeError(type(value))


def encode(obj: Any) -> bytes:
    """Encode JSON as the server writes it, without the newline at its end.

    It is compact, raw values keep their bytes, and <, >, & and the line separators U+2028 and U+2029 are escaped.
    """
    return _escaped(encode_unescaped(obj))


def encode_unescaped(obj: Any) -> bytes:
    """Encode JSON as `encode` does, but leave <, > and & as they are."""
    try:
        return orjson.dumps(obj, _default, orjson.OPT_PASSTHROUGH_SUBCLASS)
    except (TypeError, RecursionError):
        return _encode_oddities(obj)


def indent(out: bytes) -> bytes:
    """Return JSON that `encode` has written over several lines, as for `?pretty`."""
    # orjson does not read what nests very deep, and writes large and very small numbers in another way than Go.
    with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):
        value = orjson.loads(out)
        if _escaped(orjson.dumps(value)) == out:
            return _escaped(orjson.dumps(value, option=orjson.OPT_INDENT_2))
    return _indent_tokens(out)


def _indent_tokens(out: bytes) -> bytes:
    """Indent compact JSON token by token."""
    indented, level = [], 0
    for token in _TOKEN.findall(out):
        if token in (b"{", b"["):
            level += 1
            token += b"\n" + b"  " * level
        elif token in (b"}", b"]"):
            level -= 1
            token = b"\n" + b"  " * level + token
        elif token == b",":
            token += b"\n" + b"  " * level
        elif token == b":":
            token = b": "
        indented.append(token)
    return b"".join(indented)


def _escaped(out: bytes) -> bytes:
    for char, escaped in _ESCAPED:
        if char in out:
            out = out.replace(char, escaped)
    if b"\xe2" in out:  # to look for one byte is many times as fast as for several
        for char, escaped in _SEPARATORS:
            out = out.replace(char, escaped)
    return out


def _encode_oddities(obj: Any) -> bytes:
    """Encode what orjson refuses: lone surrogates, integers beyond 64 bits, very deep nesting. It does not recurse."""
    out: list[bytes] = []
    todo: list[Any] = [obj]
    while todo:
        item = todo.pop()
        if type(item) is bytes:
            out.append(item)
        elif isinstance(item, Raw):
            out.append(item.compact())
        elif isinstance(item, dict):
            todo.append(b"}")
            for i, (key, value) in enumerate(reversed(item.items())):
                todo += (b"," if i else b"", value, b":", str(key))
            todo.append(b"{")
        elif isinstance(item, (list, tuple)):
            todo.append(b"]")
            for i, value in enumerate(reversed(item)):
                todo += (b"," if i else b"", value)
            todo.append(b"[")
        elif isinstance(item, str):
            text = _SURROGATE.sub("\ufffd", item)
            out.append(orjson.dumps(text).replace(b"\xef\xbf\xbd", b"\\ufffd") if text != item else orjson.dumps(item))
        elif type(item) is int:
            out.append(json.dumps(item).encode())
        else:
            out.append(orjson.dumps(item, _default, orjson.OPT_PASSTHROUGH_SUBCLASS))
    return b"".join(out)
