"""Parsed JSON to canonical objects, fast: what Go would encode after decoding the value into its struct and storing it.

Fields come in Go's order, empty ones are left out or written as Go's types say. Every struct is compiled once to a
closure. Anything unusual (a wrong type, an unknown field, raw bytes that cannot be found again) raises
`NeedsExactDecoder`, and `json_exact` starts over.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, TypeAlias

from understudy.machinery import quantity
from understudy.machinery.golang.json_writer import Raw, encode, go_interface, go_json, go_number, with_source
from understudy.machinery.golang.times import TimeError, canonical_micro_time, canonical_time
from understudy.machinery.serializer.json_raw import NeedsExactDecoder, SourceText
from understudy.machinery.typeinfo.go_types import Custom, Field, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj


class WithEmptyFields(dict[str, Any]):
    """A decoded struct that remembers which of its lists, maps and optional bytes were sent empty (Go: non-nil, length
    0), before they were left out or became null.

    `empty` has them by JSON name. Only error texts that print Go values (`validation.dump`), managed fields
    (`patch.apply.go_equality`) and webhooks, which see objects before they are stored, need the difference.
    """

    __slots__ = ("empty",)

    empty: Mapping[str, Any]


# (value, source) -> canonical value; it is not called for null and missing values.
Converter: TypeAlias = Callable[[Any, SourceText | None], Any]
# JSON name, converter, whether it is left out if empty, whether it is nil if empty, what stands for a missing value.
_Entry: TypeAlias = tuple[str, Converter, bool, bool, Callable[[], Any] | None]
_KEPT_PLANS = 256  # of a struct: objects that clients send have the same fields in the same order

_RANGES = {
    "int": 63, "int64": 63, "int32": 31, "int16": 15, "int8": 7, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8
}  # fmt: skip


def convert_string(value: Any, source: SourceText | None) -> str:
    """Return a string."""
    if type(value) is not str:
        if isinstance(value, str):
            return str(value)
        raise NeedsExactDecoder
    return value


def convert_boolean(value: Any, source: SourceText | None) -> bool:
    """Return a boolean."""
    if type(value) is not bool:
        raise NeedsExactDecoder
    return value


def _integer(kind: str) -> Converter:
    least, most = (0 if kind.startswith("u") else -(2 ** _RANGES[kind])), 2 ** _RANGES[kind]

    def integer(value: Any, source: SourceText | None) -> int:
        if type(value) is not int or not least <= value < most:
            raise NeedsExactDecoder
        return value

    return integer


def convert_float(value: Any, source: SourceText | None) -> Any:
    """Return a float64 as `go_number` has it. A 0 may have been written `-0`, which the parser does not keep."""
    if type(value) is not float and (type(value) is not int or value == 0):
        raise NeedsExactDecoder
    return go_number(float(value))


def convert_bytes(value: Any, source: SourceText | None) -> str:
    """Return the canonical base64 of a []byte: spare bits and line breaks do not survive."""
    if type(value) is not str:
        raise NeedsExactDecoder
    try:
        plain = b64decode(value, validate=True)
    except ValueError as error:
        raise NeedsExactDecoder from error
    text = b64encode(plain).decode()
    if len(text) != len(value):
        raise NeedsExactDecoder
    return text


def convert_interface(value: Any, source: SourceText | None) -> Any:
    """Return a value of type `interface{}`: keys sorted, whole numbers within 64 bits kept, others as float64."""
    return go_interface(value)


def _json(value: Any, source: SourceText | None) -> Any:
    """Return raw JSON, whose floats stay floats."""
    try:
        return go_json(value)
    except OverflowError:
        raise NeedsExactDecoder from None


def _time(convert: Callable[[str], str | None]) -> Converter:
    def time(value: Any, source: SourceText | None) -> str | None:
        if type(value) is not str:
            raise NeedsExactDecoder
        try:
            return convert(value)
        except TimeError as error:
            raise NeedsExactDecoder from error

    return time


def _quantity(pointer: bool) -> Converter:
    def amount(value: Any, source: SourceText | None) -> str:
        if type(value) is int or isinstance(value, str):
            value = str(value)
        else:
            raise NeedsExactDecoder
        try:
            return quantity.canonical_text(value, pointer)
        except quantity.QuantityError as error:
            raise NeedsExactDecoder from error

    return amount


def _int_or_string(value: Any, source: SourceText | None) -> str | int:
    if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    raise NeedsExactDecoder


def _raw(key: str) -> Converter:
    """Return the converter of a RawExtension under `key`; without a key the value has to be raw already, or to have no
    text."""

    def raw_extension(value: Any, source: SourceText | None) -> Any:
        if isinstance(value, (Raw, bool)):
            return value
        if source is None:
            return with_source(value, encode(value))
        if not key:
            raise NeedsExactDecoder
        return with_source(value, source.raw(key, value))

    return raw_extension


def _keep(value: Any, source: SourceText | None) -> Any:
    """Return a FieldsV1 as it is: managed fields are read and written elsewhere."""
    return value


def _schema_or(other: Converter, schema: Struct) -> Converter:
    """Return the converter of a JSONSchemaPropsOr…: a schema, or what `other` converts."""

    def schema_or(value: Any, source: SourceText | None) -> Any:
        if type(value) is dict:
            return struct_converter(schema)(value, source)
        return other(value, source)

    return schema_or


def _schemas(schema: Struct) -> Converter:
    def schemas(value: Any, source: SourceText | None) -> Any:
        if type(value) is not list:
            raise NeedsExactDecoder
        return [struct_converter(schema)(item, source) for item in value] or None

    return schemas


def _strings(value: Any, source: SourceText | None) -> Any:
    if type(value) is not list:
        raise NeedsExactDecoder
    return [convert_string(item, source) for item in value] or None


def _custom(shape: Custom, key: str, pointer: bool) -> Converter:
    simple: dict[str, Converter] = {
        "Time": _time(canonical_time),
        "MicroTime": _time(canonical_micro_time),
        "Quantity": _quantity(pointer),
        "IntOrString": _int_or_string,
        "FieldsV1": _keep,
        "JSON": _json,
    }
    if shape.name == "RawExtension":
        return _raw(key)
    if shape.schema is not None:
        others = {"JSONSchemaPropsOrArray": _schemas(shape.schema), "JSONSchemaPropsOrBool": convert_boolean}
        return _schema_or(others.get(shape.name, _strings), shape.schema)
    return simple[shape.name]


def _list(shape: List) -> Converter:
    convert = converter_of(shape.element)
    null = (lambda: None) if shape.pointer else zero_value_of(shape.element)

    def list_(value: Any, source: SourceText | None) -> Any:
        if not isinstance(value, list):
            raise NeedsExactDecoder
        return [null() if item is None else convert(item, source) for item in value]

    return list_


def _map(shape: Map) -> Converter:
    convert = converter_of(shape.value)
    null = zero_value_of(shape.value)

    def map_(value: Any, source: SourceText | None) -> Any:
        if not isinstance(value, dict):
            raise NeedsExactDecoder
        keys = sorted(value) if len(value) > 1 else value
        return {key: null() if value[key] is None else convert(value[key], source) for key in keys}

    return map_


_ZEROS: dict[str, Any] = {"string": "", "bool": False, "bytes": "", "interface": None}
# A quantity that is left out is another Go value than the 0 that is stored for it.
_CUSTOM_ZEROS: dict[str, Any] = {"Quantity": quantity.RewrittenQuantity("0", ""), "IntOrString": 0}


def zero_value_of(shape: Shape) -> Callable[[], Any]:
    """Return a function that makes what Go writes for a value of that type which was never set and is not left out."""
    if isinstance(shape, Struct):
        return lambda: struct_converter(shape)({}, None)
    if isinstance(shape, Scalar):
        value = _ZEROS.get(shape.kind, 0)
    else:
        value = _CUSTOM_ZEROS.get(shape.name) if isinstance(shape, Custom) else None
    return lambda: value


def converter_of(shape: Shape, key: str = "", pointer: bool = False) -> Converter:
    """Return the converter of a shape, for a value under the JSON name `key`. `pointer`: whether the field is a
    pointer."""
    if isinstance(shape, Struct):
        return struct_converter(shape)
    if isinstance(shape, List):
        return _list(shape)
    if isinstance(shape, Map):
        return _map(shape)
    if isinstance(shape, Custom):
        return _custom(shape, key, pointer)
    simple = {"string": convert_string, "bool": convert_boolean, "bytes": convert_bytes, "interface": convert_interface}
    if shape.kind in simple:
        return simple[shape.kind]
    return convert_float if shape.kind.startswith("float") else _integer(shape.kind)


_BYTES = Scalar("bytes", "[]uint8")

# Packages whose types are stored as JSON, not as protobuf: an empty list that is not left out stays a list.
_STORED_AS_JSON = ("k8s.io/apiextensions-apiserver/", "k8s.io/kube-aggregator/")


@cache
def _entries(struct: Struct) -> list[_Entry]:
    """Return the entries of all fields of a struct."""
    stored_as_json = struct.name.startswith(_STORED_AS_JSON)
    return [
        (
            field.json,
            converter_of(field.type, field.json, field.pointer),
            _is_left_out(field),
            _is_nil_if_empty(field, stored_as_json),
            _missing(field),
        )
        for field in struct.fields.values()
    ]


@cache
def struct_converter(struct: Struct) -> Converter:
    """Return the converter of a struct. It is compiled when the first value comes: structs refer to each other in
    circles."""

    @lru_cache(_KEPT_PLANS)
    def plan(names: tuple[str, ...]) -> list[_Entry]:
        """Return the entries of an object with these fields: theirs, and those of fields that are always written."""
        if not struct.fields.keys() >= set(names):
            raise NeedsExactDecoder
        return [entry for entry in _entries(struct) if entry[0] in names or entry[-1] is not None]

    def convert(value: Any, source: SourceText | None) -> Obj:
        if not isinstance(value, dict):
            raise NeedsExactDecoder
        out: Obj = {}
        get = value.get
        empty: Obj = {}
        for name, convert_item, left_out, nil_if_empty, missing in plan(tuple(value)):
            item = get(name)
            if item is None:
                if missing is not None:
                    out[name] = missing()
                continue
            if type(item) is not str or convert_item is not convert_string:  # most values are texts: not worth a call
                item = convert_item(item, source)
            if item:
                out[name] = item
                continue
            if nil_if_empty:
                empty[name] = item
                item = None
            if not left_out:
                out[name] = item
        return _with_empty_fields(out, empty) if empty else out

    return convert


def _with_empty_fields(obj: Obj, empty: Mapping[str, Any]) -> WithEmptyFields:
    sparse = WithEmptyFields(obj)
    sparse.empty = empty
    return sparse


def keep_empty_fields(source: Obj, obj: Obj, names: Container[str] | None = None) -> Obj:
    """Return `obj` with the note of empty fields that `source` has, of whose fields it is made.

    names  the fields to note; None for all
    """
    if not isinstance(source, WithEmptyFields):
        return obj
    empty = source.empty
    if names is not None:
        empty = {name: value for name, value in empty.items() if name in names}
    return _with_empty_fields(obj, empty) if empty else obj


def note_empty_fields(sent: Any, decoded: Any) -> Any:
    """Return a decoded value with notes of the lists and maps that are empty in `sent`, which it was made of."""
    if isinstance(sent, list) and isinstance(decoded, list):
        return [note_empty_fields(item, made) for item, made in zip(sent, decoded, strict=True)]
    if not isinstance(sent, dict) or not isinstance(decoded, dict):
        return decoded
    for name, value in sent.items():
        if value and isinstance(value, dict | list) and decoded.get(name):
            decoded[name] = note_empty_fields(value, decoded[name])
    empty = {name: value for name, value in sent.items() if value in ([], {}) and decoded.get(name) is None}
    return _with_empty_fields(decoded, empty) if empty else decoded


def has_empty_fields(value: Any) -> bool:
    """Report whether a list or map was sent without elements anywhere in a decoded value, and has none yet."""
    if isinstance(value, WithEmptyFields) and any(not value.get(name) for name in value.empty):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(has_empty_fields(item) for item in items)


def empty_fields(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and value ([], {} or "") of each field of a decoded value that was sent empty and has none yet."""
    if isinstance(value, WithEmptyFields):
        yield from (((*path, name), item) for name, item in value.empty.items() if not value.get(name))
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from empty_fields(item, (*path, name))


