"""Type guards: tests at run time whether a value may be passed where a type is declared."""

from __future__ import annotations

from collections.abc import Callable

from understudy.cel.ast import UnsignedInt
from understudy.cel.types import Type
from understudy.cel.values import Duration, Optional, Timestamp, Value, type_name

_EXACT: dict[str, type] = {
    "bool": bool,
    "bytes": bytes,
    "double": float,
    "duration": Duration,
    "int": int,
    "null": type(None),
    "string": str,
    "timestamp": Timestamp,
    "uint": UnsignedInt,
}


def type_guard(declared: Type) -> Callable[[Value], bool] | None:
    """Return a test for values of a type, None if every value passes."""
    if (exact := _EXACT.get(declared.kind)) is not None:
        return lambda value: type(value) is exact
    match declared.kind:
        case "list":
            return _list_type_guard(declared.params[0])
        case "map":
            return lambda value: isinstance(value, dict)
        case "opaque" if declared.name == "optional_type":
            return lambda value: isinstance(value, Optional)
        case "opaque" | "struct":
            return lambda value: type_name(value) == declared.name
        case "type":
            return lambda value: isinstance(value, Type)
    return None


def _list_type_guard(element: Type) -> Callable[[Value], bool]:
    """Return a test for lists of a type; like cel-go's, it looks only at the first element."""
    inner = type_guard(element)
    if inner is None:
        return lambda value: isinstance(value, list)
    return lambda value: isinstance(value, list) and (not value or inner(value[0]))
