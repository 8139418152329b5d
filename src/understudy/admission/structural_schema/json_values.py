"""JSON values as Go tells them apart: an integer is not equal to a float or a boolean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1

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
    """Return the JSON type of a value, as schemas name it; an integer of more than 64 bits is a number."""
    name = JSON_TYPES.get(type(value))
    if name is None:  # a class of our own, derived from one of the table
        name = next(name for base, name in JSON_TYPES.items() if isinstance(value, base))
    return "number" if name == "integer" and not MIN_INT64 <= value <= MAX_INT64 else name


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
    out = [change(item) for item in value]
    return out if any(new is not item for new, item in zip(out, value, strict=True)) else value