def as_sent(value: Any) -> Any:
    """Return a decoded value with its lists and maps that were sent empty instead of the nulls that they became."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        out = {name: as_sent(item) if isinstance(item, dict | list) else item for name, item in value.items()}
        if isinstance(value, WithEmptyFields):
            out |= {name: item for name, item in value.empty.items() if name in value and value[name] is None}
        return out
    return [as_sent(item) for item in value] if isinstance(value, list) else value


def _is_nil_if_empty(field: Field, stored_as_json: bool) -> bool:
    """Report whether a field that is sent empty is none once it is stored and read."""
    if isinstance(field.type, (List, Map)):
        return field.omitempty or not stored_as_json
    return field.type == _BYTES and field.omitempty and not field.pointer and not stored_as_json


def _is_left_out(field: Field) -> bool:
    """Report whether Go leaves the field out when it is empty: never a struct, nor what a pointer points to."""
    return field.omitzero or (field.omitempty and not field.pointer and isinstance(field.type, (Scalar, List, Map)))


def _missing(field: Field) -> Callable[[], Any] | None:
    """Return a function that makes what stands for a field that is not set, or None if the field is left out."""
    nullable = field.pointer or isinstance(field.type, (List, Map)) or field.type == _BYTES
    if nullable:
        return None if field.omitempty else lambda: None
    if field.omitzero or (field.omitempty and isinstance(field.type, Scalar)):
        return None
    return zero_value_of(field.type)


def was_sent_empty(obj: Any, name: str) -> bool:
    """Report whether a list or map of a decoded struct was sent without elements."""
    return isinstance(obj, WithEmptyFields) and name in obj.empty
