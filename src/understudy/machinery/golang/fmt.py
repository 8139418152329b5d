"""Decoded JSON as Go's `fmt` prints it when it is held in a `map[string]interface{}`: for the texts of errors."""

from __future__ import annotations

from typing import Any

from understudy.machinery.golang.text import go_scalar

_TYPES = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    int: "int64",
    float: "float64",
    bool: "bool",
}


def print_value(value: Any) -> str:
    """Return a value as %v and %+v print it: `map[metadata:map[labels:map[a:1]]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{print_value(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(print_value, value))}]"
    if value is None:
        return "<nil>"
    return go_scalar(value)


def print_string(value: Any) -> str:
    """Return a value as %s prints it: with its type if it is not a string."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{print_string(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(print_string, value))}]"
    if isinstance(value, str):
        return value
    return f"%!s({type_name(value)}={print_value(value)})" if value is not None else "%!s(<nil>)"


def base_type(value: Any) -> type[Any]:
    """Return dict, list, str, int, float, bool or NoneType, also for an instance of a subclass (raw values)."""
    kind = type(value)
    return kind if kind in _TYPES else next((base for base in _TYPES if isinstance(value, base)), kind)


def type_name(value: Any) -> str:
    """Return the Go type of a decoded value, as %T prints it."""
    return _TYPES.get(base_type(value), "%!s(<nil>)")


def same_scalar(left: Any, right: Any) -> bool:
    """Report whether two scalars have the same type and are equal; in Python alone, 1 and True are equal as well."""
    return type(left) is type(right) and bool(left == right)
