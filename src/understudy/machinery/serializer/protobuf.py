"""Kubernetes protobuf: messages to canonical objects and back, one codec for every struct.

    decode(body, struct)      # as canonical as decode_json's result
    encode(obj, struct)       # the bytes that Go writes

Field numbers come from the types, wire types follow from the shapes. As in the generated Go code, fields that are not
pointers are always written, even when zero; inlined structs are separate messages; map keys are sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from understudy.machinery.serializer.json import decode_value
from understudy.machinery.serializer.json_fast import zero_value_of
from understudy.machinery.serializer.protobuf_values import CUSTOM, SCALARS, Codec, read_parts, read_text
from understudy.machinery.serializer.protobuf_wire import (
    BYTES,
    VARINT,
    encode_varint,
    length_delimited,
    make_envelope,
    open_envelope,
    read_fields,
    read_varint,
)
from understudy.machinery.typeinfo.go_types import Custom, Field, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import NamedTuple, Obj

__all__ = ["decode", "encode", "read_protobuf_type_meta"]


# Where labels are. The other fields of objects and metadata are named since `read_fields` takes longer to skip them.
_METADATA, _LABELS = 1, 11
_OBJECT = dict.fromkeys(range(1, 4), ("Object", (BYTES,)))
_OBJECT_META = dict.fromkeys(range(1, 18), ("ObjectMeta", (BYTES, VARINT)))
_LABEL = dict.fromkeys((1, 2), ("Labels", (BYTES,)))


def decode(body: bytes, struct: Struct) -> Obj:
    """Decode a body. Returns the canonical object, with the apiVersion and kind of the envelope. Raises DecodeError."""
    api_version, kind, message = open_envelope(body)
    obj = _message(struct).read(0, message, None)
    obj.update({"kind": kind, "apiVersion": api_version} if "kind" in struct.fields else {})
    return decode_value(obj, struct)[0]


def read_protobuf_type_meta(body: bytes) -> tuple[str, str]:
    """Return (apiVersion, kind) of a body. Raises DecodeError."""
    return open_envelope(body)[:2]


def read_labels(message: bytes) -> dict[str, str]:
    """Return the labels of the message of an object, whose other fields are skipped. Raises DecodeError."""
    labels = dict[str, str]()
    for member, _, metadata in read_fields(message, _OBJECT, "Object"):
        for field, _, label in read_fields(metadata if member == _METADATA else b"", _OBJECT_META, "ObjectMeta"):
            if field == _LABELS:
                texts = {number: read_text(0, text, None) for number, _, text in read_fields(label, _LABEL, "Labels")}
                labels[texts.get(1, "")] = texts.get(2, "")
    return labels


def encode(obj: Obj, struct: Struct) -> bytes:
    """Encode a canonical object as a body, in its envelope."""
    return make_envelope(obj.get("apiVersion", ""), obj.get("kind", ""), encode_message(obj, struct))


def encode_message(obj: Obj, struct: Struct) -> bytes:
    """Encode a canonical object, or a part of one, without an envelope."""
    return _message(struct).write(obj)


def _schema_or(shape: Custom) -> Codec:
    """Return the codec of a JSONSchemaPropsOr….

    Field 1 is the schema and field 2 the alternative; …OrBool has the boolean first and the schema second.
    """
    assert shape.schema is not None
    schema = _lazy(shape.schema)
    if shape.name == "JSONSchemaPropsOrBool":

        def read_bool(number: int, data: bytes, old: Any) -> Any:
            parts = read_parts(data, shape.name, ("Allows", VARINT), ("Schema", BYTES))
            return schema.read(0, parts[2], None) if 2 in parts else bool(parts.get(1))

        def write_bool(value: Any) -> bytes:
            if isinstance(value, dict):
                return b"\x08\x01" + length_delimited(b"\x12", schema.write(value))
            return b"\x08" + encode_varint(value)

        return Codec(BYTES, read_bool, write_bool)
    items = schema if shape.name == "JSONSchemaPropsOrArray" else SCALARS["string"]
    known = {1: ("Schema", (BYTES,)), 2: ("JSONSchemas", (BYTES,))}

    def read(number: int, data: bytes, old: Any) -> Any:
        value: Any = None
        for which, _, payload in read_fields(data, known, shape.name):
            if which == 1:
                value = schema.read(0, payload, None)
            else:
                value = [*(value or ()), items.read(0, payload, None)]
        return value

    def write(value: Any) -> bytes:
        if isinstance(value, list):
            return b"".join(length_delimited(b"\x12", items.write(item)) for item in value)
        return b"" if value is None else length_delimited(b"\x0a", schema.write(value))

    return Codec(BYTES, read, write)


def _strings(shape: List) -> Codec:
    """Return the codec of a named list of strings (ExtraValue, Verbs): a message with the items in field 1."""
    known = {1: ("Items", (BYTES,))}
    return Codec(
        BYTES,
        lambda number, data, old: [read_text(0, item, None) for _, _, item in read_fields(data, known, shape.named)],
        lambda value: b"".join(length_delimited(b"\x0a", item.encode()) for item in value or ()),
    )


def codec_of(shape: Shape) -> Codec:
    """Return the codec of a shape that is one value on the wire."""
    if isinstance(shape, Struct):
        return _lazy(shape)
    if isinstance(shape, Scalar):
        return SCALARS[shape.kind]
    if isinstance(shape, Custom):
        return _schema_or(shape) if shape.schema is not None else CUSTOM[shape.name]
    assert isinstance(shape, List)
    return _strings(shape)


# --- structs


class _Member(NamedTuple):
    """The functions that read a field into its struct's JSON and write it from there, and the wire types it may
    have."""

    read: Callable[[Obj, int, bytes], None]
    write: Callable[[Obj], bytes]
    wires: tuple[int, ...]


@cache
def _message(struct: Struct) -> Codec:
    """Return the codec of a struct."""
    members = {
        field.number: _member(field)
        for field in sorted(struct.declared, key=lambda field: field.number)
        if field.number
    }
    name = struct.type_name
    known = {field.number: (field.go_name, members[field.number].wires) for field in struct.declared if field.number}
    writers = [member.write for member in members.values()]

    def read(number: int, data: bytes, old: Any) -> Obj:
        obj: Obj = old if isinstance(old, dict) else {}
        for which, value, payload in read_fields(data, known, name):
            members[which].read(obj, value, payload)
        return obj

    def write(obj: Obj) -> bytes:
        return b"".join([write_member(obj) for write_member in writers])

    return Codec(BYTES, read, write)


def _lazy(struct: Struct) -> Codec:
    """Return a codec that compiles its struct when the first value comes: structs refer to each other in circles."""
    return Codec(
        BYTES,
        lambda number, data, old: _message(struct).read(number, data, old),
        lambda value: _message(struct).write(value),
    )


def _tag(number: int, wire: int) -> bytes:
    return encode_varint(number << 3 | wire)


def _framed(number: int, codec: Codec) -> Callable[[Any], bytes]:
    """Return a function that writes one value with its tag."""
    tag, write = _tag(number, codec.wire), codec.write
    if codec.wire == BYTES:
        return lambda value: length_delimited(tag, write(value))
    return lambda value: tag + write(value)


def _member(field: Field) -> _Member:
    if not field.json:
        return _inlined(field)
    if isinstance(field.type, Map):
        return _map_member(field, field.type)
    if isinstance(field.type, List) and not (field.type.named and field.type.element == Scalar("string", "string")):
        return _list_member(field, field.type)
    return _single_member(field)


def _inlined(field: Field) -> _Member:
    """Return the member for an inlined struct: a message on the wire, but its fields are among the others in JSON."""
    codec = codec_of(field.type)
    framed = _framed(field.number, codec)

    def read(obj: Obj, number: int, data: bytes) -> None:
        codec.read(number, data, obj)

    return _Member(read, framed, (BYTES,))


def _single_member(field: Field) -> _Member:
    codec, name = codec_of(field.type), field.json
    framed = _framed(field.number, codec)
    optional = field.pointer or field.type == Scalar("bytes", "[]uint8")
    zero = (
        {} if isinstance(field.type, Struct) else None if isinstance(field.type, List) else zero_value_of(field.type)()
    )

    def read(obj: Obj, number: int, data: bytes) -> None:
        obj[name] = codec.read(number, data, obj.get(name))

    def write(obj: Obj) -> bytes:
        value = obj.get(name)
        if value is None:
            return b"" if optional else framed(zero)
        return framed(value)

    return _Member(read, write, (codec.wire,))


def _list_member(field: Field, shape: List) -> _Member:
    codec, name = codec_of(shape.element), field.json
    framed = _framed(field.number, codec)
    zero: Callable[[], Any] = dict if isinstance(shape.element, Struct) else zero_value_of(shape.element)

    def read(obj: Obj, number: int, data: bytes) -> None:
        items = obj.setdefault(name, [])
        if codec.wire == VARINT and data:  # packed
            at = 0
            while at < len(data):
                number, at = read_varint(data, at, len(data))
                items.append(codec.read(number, b"", None))
            return
        items.append(codec.read(number, data, None))

    def write(obj: Obj) -> bytes:
        return b"".join([framed(zero() if item is None else item) for item in obj.get(name) or ()])

    return _Member(read, write, (codec.wire,) if codec.wire == BYTES else (codec.wire, BYTES))


def _map_member(field: Field, shape: Map) -> _Member:
    codec, name = codec_of(shape.value), field.json
    framed, tag = _framed(2, codec), _tag(field.number, BYTES)
    known = {1: ("key", (BYTES,)), 2: ("value", (codec.wire,))}
    zero = zero_value_of(shape.value)

    def read(obj: Obj, number: int, data: bytes) -> None:
        key, value = "", zero()
        for which, integer, payload in read_fields(data, known, field.go_name):
            if which == 1:
                key = read_text(0, payload, None)
            else:
                value = codec.read(integer, payload, None)
        obj.setdefault(name, {})[key] = value

    def write(obj: Obj) -> bytes:
        entries = sorted((obj.get(name) or {}).items())
        return b"".join(
            [length_delimited(tag, length_delimited(b"\x0a", key.encode()) + framed(value)) for key, value in entries]
        )

    return _Member(read, write, (BYTES,))
