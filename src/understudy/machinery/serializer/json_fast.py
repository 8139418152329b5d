"""Parsed JSON -> canonical object, fast: what Go would encode after decoding the value into its struct and storing it.

Fields come in Go's order, unknown ones are an exception, what is empty is left out or shown as Go's types say. Every
struct is compiled once to a closure. Whatever is not plain sailing (a wrong type, an unknown field, raw bytes that
cannot be found again) raises `Odd`, and `exact` takes over from the start.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeAlias

from understudy.machinery import quantity
from understudy.machinery.golang.json_writer import Raw, encode, go_number, go_untyped, raw
from understudy.machinery.golang.times import TimeError, canonical_micro_time, canonical_time
from understudy.machinery.serializer.source import Odd, Source
from understudy.machinery.typeinfo.schema import Custom, Field, List, Map, Scalar, Shape, Struct
from understudy.machinery.types import Obj


class Sparse(dict[str, Any]):
    """A struct some of whose lists or maps were empty, but not nil, before they were left out or became null: `empty`
    has their JSON names. Only error texts that print Go values tell (`godump`), and who owns what (`patch.deep`)."""

    __slots__ = ("empty",)

    empty: tuple[str, ...]


# (value, source) -> canonical value; null and what is missing are not passed to it.
Convert: TypeAlias = Callable[[Any, Source | None], Any]

_RANGES = {
    "int": 63, "int64": 63, "int32": 31, "int16": 15, "int8": 7, "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8
}  # fmt: skip


def string(value: Any, source: Source | None) -> str:
    if type(value) is not str:
        if isinstance(value, str):
            return str(value)
        raise Odd
    return value


def boolean(value: Any, source: Source | None) -> bool:
    if type(value) is not bool:
        raise Odd
    return value


def _integer(kind: str) -> Convert:
    least, most = (0 if kind.startswith("u") else -(2 ** _RANGES[kind])), 2 ** _RANGES[kind]

    def integer(value: Any, source: Source | None) -> int:
        if type(value) is not int or not least <= value < most:
            raise Odd
        return value

    return integer


def number(value: Any, source: Source | None) -> Any:
    if type(value) is not float and type(value) is not int:
        raise Odd
    return go_number(float(value))


def octets(value: Any, source: Source | None) -> str:
    """[]byte: base64, whose spare bits and line breaks do not survive."""
    if type(value) is not str:
        raise Odd
    try:
        plain = b64decode(value, validate=True)
    except ValueError as error:
        raise Odd from error
    text = b64encode(plain).decode()
    if len(text) != len(value):
        raise Odd
    return text


def anything(value: Any, source: Source | None) -> Any:
    """Return a value of type `interface{}`: keys sorted, whole numbers within 64 bits kept, others as float64."""
    return go_untyped(value)


def _time(convert: Callable[[str], str | None]) -> Convert:
    def time(value: Any, source: Source | None) -> str | None:
        if type(value) is not str:
            raise Odd
        try:
            return convert(value)
        except TimeError as error:
            raise Odd from error

    return time


def _quantity(pointer: bool) -> Convert:
    def amount(value: Any, source: Source | None) -> str:
        if type(value) is int or isinstance(value, str):
            value = str(value)
        else:
            raise Odd
        try:
            return quantity.canonical(value, pointer)
        except quantity.QuantityError as error:
            raise Odd from error

    return amount


def _int_or_string(value: Any, source: Source | None) -> str | int:
    if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
        return value
    raise Odd


def _raw(key: str) -> Convert:
    """RawExtension under `key`; without a key it has to be raw already, or to have no text."""

    def raw_extension(value: Any, source: Source | None) -> Any:
        if isinstance(value, (Raw, bool)):
            return value
        if source is None:
            return raw(value, encode(value))
        if not key:
            raise Odd
        return raw(value, source.raw(key, value))

    return raw_extension


def _keep(value: Any, source: Source | None) -> Any:
    """FieldsV1: read and written anew by whoever manages fields."""
    return value


def _schema_or(other: Convert, schema: Struct) -> Convert:
    """JSONSchemaPropsOr…: a schema or something else."""

    def schema_or(value: Any, source: Source | None) -> Any:
        if type(value) is dict:
            return converter(schema)(value, source)
        return other(value, source)

    return schema_or


def _schemas(schema: Struct) -> Convert:
    def schemas(value: Any, source: Source | None) -> Any:
        if type(value) is not list:
            raise Odd
        return [converter(schema)(item, source) for item in value] or None

    return schemas


def _strings(value: Any, source: Source | None) -> Any:
    if type(value) is not list:
        raise Odd
    return [string(item, source) for item in value] or None


def _custom(shape: Custom, key: str, pointer: bool) -> Convert:
    simple: dict[str, Convert] = {
        "Time": _time(canonical_time),
        "MicroTime": _time(canonical_micro_time),
        "Quantity": _quantity(pointer),
        "IntOrString": _int_or_string,
        "FieldsV1": _keep,
        "JSON": anything,
    }
    if shape.name == "RawExtension":
        return _raw(key)
    if shape.schema is not None:
        others = {"JSONSchemaPropsOrArray": _schemas(shape.schema), "JSONSchemaPropsOrBool": boolean}
        return _schema_or(others.get(shape.name, _strings), shape.schema)
    return simple[shape.name]


def _list(shape: List) -> Convert:
    convert = convert_shape(shape.element)
    null = (lambda: None) if shape.pointer else zero_of(shape.element)

    def list_(value: Any, source: Source | None) -> Any:
        if not isinstance(value, list):
            raise Odd
        return [null() if item is None else convert(item, source) for item in value]

    return list_


def _map(shape: Map) -> Convert:
    convert = convert_shape(shape.value)
    null = zero_of(shape.value)

    def map_(value: Any, source: Source | None) -> Any:
        if not isinstance(value, dict):
            raise Odd
        keys = sorted(value) if len(value) > 1 else value
        return {key: null() if value[key] is None else convert(value[key], source) for key in keys}

    return map_


_ZEROS: dict[str, Any] = {"string": "", "bool": False, "bytes": "", "interface": None}
_CUSTOM_ZEROS: dict[str, Any] = {"Quantity": "0", "IntOrString": 0}


def zero_of(shape: Shape) -> Callable[[], Any]:
    """Makes what Go writes for a value of that type which was never set and is not left out."""
    if isinstance(shape, Struct):
        return lambda: converter(shape)({}, None)
    if isinstance(shape, Scalar):
        value = _ZEROS.get(shape.kind, 0)
    else:
        value = _CUSTOM_ZEROS.get(shape.name) if isinstance(shape, Custom) else None
    return lambda: value


def convert_shape(shape: Shape, key: str = "", pointer: bool = False) -> Convert:
    """The converter of a shape, for a value under the JSON name `key` or behind a pointer there."""
    if isinstance(shape, Struct):
        return _lazily(shape)
    if isinstance(shape, List):
        return _list(shape)
    if isinstance(shape, Map):
        return _map(shape)
    if isinstance(shape, Custom):
        return _custom(shape, key, pointer)
    simple = {"string": string, "bool": boolean, "bytes": octets, "interface": anything}
    if shape.kind in simple:
        return simple[shape.kind]
    return number if shape.kind.startswith("float") else _integer(shape.kind)


def _lazily(struct: Struct) -> Convert:
    """Structs refer to each other in circles: one is compiled when its first value comes."""
    compiled: Convert | None = None

    def convert(value: Any, source: Source | None) -> Any:
        nonlocal compiled
        if compiled is None:
            compiled = converter(struct)
        return compiled(value, source)

    return convert


# What is stored as JSON, not as protobuf: there empty lists stay lists, where they are not left out.
_STORED_AS_JSON = ("k8s.io/apiextensions-apiserver/", "k8s.io/kube-aggregator/")


@cache
def converter(struct: Struct) -> Convert:
    """The compiled converter of a struct."""
    stored_as_json = struct.name.startswith(_STORED_AS_JSON)
    entries = [
        (
            field.json,
            convert_shape(field.type, field.json, field.pointer),
            _is_left_out(field),
            isinstance(field.type, (List, Map)) and (field.omitempty or not stored_as_json),
            _missing(field),
        )
        for field in struct.fields.values()
    ]
    names = frozenset(struct.fields)

    def convert(value: Any, source: Source | None) -> Obj:
        if not isinstance(value, dict) or not value.keys() <= names:
            raise Odd
        out: Obj = {}
        get = value.get
        empty: list[str] | None = None
        for name, convert_item, left_out, hollow, missing in entries:
            item = get(name)
            if item is None:
                if missing is not None:
                    out[name] = missing()
                continue
            item = convert_item(item, source)
            if item:
                out[name] = item
                continue
            if hollow:
                empty = [*(empty or ()), name]
                item = None
            if not left_out:
                out[name] = item
        return _sparse(out, empty) if empty else out

    return convert


def _sparse(obj: Obj, empty: Iterable[str]) -> Sparse:
    sparse = Sparse(obj)
    sparse.empty = tuple(empty)
    return sparse


def as_sparse_as(other: Obj, obj: Obj) -> Obj:
    """`obj`, with the same lists and maps noted as empty as in `other`, of whose fields it is made."""
    return _sparse(obj, other.empty) if isinstance(other, Sparse) else obj


def _is_left_out(field: Field) -> bool:
    """Whether the field is left out when it is empty: never so a struct, or what a pointer points to."""
    return field.omitempty and not field.pointer and isinstance(field.type, (Scalar, List, Map))


def _missing(field: Field) -> Callable[[], Any] | None:
    """Makes what stands for a field that is not set; None if it is left out."""
    nullable = field.pointer or isinstance(field.type, (List, Map)) or field.type == Scalar("bytes", "[]uint8")
    if nullable:
        return None if field.omitempty else lambda: None
    if field.omitempty and isinstance(field.type, Scalar):
        return None
    return zero_of(field.type)
