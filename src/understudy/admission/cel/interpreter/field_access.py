"""What is inside a value: fields, items, their presence, and the messages an expression can construct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.admission.cel.errors import EvaluationError
from understudy.admission.cel.library.time import new_well_known_message
from understudy.admission.cel.types import Type
from understudy.admission.cel.values import NONE, Optional, Value, is_number, map_key, type_name


class MapWithDefault(dict[Any, Value]):
    """`device.attributes` and `device.capacity`: what is not there is an empty map, but only when it is looked up."""

    def __missing__(self, key: Any) -> Value:
        return {}


def index(value: Value, key: Value) -> Value:
    if isinstance(value, dict):
        try:
            return value[map_key(key)]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {format_key(key)}") from None
    if isinstance(value, list):
        return value[_list_index(value, key)]
    if isinstance(value, Optional):
        return optional_field(value, key)
    if isinstance(value, Message):
        return select_field(value, key)
    raise EvaluationError(f"no such key: {format_key(key)}")


def _list_index(values: list[Value], key: Value) -> int:
    if not is_number(key):
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    if key != int(key):
        raise EvaluationError(f"unsupported index value {format_key(key)} in list")
    if not 0 <= key < len(values):
        raise EvaluationError(f"index out of bounds: {int(key)}")
    return int(key)


def select_field(value: Value, field: str) -> Value:
    if isinstance(value, Message):
        return value.get(field)
    if isinstance(value, Optional):
        return optional_field(value, field)
    return index(value, field)


def has_field(value: Value, field: str) -> bool:
    if isinstance(value, Optional):
        return value is not NONE and has_field(value.value, field)
    if isinstance(value, MapWithDefault):
        return True
    if isinstance(value, dict):
        return field in value
    if isinstance(value, Message):
        return field in value.values
    return False


def optional_field(value: Value, key: Value) -> Optional:
    """`a.?b` and `a[?b]`."""
    if isinstance(value, Optional):
        if value is NONE:
            return NONE
        value = value.value
    if isinstance(value, MapWithDefault):
        return Optional(value[map_key(key)])
    if isinstance(value, dict):
        name = map_key(key)
        return Optional(value[name]) if name in value else NONE
    if isinstance(value, list):
        inside = is_number(key) and key == int(key) and 0 <= key < len(value)
        return Optional(value[int(key)]) if inside else NONE
    if isinstance(value, Message):
        return Optional(value.values[key]) if key in value.values else NONE
    raise EvaluationError(f"no such key: {format_key(key)}")


def optional_entry(value: Value) -> Optional:
    if isinstance(value, Optional):
        return value
    raise EvaluationError(f"cannot initialize optional entry from non-optional value {value!r}")


def format_key(key: Value) -> str:
    """A key as error messages name it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return f"{key:g}"
    return f"{int(key)}" if isinstance(key, int) else str(key)


class Message:
    """A constructed message that has no CEL value of its own, such as `kubernetes.DRADevice{…}`."""

    def __init__(self, name: str, values: Mapping[str, Value], fields: Mapping[str, Type]) -> None:
        self.name = name
        self.values = values
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.name, self.values) == (other.name, other.values)

    __hash__ = None  # type: ignore[assignment]

    def get(self, field: str) -> Value:
        """A field, or its zero value."""
        if field in self.values:
            return self.values[field]
        return {"string": "", "bool": False, "int": 0, "double": 0.0, "bytes": b""}.get(
            self.fields[field].kind, {} if self.fields[field].kind == "map" else None
        )


def new_message(name: str, values: dict[str, Value], fields: Mapping[str, Type]) -> Value:
    short = name.removeprefix("google.protobuf.")
    if short != name:
        if short in ("Duration", "Timestamp"):
            return new_well_known_message(short, values)
        if short.endswith("Value") and "value" in fields:
            return values.get("value", Message(name, {}, fields).get("value"))
        if short == "Struct":
            return values.get("fields", {})
        if short == "ListValue":
            return values.get("values", [])
        if short == "Value":
            return next(iter(values.values()), None)
    if name.startswith("kubernetes.") or short != name:
        return Message(name, values, fields)
    raise EvaluationError(f"unknown type '{name}'")
