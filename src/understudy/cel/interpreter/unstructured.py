"""JSON as CEL values, by the structural schema that describes it (`UnstructuredToVal`), and CEL values as JSON.

    convert = converter({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}})
    convert(["a", "b"])

A schema is compiled once. Data that does not fit its schema becomes an error that is raised where it is used. JSON that
no schema describes, as policies see it, needs no conversion: its Python values are CEL values.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from understudy.cel.errors import EvaluationError
from understudy.cel.escaping import escape
from understudy.cel.interpreter.field_access import Message
from understudy.cel.library.time import format_duration, format_timestamp, parse_timestamp
from understudy.cel.types import DYN, Type, list_of, map_of, with_type_and_object_meta
from understudy.cel.values import Declared, Duration, ErrorValue, Optional, Timestamp, Value, equal, map_keys
from understudy.machinery.golang.json_scalars import base64_error_offset
from understudy.machinery.golang.times import DATE_LAYOUT, LOCAL_LAYOUT, layout_error, parse_duration
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex

Converter = Callable[[Any], Value]
"""Makes the CEL value of a JSON value."""


class SetList(Declared, list[Value]):
    """A list with `x-kubernetes-list-type: set`: its order does not count, and `+` adds what is missing."""

    __slots__ = ("raw",)
    cel_type = list_of(DYN)

    def __init__(self, values: Iterable[Value], raw: list[Any]) -> None:
        super().__init__(values)
        self.raw = raw

    def equals(self, other: Value) -> bool:
        """Report whether a list has the same elements. Upstream compares them in their JSON form."""
        if not isinstance(other, list) or len(self) != len(other):
            return False
        known = {(type(each), each) for each in self.raw}
        return all((type(each), each) in known for each in other if _is_scalar(each)) and all(map(_is_scalar, other))

    def __add__(self, other: list[Value]) -> SetList:
        known = {(type(each), each) for each in self.raw}
        added = [each for each in other if (type(each), each) not in known]
        return SetList([*self, *added], [*self.raw, *added])


def _is_scalar(value: Value) -> bool:
    """Report whether a value is the same in JSON."""
    return isinstance(value, (bool, int, float, str))


class MapList(Declared, list[Value]):
    """A list with `x-kubernetes-list-type: map`: its order does not count, and `+` replaces elements by their keys."""

    __slots__ = ("keys", "raw")
    cel_type = list_of(DYN)

    def __init__(self, values: Iterable[Value], raw: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(values)
        self.raw = raw
        self.keys = keys

    def equals(self, other: Value) -> bool:
        """Report whether a list has equal elements with the same keys."""
        if not isinstance(other, list) or len(self) != len(other):
            return False
        own = {self._key_of(raw): value for raw, value in zip(self.raw, self, strict=True)}
        return all((key := self._key_of(_raw(value))) in own and equal(own[key], value) for value in other)

    def __add__(self, other: list[Value]) -> MapList:
        entries = {self._key_of(raw): (raw, value) for raw, value in zip(self.raw, self, strict=True)}
        entries |= {self._key_of(_raw(value)): (_raw(value), value) for value in other}
        return MapList([value for _, value in entries.values()], [raw for raw, _ in entries.values()], self.keys)

    def _key_of(self, raw: Any) -> tuple[Any, ...]:
        """Return the values of the keys in an element. Upstream looks for them by their escaped names."""
        if not isinstance(raw, dict):
            return (id(raw),)
        return tuple((type(raw.get(key)), raw.get(key)) for key in self.keys)


def _raw(value: Value) -> Any:
    return value.raw if isinstance(value, ObjectMap) else value


class ObjectMap(Declared, dict[str, Value]):
    """An object with properties: a map from their escaped names; `raw` also has fields that are not declared."""

    __slots__ = ("raw",)
    cel_type = map_of(DYN, DYN)

    def __init__(self, values: Mapping[str, Value], raw: Obj) -> None:
        super().__init__(values)
        self.raw = raw

    def equals(self, other: Value) -> bool:
        """Report whether another object has equal fields, including those that are not declared."""
        if not isinstance(other, dict):
            return False
        if not isinstance(other, ObjectMap):
            return len(self.raw) == len(other) and all(key in other and equal(self[key], other[key]) for key in self)
        if len(self.raw) != len(other.raw) or self.keys() != other.keys():
            return False
        if any(not equal(value, other[key]) for key, value in self.items()):
            return False
        return all(other.raw.get(key, value) == value for key, value in self.raw.items() if escape(key) not in self)


class Preserved:
    """A value without a type, kept by `x-kubernetes-preserve-unknown-fields`: it can only be compared."""

    __slots__ = ("raw",)
    cel_type = Type("opaque", "unknown")

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preserved) and bool(self.raw == other.raw)

    def __hash__(self) -> int:
        return hash(Preserved)


def converter(schema: Obj) -> Converter:
    """Return the conversion of the JSON values that a structural schema describes."""
    convert = _converter(schema)
    if schema.get("nullable"):
        return lambda value: None if value is None else convert(value)
    null = _error("invalid data, got null for schema with nullable=false")
    return lambda value: null if value is None else convert(value)


def _converter(schema: Obj) -> Converter:
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string
    match schema.get("type"):
        case "object":
            return _object_converter(schema)
        case "array":
            return _array_converter(schema)
        case "string":
            return _string_converter(schema.get("format") or "")
        case "number":
            return _number
        case "integer":
            return _typed(int, "int")
        case "boolean":
            return _typed(bool, "bool")
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return Preserved
    return lambda _value: _error(f"{_INVALID_TYPE}{schema.get('type') or ''}")


_INVALID_TYPE = (
    "invalid type, expected object, array, number, integer, boolean or string, or no type with "
    "x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got "
)


def _error(text: str) -> ErrorValue:
    return ErrorValue(EvaluationError(text))


_GO_TYPES: Mapping[type, str] = {
    bool: "bool",
    dict: "map[string]interface {}",
    int: "int64",
    list: "[]interface {}",
    str: "string",
}


def _misfit(expected: str, value: Any) -> ErrorValue:
    go_type = "float64" if isinstance(value, float) else _GO_TYPES[type(value)]
    return _error(f"invalid data, expected {expected}, got {go_type}")


def _typed(kind: type, name: str) -> Converter:
    """Return the conversion of values of one Python type, which are CEL values as they are."""
    return lambda value: value if type(value) is kind else _misfit(name, value)


def _number(value: Any) -> Value:
    return float(value) if isinstance(value, float) or type(value) is int else _misfit("float", value)


def _int_or_string(value: Any) -> Value:
    if type(value) in (int, str):
        return value
    return _error("invalid data, expected XIntOrString value to be either a string or integer")


def _object_converter(schema: Obj) -> Converter:
    wrong = _error("invalid data, expected a map for the provided schema with type=object")
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_type_and_object_meta(schema)
    others = schema.get("additionalProperties")
    if not schema.get("properties") and isinstance(others, dict):
        convert = converter(others)

        def convert_map(value: Any) -> Value:
            return {key: convert(each) for key, each in value.items()} if isinstance(value, dict) else wrong

        return convert_map
    properties = {
        name: (escaped, converter(part))
        for name, part in (schema.get("properties") or {}).items()
        if (escaped := escape(name)) is not None
    }

    def convert_object(value: Any) -> Value:
        if not isinstance(value, dict):
            return wrong
        fields = {}
        for name, each in value.items():
            if each is not None and (field := properties.get(name)) is not None:
                fields[field[0]] = field[1](each)  # a field that is null counts as absent
        return ObjectMap(fields, value)

    return convert_object


def _array_converter(schema: Obj) -> Converter:
    wrong = _error("invalid data, expected an array for the provided schema with type=array")
    if not isinstance(schema.get("items"), dict):
        return lambda _value: _error("invalid array type, expected Items with a non-empty Schema")
    convert = converter(schema["items"])
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = tuple(escape(key) or key for key in schema.get("x-kubernetes-list-map-keys") or ())
            return lambda value: MapList(map(convert, value), value, keys) if isinstance(value, list) else wrong
        case "set":
            return lambda value: SetList(map(convert, value), value) if isinstance(value, list) else wrong
    return lambda value: list(map(convert, value)) if isinstance(value, list) else wrong


def _string_converter(text_format: str) -> Converter:
    parse = _FORMATS.get(text_format)
    if parse is None:
        return _typed(str, "string")
    return lambda value: parse(value) if isinstance(value, str) else _misfit("string", value)


_SCALA_DURATION = regex(r"(\d+)[\t\n\f\r ]*([A-Za-zµ]+)", re.ASCII)
_UNITS: tuple[tuple[tuple[str, ...], str, int], ...] = (
    (("ns",), "nano", 1),
    (("us", "µs"), "micro", 10**3),
    (("ms",), "milli", 10**6),
    (("s",), "sec", 10**9),
    (("m",), "min", 60 * 10**9),
    (("h", "hr"), "hour", 3600 * 10**9),
    (("d",), "day", 24 * 3600 * 10**9),
    (("w", "wk"), "week", 7 * 24 * 3600 * 10**9),
)


def _duration(text: str) -> Value:
    """Return the value of a duration in Go's notation, or of numbers with units such as `2 days 3 hours`."""
    nanos = parse_duration(text)
    if nanos is not None:
        return Duration(nanos)
    parts = [
        int(number) * size
        for number, unit in _SCALA_DURATION.findall(text)
        for names, prefix, size in _UNITS
        if unit.lower() in names or unit.lower().startswith(prefix)
    ]
    if not parts:
        return _error(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration(sum(parts))


def _date(text: str) -> Value:
    if error := layout_error(text, DATE_LAYOUT):
        return _error(f"Invalid date formatted string {text}: {error}")
    return parse_timestamp(f"{text}T00:00:00Z")


def _date_time(text: str) -> Value:
    moment = Timestamp(0) if not text else parse_timestamp(text) or parse_timestamp(f"{text}Z")
    if moment is None:
        return _error(f"Invalid date-time formatted string {text}: {layout_error(text, LOCAL_LAYOUT)}")
    return moment


def _bytes(text: str) -> Value:
    offset = base64_error_offset(text)
    if offset is not None:
        return _error(f"Invalid byte formatted string {text}: illegal base64 data at input byte {offset}")
    return b64decode(text)


_FORMATS: Mapping[str, Converter] = {"byte": _bytes, "date": _date, "date-time": _date_time, "duration": _duration}


def to_json(value: Value) -> Any:
    """Return a CEL value as JSON. Raises `EvaluationError` for one that JSON has no form of.

    Bytes become base64, durations seconds (`1.5s`), timestamps RFC 3339, and an optional its value.
    """
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return int(value)
        case bytes():
            return b64encode(value).decode()
        case list():
            return [to_json(each) for each in value]
        case dict():
            return {_json_key(key): to_json(each) for key, each in zip(map_keys(value), value.values(), strict=True)}
        case Message():
            return {name: to_json(each) for name, each in value.values.items()}
        case Duration():
            return format_duration(value)
        case Timestamp():
            return format_timestamp(value)
        case Optional():
            return to_json(value.value)
        case ErrorValue(error=error):
            raise error
    raise EvaluationError(f"unsupported type conversion to JSON: {type(value).__name__}")


def _json_key(key: Value) -> str:
    if isinstance(key, str):
        return key
    raise EvaluationError("unsupported map key type in JSON")
