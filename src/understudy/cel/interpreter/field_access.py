"""Access to the fields and elements of values, tests for their presence, and construction of messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from understudy.cel.errors import EvaluationError
from understudy.cel.library.time import new_well_known_message
from understudy.cel.types import Type
from understudy.cel.values import NONE, Composite, Optional, Value, is_number, map_key, type_name
from understudy.machinery.golang.text import go_scalar


class MapWithDefault(dict[Any, Value]):
    """The maps `device.attributes` and `device.capacity`: an absent domain is an empty map when it is looked up."""

    def __missing__(self, key: Any) -> Value:
        return {}


def index(value: Value, key: Value) -> Value:
    """Return `value[key]`. Raises `EvaluationError` if there is no such element."""
    if isinstance(value, dict):
        try:
            return value[map_key(key)]
        except (KeyError, TypeError):
            raise EvaluationError(f"no such key: {format_key(key)}") from None
    if isinstance(value, list):
        position = _list_index(value, key)
        if position is None:
            raise EvaluationError(f"index out of bounds: {format_key(key)}")
        return value[position]
    if isinstance(value, Optional):
        return optional_field(value, key)
    if isinstance(value, Message):
        return select_field(value, key)
    raise EvaluationError(f"no such key: {format_key(key)}")


def _list_index(values: list[Value], key: Value) -> int | None:
    """Return a key as an index, None if it is out of bounds. Upstream: `IndexOrError`.

    Raises `EvaluationError` for a key that is no number, or no whole number of 64 bits.
    """
    if not is_number(key):
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    is_whole = -_LIMIT < key < _LIMIT and key.is_integer() if isinstance(key, float) else key < _LIMIT
    if not is_whole:
        raise EvaluationError(f"unsupported index value {format_key(key)} in list")
    return int(key) if 0 <= key < len(values) else None


_LIMIT = 2**63


def select_field(value: Value, field: str) -> Value:
    """Return `value.field`; a field of a message that is not set has its zero value."""
    if isinstance(value, Message):
        return value.get(field)
    if isinstance(value, Optional):
        return optional_field(value, field)
    return index(value, field)


def has_field(value: Value, field: str) -> bool:
    """Report whether a value has a field; `MapWithDefault` has every one. Raises `EvaluationError` for a list."""
    if isinstance(value, Optional):
        return value is not NONE and has_field(value.value, field)
    if isinstance(value, MapWithDefault):
        return True
    if isinstance(value, dict):
        return field in value
    if isinstance(value, list):
        return _list_index(value, field) is not None
    return isinstance(value, Message) and field in value.values


def optional_field(value: Value, key: Value) -> Optional:
    """Return `value.?key` or `value[?key]`: the element as an optional, `NONE` if there is no such element.

    Raises `EvaluationError` for a key that no list can have.
    """
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
        position = _list_index(value, key)
        return NONE if position is None else Optional(value[position])
    if isinstance(value, Message) and key in value.values:
        return Optional(value.values[key])
    return NONE


def optional_entry(value: Value) -> Optional:
    """Return the value of an optional list element or map entry, which must be an optional."""
    if isinstance(value, Optional):
        return value
    raise EvaluationError(f"cannot initialize optional entry from non-optional value {value!r}")


def format_key(key: Value) -> str:
    """Return a key as error messages show it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return go_scalar(key)
    return f"{int(key)}" if isinstance(key, int) else str(key)


class Message(Composite):
    """A constructed message that is no CEL value of another type, such as `kubernetes.DRADevice{…}`."""

    def __init__(self, name: str, values: Mapping[str, Value], fields: Mapping[str, Type]) -> None:
        self.name = name
        self.values = values
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.name, self.values) == (other.name, other.values)

    __hash__ = None  # type: ignore[assignment]

    def parts(self) -> Collection[Value]:
        return self.values.values()

    def get(self, field: str) -> Value:
        """Return the value of a field, or its zero value."""
        if field in self.values:
            return self.values[field]
        return {"string": "", "bool": False, "int": 0, "double": 0.0, "bytes": b""}.get(
            self.fields[field].kind, {} if self.fields[field].kind == "map" else None
        )


def new_message(name: str, values: dict[str, Value], fields: Mapping[str, Type]) -> Value:
    """Return the value of a message literal; the well-known messages become the CEL values that they stand for.

    Raises `EvaluationError` for an unknown type.
    """
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
    if name.startswith(("kubernetes.", "Object.")) or name in ("Object", "JSONPatch") or short != name:
        return Message(name, values, fields)
    raise EvaluationError(f"unknown type '{name}'")
