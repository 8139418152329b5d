"""Canonical objects to CBOR, as apimachinery's serializer writes it.

    encode(obj, struct)     # with the tag of self-described CBOR
    encode_item(obj, struct)

Every string is a byte string, names of fields too. A `[]byte` has the tag that it is to be base64 one day, and a
float64 is a float however whole it is, in the fewest bytes that hold it: these two need the Go type. Fields stand in
the order that they have in JSON, but for those that `turn` moves: as upstream's, an answer looks different each time.
"""

from __future__ import annotations

import struct as structs
from base64 import b64decode
from collections.abc import Callable
from functools import cache
from random import random
from typing import Any

from understudy.machinery.golang.json_reader import to_bytes
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import Raw
from understudy.machinery.serializer.cbor.items import ARRAY, BYTES, KINDS, MAP, NEGATIVE, POSITIVE
from understudy.machinery.typeinfo.go_types import Custom, List, Map, Shape, Struct
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import call_deeply

Writer = Callable[[Any], bytes]  # of a value that is not None
PREFIX = b"\xd9\xd9\xf7"  # the tag of self-described CBOR (`selfDescribedCBOR`)
NULL = b"\xf6"
_SHORT_STRING, _LONG_STRING = b"\x40", b"\x58"  # heads of byte strings: of none to 23 bytes, of up to 255
_TURNS = 2 / 3  # the chance that one more pair is moved: of two pairs none, one and both alike, roughly
_LATER_BASE64 = b"\xd6"  # the tag
_HALF, _SINGLE, _DOUBLE = ((b"\xf9", ">e"), (b"\xfa", ">f"), (b"\xfb", ">d"))
_ARGUMENTS = ((24, 1 << 8, 1), (25, 1 << 16, 2), (26, 1 << 32, 4), (27, 1 << 64, 8))  # what, below, bytes


def encode(obj: Obj, struct: Struct | None) -> bytes:
    """Return an object as a body; without a Go type as a custom resource is encoded."""
    return PREFIX + shuffled(encode_item(obj, struct))


def shuffled(item: bytes) -> bytes:
    """Return an encoded map with its first pairs at the end. Upstream: `SortFastShuffle`."""
    return b"".join(turn(item))


def turn(item: bytes) -> tuple[bytes, bytes]:
    """Return an encoded map without its first pairs, and these: as many of those with short strings as chance takes.

    So no client can rely on an order, and what is encoded once serves all answers.
    """
    start = end = _first_pair(item)
    while random() < _TURNS and (at := _end_of_short_string(item, end)):
        if not (at := _end_of_short_string(item, at)):
            break
        end = at
    return item[:start] + item[end:], item[start:end]


def _first_pair(item: bytes) -> int:
    """Return the offset of the first pair of a map."""
    short = item[0] & 31
    return 1 if short < 24 else 1 + next(size for what, _, size in _ARGUMENTS if what == short)


def _end_of_short_string(item: bytes, start: int) -> int:
    """Return the end of the byte string of up to 255 bytes that begins at an offset, 0 if another item does."""
    initial = item[start : start + 1]
    if _SHORT_STRING <= initial < _LONG_STRING:
        return start + 1 + initial[0] - _SHORT_STRING[0]
    return start + 2 + item[start + 1] if initial == _LONG_STRING else 0


def encode_in_order(value: Obj) -> bytes:
    """Return a custom resource as a body with all keys in the order of their bytes, as it is stored (`Encode`)."""
    return PREFIX + write_any(_in_order(value))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value, key=write_any)}
    return [_in_order(child) for child in value] if isinstance(value, list) else value


def encode_item(obj: Obj, struct: Struct | None) -> bytes:
    """Return an object, or a part of one, without the tag of a body."""
    return call_deeply(write_any if struct is None else _struct_writer(struct), obj)


def head(kind: str, argument: int) -> bytes:
    """Return the head of an item: its major type and its value or length."""
    major = KINDS.index(kind) << 5
    if argument < 24:
        return bytes((major | argument,))
    what, _, size = next(row for row in _ARGUMENTS if argument < row[1])
    return bytes((major | what,)) + argument.to_bytes(size)


def array(items: list[bytes]) -> bytes:
    """Return an array of encoded items."""
    return head(ARRAY, len(items)) + b"".join(items)


def write_any(value: Any) -> bytes:
    """Return a value of JSON: an `interface{}` of Go."""
    if isinstance(value, Raw):
        return write_any(loads(value.compact()))
    if isinstance(value, str):
        data = to_bytes(value)
        return head(BYTES, len(data)) + data
    if isinstance(value, dict):
        return head(MAP, len(value)) + b"".join([write_any(key) + write_any(child) for key, child in value.items()])
    if isinstance(value, list):
        return array([write_any(child) for child in value])
    if value is None or isinstance(value, bool):
        return NULL if value is None else b"\xf5" if value else b"\xf4"
    if isinstance(value, float):
        return _write_float(value)
    return head(POSITIVE, value) if value >= 0 else head(NEGATIVE, -1 - value)


def _write_float(value: float) -> bytes:
    for initial, code in (_HALF, _SINGLE):
        try:
            packed = structs.pack(code, value)
        except OverflowError:
            continue
        if structs.unpack(code, packed)[0] == value:
            return initial + packed
    return _DOUBLE[0] + structs.pack(_DOUBLE[1], value)


def _write_bytes(value: str) -> bytes:
    data = b64decode(value)
    return _LATER_BASE64 + head(BYTES, len(data)) + data


def _writer(shape: Shape) -> Writer:
    """Return the function that writes values of a shape."""
    if isinstance(shape, Struct):
        return lambda value: _struct_writer(shape)(value)  # structs refer to each other in circles
    if isinstance(shape, List):
        element = _nullable(_writer(shape.element))
        return lambda value: array([element(child) for child in value])
    if isinstance(shape, Map):
        child = _nullable(_writer(shape.value))
        return lambda value: head(MAP, len(value)) + b"".join([write_any(k) + child(v) for k, v in value.items()])
    if isinstance(shape, Custom):
        return write_any if shape.schema is None else _schema_or(shape.schema)
    if shape.kind == "bytes":
        return _write_bytes
    return (lambda value: _write_float(float(value))) if shape.kind.startswith("float") else write_any


def _schema_or(schema: Struct) -> Writer:
    """Return the function that writes a JSONSchemaPropsOr…: a schema, schemas, or something else."""
    one, many = _writer(schema), _writer(List(schema, False))

    def write(value: Any) -> bytes:
        if isinstance(value, dict):
            return one(value)
        is_list = isinstance(value, list) and value and isinstance(value[0], dict)
        return many(value) if is_list else write_any(value)

    return write


def _nullable(write: Writer) -> Writer:
    return lambda value: NULL if value is None else write(value)


@cache
def _struct_writer(struct: Struct) -> Writer:
    """Return the function that writes objects of a Go type."""
    fields = {name: (write_any(name), _nullable(_writer(field.type))) for name, field in struct.fields.items()}

    def write(obj: Obj) -> bytes:
        parts = []
        for name, value in obj.items():
            key, write_value = fields[name]
            parts.append(key + write_value(value))
        return head(MAP, len(parts)) + b"".join(parts)

    return write
