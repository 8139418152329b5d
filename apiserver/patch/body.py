"""Patch bodies: JSON, with the duplicate keys that strict field validation speaks of.

Owns the bytes of a request; knows nothing of what a patch means. Numbers become int where they fit 64 bits, else float
(sigs.k8s.io/json, "preserve ints"). What is odd, or wrong, `gojson` reads as Go does.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from understudy.apiserver.gojson import DecodeError, Node, parse, to_text

_GO_KINDS = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def kind_of(value: Any) -> str:
    """object, array, string, bool or number, as Go's "cannot unmarshal" names it."""
    return _GO_KINDS[type(value)]


def loads(body: bytes) -> tuple[Any, list[str]]:
    """The value, and the paths of duplicate keys in the order in which they are met: `metadata.labels.a`, `[0].op`.
    The last of several wins. Raises DecodeError with Go's text."""
    try:
        return _decode(body.decode()), []
    except (ValueError, RecursionError):
        found: list[str] = []
        return _value(parse(to_text(body)), "", found), found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate keys")
    return out


def _integer(text: str) -> int | float:
    number = int(text)
    return number if -(2**63) <= number < 2**63 else float(text)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(text)  # Python reads NaN and Infinity, JSON has none


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_constant).decode


def _value(node: Node, path: str, duplicates: list[str]) -> Any:
    if node.kind == "object":
        out: dict[str, Any] = {}
        for key, child in node.value:
            here = f"{path}.{key}" if path else key
            if key in out:
                duplicates.append(here)
            out[key] = _value(child, here, duplicates)
        return out
    if node.kind == "array":
        return [_value(child, f"{path}[{index}]", duplicates) for index, child in enumerate(node.value)]
    if node.kind == "number":
        return float(node.value) if set(node.value) & set(".eE") else _integer(node.value)
    return node.value


class WrittenString(str):
    """A string with its literal."""

    __slots__ = ("literal",)
    literal: str


class WrittenNumber(float):
    """A number that is not written as an integer, or not as Go writes it, with its literal."""

    __slots__ = ("literal",)
    literal: str


def loads_as_written(body: bytes) -> Any:
    """The value with the spelling of its scalars. The body is known to be JSON."""
    text = to_text(body)
    return _as_written(parse(text), text)


def _as_written(node: Node, text: str) -> Any:
    if node.kind == "object":
        return {key: _as_written(child, text) for key, child in node.value}
    if node.kind == "array":
        return [_as_written(child, text) for child in node.value]
    if node.kind not in ("string", "number"):
        return node.value
    literal = text[node.start : node.end]
    if node.kind == "number" and str(value := _value(node, "", [])) == literal and isinstance(value, int):
        return value
    written = WrittenString(node.value) if node.kind == "string" else WrittenNumber(literal)
    written.literal = literal
    return written


__all__ = ["DecodeError", "WrittenNumber", "WrittenString", "kind_of", "loads", "loads_as_written"]
