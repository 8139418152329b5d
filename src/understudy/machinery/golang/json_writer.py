"""JSON out, as Go's encoder writes it, and values that are written just as they came.

A RawExtension (the opaque parameters of a device's configuration) keeps its bytes: order, number spelling, duplicates.
Here such a value is a `RawObject`: a dict to read, with the bytes beside it. Two of them are equal if their bytes are,
as in Go. JSON that is not an object is kept alike (`with_source`); null is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from typing import Any

import orjson

_ESCAPED = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)
_SPACE_OR_STRING = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Raw:
    """What has bytes of its own: `source` as they came, spaces included."""

    source: bytes = b"null"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Raw):
            return self.source == other.source
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.source)

    def compact(self) -> bytes:
        """`source` without spaces between tokens: Go's encoder drops them."""
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
    """`value` with the bytes it was parsed from. null and booleans have one spelling only: they stay what they are."""
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


class GoFloat(float):
    """A float that orjson and Go write differently."""


def go_number(value: float) -> Any:
    """A float64 such that `encode` writes it as Go does: whole ones without a fraction."""
    if abs(value) >= 1e21 or 0 < abs(value) < 1e-3:
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


def encode_sorted(value: Any) -> bytes:
    """Return the JSON that Go writes for a value whose type it does not know (`interface{}`)."""
    return encode(go_interface(value))


def rewrite_raw(value: Any, spell: Callable[[Any], bytes]) -> Any:
    """`value` with its raw parts in other bytes: what patches make of them, be they changed or not."""
    if isinstance(value, Raw):
        return with_source(value, spell(value))
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, (dict, list, Raw)):
                new = rewrite_raw(item, spell)
                if new is not item:
                    value = _with(value, name, new)
        return value
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        items = [rewrite_raw(item, spell) for item in value]
        return items if any(new is not item for new, item in zip(items, value, strict=True)) else value
    return value


def _with(value: dict[str, Any], name: str, new: Any) -> dict[str, Any]:
    out = copy(value)
    out[name] = new
    return out


def _float_text(value: float) -> str:
    """As Go writes float64 in JSON: with an exponent below 1e-6 and from 1e21 on."""
    if not value:
        return "-0"
    if 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(repr(value)):f}"
    return repr(value).replace("e-0", "e-")


def _default(value: Any) -> Any:
    """What orjson does not write itself: subclasses of JSON's types."""
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
    """JSON as the server writes it, without the newline at its end: compact, raw values as they are, and <, >, & and
    the line separators U+2028 and U+2029 escaped."""
    try:
        out = orjson.dumps(obj, _default, orjson.OPT_PASSTHROUGH_SUBCLASS)
    except (TypeError, RecursionError):
        out = _encode_oddities(obj)
    return _escaped(out)


def indent(out: bytes) -> bytes:
    """What `encode` has written, for people: over several lines."""
    return _escaped(orjson.dumps(orjson.loads(out), option=orjson.OPT_INDENT_2))


def _escaped(out: bytes) -> bytes:
    for char, escaped in _ESCAPED:
        if char in out:
            out = out.replace(char, escaped)
    return out


def _encode_oddities(obj: Any) -> bytes:
    """What orjson refuses: lone surrogates, integers beyond 64 bits, very deep nesting. Without recursion."""
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
