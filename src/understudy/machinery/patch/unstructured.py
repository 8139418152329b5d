"""Unstructured values converted to a type, with the texts of Go's `DefaultUnstructuredConverter`
(k8s.io/apimachinery/pkg/runtime).

The result of a strategic merge patch does not go through JSON again, so its errors have other texts than those of a
body. The converter also accepts what JSON's decoder refuses: integers that are too large lose their upper bits, whole
floats are integers.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from understudy.machinery.golang.json_reader import DecodeError, parse, to_text
from understudy.machinery.golang.json_scalars import base64_error_offset
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.serializer.json import decode_value, decode_value_fast
from understudy.machinery.serializer.json_exact import Decoder
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj

_BITS = {"int": 64, "int32": 32, "int64": 64, "uint8": 8, "uint32": 32, "uint64": 64}
_FLOATS = ("float32", "float64")


def go_kind(value: Any) -> str:
    """Return the Go kind of an unstructured value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "slice" if isinstance(value, list) else "map"


def from_unstructured(value: Any, struct: Struct) -> tuple[Obj, list[str]]:
    """Convert a value to a canonical object (upstream: `FromUnstructured`). Also returns the strict errors about
    unknown fields, sorted.

    Raises DecodeError for the first value that does not fit, in the order of the types' fields.
    """
    obj = decode_value_fast(value, struct)
    if obj is not None:
        return obj, []
    converter = _Converter()
    fitting = converter.struct(value, struct)
    return decode_value(fitting, struct)[0], sorted(converter.unknown)


class _Converter:
    """One conversion; `unknown` gathers the errors about unknown fields."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._path = ""  # the path of the current value, without keys of maps

    def value(self, value: Any, shape: Shape) -> Any:
        """Convert a value to a shape. Raises DecodeError."""
        if value is None:
            return None
        if isinstance(shape, Scalar):
            return self.bytes(value) if shape.kind == "bytes" else _scalar(value, shape)
        if isinstance(shape, Struct):
            return self.struct(value, shape)
        if isinstance(shape, Map):
            return self.map(value, shape)
        if isinstance(shape, List):
            return self.list(value, shape)
        return _custom(value, shape)

    def struct(self, value: Any, struct: Struct) -> Any:
        """Convert an object to a struct, and note its unknown fields. Raises DecodeError."""
        if not isinstance(value, dict):
            raise DecodeError(f"cannot restore struct from: {go_kind(value)}")
        path = self._path
        out = {}
        for name, field in struct.fields.items():
            if value.get(name) is not None:
                self._path = f"{path}.{name}" if path else name
                out[name] = self.value(value[name], field.type)
        self._path = path
        for name in value.keys() - struct.fields.keys():
            self.unknown.append(f'unknown field "{f"{path}.{name}" if path else name}"')
        return out

    def map(self, value: Any, shape: Map) -> Any:
        """Convert an object to a map. Raises DecodeError."""
        if not isinstance(value, dict):
            raise DecodeError(f"cannot restore map from {go_kind(value)}")
        return {key: self.value(item, shape.value) for key, item in value.items()}

    def list(self, value: Any, shape: List) -> Any:
        """Convert a list. Raises DecodeError."""
        if not isinstance(value, list):
            raise DecodeError(f"cannot restore slice from {go_kind(value)}")
        path = self._path
        out = []
        for index, item in enumerate(value):
            self._path = f"{path}[{index}]"
            out.append(self.value(item, shape.element))
        self._path = path
        return out

    def bytes(self, value: Any) -> Any:
        """Convert base64, or a list of numbers, to the base64 of a []byte. Raises DecodeError."""
        if not isinstance(value, str):
            octets = self.list(value, List(Scalar("uint8", "uint8"), False))
            return b64encode(bytes(octet or 0 for octet in octets)).decode()
        offset = base64_error_offset(value)
        if offset is not None:
            raise DecodeError(f"error decoding from json: illegal base64 data at input byte {offset}")
        return value


def _scalar(value: Any, shape: Scalar) -> Any:
    expected, actual = shape.kind, go_kind(value)
    if expected in ("interface", actual):
        return value
    if actual in ("int64", "float64"):
        if expected in _FLOATS:
            return value
        if expected in _BITS and value == int(value):
            return _truncated(int(value), expected)
        if expected in _BITS or (expected == "string" and actual == "int64"):
            raise DecodeError(f"cannot convert {actual} to {shape.go}")
    raise DecodeError(f"unrecognized type: {expected}")


def _truncated(value: int, kind: str) -> int:
    """Return the lower bits of an integer, as Go keeps them; a float beyond 64 bits has none."""
    value = value if -(2**63) <= value < 2**63 else -(2**63)
    bits = _BITS[kind]
    value %= 2**bits
    return value - 2**bits if kind[0] == "i" and value >= 2 ** (bits - 1) else value


def _custom(value: Any, shape: Custom) -> Any:
    """Convert a value to a custom type by way of its JSON, as types with an UnmarshalJSON method are."""
    text = to_text(encode_sorted(value))
    return Decoder(text).decode(parse(text), shape)
