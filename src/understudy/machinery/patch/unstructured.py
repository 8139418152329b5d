"""A merged value made to fit the type it was made for, with the texts of Go's conversion from unstructured values.

A strategic merge patch does not go through JSON again, so that its result is refused in other words than a body is
(k8s.io/apimachinery/pkg/runtime, DefaultUnstructuredConverter). It also takes what JSON's decoder does not: integers
that are too large lose their upper bits, whole floats are integers.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from understudy.machinery.golang.json_reader import DecodeError, parse, to_text
from understudy.machinery.golang.json_scalars import base64_error_offset
from understudy.machinery.golang.json_writer import encode_sorted
from understudy.machinery.serializer.json import decode_value, decode_value_fast
from understudy.machinery.serializer.json_exact import Decoder
from understudy.machinery.typeinfo.schema import Custom, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj

_BITS = {"int": 64, "int32": 32, "int64": 64, "uint8": 8, "uint32": 32, "uint64": 64}
_FLOATS = ("float32", "float64")


def go_kind(value: Any) -> str:
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


def from_unstructured(value: Any, struct: Struct) -> tuple[Obj, list[str]]:
    """The canonical object of a merged value, and the strict errors about unknown fields: sorted. Raises DecodeError
    for the first thing that does not fit, in the order of the types' fields."""
    obj = decode_value_fast(value, struct)
    if obj is not None:
        return obj, []
    converter = _Converter()
    fitting = converter.struct(value, struct)
    return decode_value(fitting, struct)[0], sorted(converter.unknown)


class _Converter:
    """One conversion; `unknown` gathers errors about unknown fields."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._path = ""  # of the value that is converted; keys of maps are not in it

    def value(self, value: Any, shape: Shape) -> Any:
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
        if not isinstance(value, dict):
            raise DecodeError(f"cannot restore struct from: {go_kind(value)}")
        here = self._path
        out = {}
        for name, field in struct.fields.items():
            if value.get(name) is not None:
                self._path = f"{here}.{name}" if here else name
                out[name] = self.value(value[name], field.type)
        self._path = here
        for name in value.keys() - struct.fields.keys():
            self.unknown.append(f'unknown field "{f"{here}.{name}" if here else name}"')
        return out

    def map(self, value: Any, shape: Map) -> Any:
        if not isinstance(value, dict):
            raise DecodeError(f"cannot restore map from {go_kind(value)}")
        return {key: self.value(item, shape.value) for key, item in value.items()}

    def list(self, value: Any, shape: List) -> Any:
        if not isinstance(value, list):
            raise DecodeError(f"cannot restore slice from {go_kind(value)}")
        here = self._path
        out = []
        for index, item in enumerate(value):
            self._path = f"{here}[{index}]"
            out.append(self.value(item, shape.element))
        self._path = here
        return out

    def bytes(self, value: Any) -> Any:
        if not isinstance(value, str):
            octets = self.list(value, List(Scalar("uint8", "uint8"), False))
            return b64encode(bytes(octet or 0 for octet in octets)).decode()
        bad = base64_error_offset(value)
        if bad is not None:
            raise DecodeError(f"error decoding from json: illegal base64 data at input byte {bad}")
        return value


def _scalar(value: Any, shape: Scalar) -> Any:
    want, have = shape.kind, go_kind(value)
    if want in ("interface", have):
        return value
    if have in ("int64", "float64"):
        if want in _FLOATS:
            return value
        if want in _BITS and value == int(value):
            return _wrapped(int(value), want)
        if want in _BITS or (want == "string" and have == "int64"):
            raise DecodeError(f"cannot convert {have} to {shape.go}")
    raise DecodeError(f"unrecognized type: {want}")


def _wrapped(value: int, kind: str) -> int:
    """The lower bits, as Go keeps them; a float beyond 64 bits has none."""
    value = value if -(2**63) <= value < 2**63 else -(2**63)
    bits = _BITS[kind]
    value %= 2**bits
    return value - 2**bits if kind[0] == "i" and value >= 2 ** (bits - 1) else value


def _custom(value: Any, shape: Custom) -> Any:
    """Types with a JSON form of their own decode the value's JSON by themselves."""
    text = to_text(encode_sorted(value))
    return Decoder(text).decode(parse(text), shape)
