"""JSON values as Go tells them apart: an integer is not equal to a float or a boolean. What is made of their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_not
from typing import Any, TypeVar

from understudy.machinery.golang.fmt import base_type
from understudy.machinery.types import Obj

T = TypeVar("T")

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1

_PLAIN = frozenset((str, bool, type(None)))
JSON_TYPES: Mapping[type, str] = {
    str: "string",
    dict: "object",
    list: "array",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def json_type(value: Any) -> str:
    """Return the JSON type of a value, as schemas name it."""
    return JSON_TYPES.get(type(value)) or JSON_TYPES[base_type(value)]


def with_go_numbers(value: Any) -> Any:
    """Return a parsed value with integers that fit 64 bits, and floats for all other numbers. It is never edited.

    Strings and floats of special classes, which note how they were written, become plain ones.
    """
    if isinstance(value, dict):
        changed = {k: new for k, v in value.items() if type(v) not in _PLAIN and (new := with_go_numbers(v)) is not v}
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        return map_items(value, with_go_numbers)
    if type(value) is int:
        return value if MIN_INT64 <= value <= MAX_INT64 else float(value)
    if isinstance(value, str):
        return value if type(value) is str else str(value)
    return float(value) if type(value) is not float and isinstance(value, float) else value


def is_same(value: Any, other: Any) -> bool:
    """Report whether two JSON values are equal and of the same types (upstream: `reflect.DeepEqual`)."""
    kind = json_type(value)
    if kind != json_type(other):
        return False
    if kind == "object":
        return value.keys() == other.keys() and all(is_same(item, other[name]) for name, item in value.items())
    if kind == "array":
        return len(value) == len(other) and all(map(is_same, value, other))
    return bool(value == other)


def map_items(value: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """Return the list of what `change` makes of the items; the list itself if it changes none."""
    out = list(map(change, value))
    return out if any(map(is_not, out, value)) else value


def compile_properties(schema: Obj, compile_part: Callable[[Obj], T]) -> dict[str, T]:
    """Return by name what `compile_part` makes of the properties of a schema.

    Properties whose schema is one object share the result: of thousands of fields few differ, and stored definitions
    keep equal schemas once.
    """
    compiled: dict[int, T] = {}
    properties: dict[str, T] = {}
    for name, part in (schema.get("properties") or {}).items():
        if id(part) not in compiled:
            compiled[id(part)] = compile_part(part)
        properties[name] = compiled[id(part)]
    return properties
