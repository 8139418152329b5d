"""Whether a merged value fits the type it was made for, with the texts of Go's conversion from unstructured values.

A strategic merge patch does not go through JSON again, so that its result is refused in other words than a body is
(k8s.io/apimachinery/pkg/runtime, DefaultUnstructuredConverter).
"""

from __future__ import annotations

from typing import Any

from understudy.apiserver.decode import DecodeError
from understudy.apiserver.schema import Custom, List, Map, Scalar, Shape, Struct

_INTEGERS = ("int", "int32", "int64", "uint8", "uint32", "uint64")
_FLOATS = ("float32", "float64")


def kind_of(value: Any) -> str:
    """The Go kind of an unstructured value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "slice" if isinstance(value, list) else "map"


def check(value: Any, shape: Shape) -> None:
    """Raises DecodeError for the first thing that does not fit, in the order of the types' fields."""
    if value is None or isinstance(shape, Custom):
        return
    have = kind_of(value)
    if isinstance(shape, Scalar):
        _check_scalar(have, shape)
    elif isinstance(shape, Struct):
        if have != "map":
            raise DecodeError(f"cannot restore struct from: {have}")
        for name, field in shape.fields.items():
            check(value.get(name), field.type)
    elif isinstance(shape, Map):
        if have != "map":
            raise DecodeError(f"cannot restore map from {have}")
        for item in value.values():
            check(item, shape.value)
    elif isinstance(shape, List):
        if have != "slice":
            raise DecodeError(f"cannot restore slice from {have}")
        for item in value:
            check(item, shape.element)


def _check_scalar(have: str, shape: Scalar) -> None:
    want = shape.kind
    if want in ("bytes", "interface"):
        if want == "bytes" and have not in ("string", "slice"):
            raise DecodeError(f"cannot restore slice from {have}")
        return
    if have == want or (have == "int64" and want in (*_INTEGERS, *_FLOATS)) or (have == "float64" and want in _FLOATS):
        return
    numbers = ("int64", "float64")
    convertible = have in numbers and (want in (*_INTEGERS, *_FLOATS) or (have == "int64" and want == "string"))
    if convertible:
        raise DecodeError(f"cannot convert {have} to {shape.go}")
    raise DecodeError(f"unrecognized type: {want}")
