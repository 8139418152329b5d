"""Validation of values against the schemas of custom resources, with the texts of go-openapi."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

import orjson

from understudy.admission.validation.apiextensions import schema_formats
from understudy.machinery.golang.text import go_quote, go_scalar
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Untyped
from understudy.machinery.validation.field import (
    Errors,
    FieldError,
    Path,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

_KINDS = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}


def validate(value: Any, schema: Obj, path: Path) -> Errors:
    """Return what is wrong with a value that a schema describes, each error once."""
    errors: Errors = []
    for error in _Validator(path).check(value, schema, ""):
        if error not in errors:
            errors.append(error)
    return errors


def _kind(value: Any) -> str:
    kind = next((kind for of, kind in _KINDS.items() if isinstance(value, of)), "null")
    return "number" if kind == "integer" and not -(2**63) <= value < 2**63 else kind


def _is_whole(number: float) -> bool:
    """Report whether a number is an integer to go-openapi: up to 2**53, and within a trifle of a whole number."""
    if not abs(number) < 2**53:
        return False
    whole = math.trunc(number)
    return number == whole or (number > 1 and (number - whole) / (number + whole) < 1e-9)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int):
        return value % step == 0
    return _is_whole(1 / step * value if step < 1 else value / step)


class _Validator:
    """The validation of one value at `path`; places inside of it are texts such as `.a.b[0]`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _at(self, place: str) -> Path:
        inside = place.removeprefix(".")
        return self._path.child(inside) if inside else self._path

    def check(self, value: Any, schema: Obj, place: str) -> Iterator[FieldError]:
        """Yield what is wrong with the value at a place."""
        kind = _kind(value)
        if value is None:
            if schema.get("type") and not schema.get("nullable"):
                yield self._wrong_type(schema["type"], kind, place)
            return
        yield from self._type(value, kind, schema, place)
        yield from self._logic(value, schema, place)
        if kind == "string":
            yield from self._text(value, schema, place)
        elif kind in ("integer", "number"):
            yield from self._numeric(int(value) if kind == "integer" else float(value), schema, place)
        elif kind == "array":
            yield from self._array(value, schema, place)
        yield from self._enum(value, schema, place)
        if kind == "object":
            yield from self._object(value, schema, place)

    def _wrong_type(self, expected: str, kind: str, place: str) -> FieldError:
        return type_invalid(self._at(place), kind, f'{place} in body must be of type {expected}: "{kind}"')

    def _type(self, value: Any, kind: str, schema: Obj, place: str) -> Iterator[FieldError]:
        expected = schema.get("type")
        whole = kind == "number" and expected == "integer" and _is_whole(value)
        if expected and expected != kind and not whole and (kind, expected) != ("integer", "number"):
            yield self._wrong_type(expected, kind, place)

    def _logic(self, value: Any, schema: Obj, place: str) -> Iterator[FieldError]:
        checked = {
            name: [list(self.check(value, part, place)) for part in schema.get(name) or ()]
            for name in ("anyOf", "oneOf", "allOf")
        }
        if checked["anyOf"] and all(checked["anyOf"]):
            yield self._about(f'"{place}" must validate at least one schema (anyOf)')
            yield from checked["anyOf"][0]
        fitting = sum(not wrong for wrong in checked["oneOf"])
        if checked["oneOf"] and fitting != 1:
            outcome = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            yield self._about(f'"{place}" must validate one and only one schema (oneOf). {outcome}')
            yield from [] if fitting else checked["oneOf"][0]
        yield from (error for wrong in checked["allOf"] for error in wrong)
        if any(checked["allOf"]):
            none = ". None validated" if all(checked["allOf"]) else ""
            yield self._about(f'"{place}" must validate all the schemas (allOf){none}')
        if schema.get("not") is not None and not list(self.check(value, schema["not"], place)):
            yield self._about(f'"{place}" must not validate the schema (not)')

    def _about(self, text: str) -> FieldError:
        return invalid(self._path, "", text)

    def _text(self, value: str, schema: Obj, place: str) -> Iterator[FieldError]:
        """Yield the first rule that a text breaks, and its wrong format."""
        most, least, pattern = (schema.get(name) for name in ("maxLength", "minLength", "pattern"))
        if most is not None and len(value) > most:
            yield too_long(self._at(place), most)
        elif least is not None and len(value) < least:
            yield self._wrong(value, f"should be at least {least} chars long", place)
        elif pattern and not _matches(value, pattern):
            yield self._wrong(value, f"should match '{pattern}'", place)
        form = schema.get("format")
        if form and not schema_formats.fits(value, form):
            yield type_invalid(self._at(place), value, f"{place} in body must be of type {form}: {go_quote(value)}")

    def _wrong(self, value: Any, text: str, place: str) -> FieldError:
        return invalid(self._at(place), value, f"{place} in body {text}")

    def _numeric(self, value: float, schema: Obj, place: str) -> Iterator[FieldError]:
        """Check a number. For an integer all that it is compared with is made an integer."""
        step, least, most = (
            None if schema.get(name) is None else type(value)(schema[name])
            for name in ("multipleOf", "minimum", "maximum")
        )
        if step is not None and step <= 0:
            text = f"factor MultipleOf declared for {place} must be positive: {go_scalar(step)}"
            yield invalid(self._at(place), step, text)
        elif step is not None and not _is_multiple(value, step):
            yield self._wrong(value, f"should be a multiple of {go_scalar(step)}", place)
        for limit, sign, word in ((least, 1, "greater"), (most, -1, "less")):
            exclusive = schema.get("exclusiveMinimum" if sign > 0 else "exclusiveMaximum")
            if limit is not None and ((value - limit) * sign < 0 or (exclusive and value == limit)):
                bound = f"{word} than" if exclusive else f"{word} than or equal to"
                yield self._wrong(value, f"should be {bound} {go_scalar(limit)}", place)

    def _array(self, value: list[Any], schema: Obj, place: str) -> Iterator[FieldError]:
        if isinstance(schema.get("items"), dict):
            for i, item in enumerate(value):
                yield from self.check(item, schema["items"], f"{place}[{i}]")
        yield from self._size(value, schema, "Items", place)

    def _size(self, value: Sized, schema: Obj, unit: str, place: str) -> Iterator[FieldError]:
        least, most = schema.get(f"min{unit}"), schema.get(f"max{unit}")
        if least is not None and len(value) < least:
            yield self._wrong(len(value), f"should have at least {least} {unit.lower()}", place)
        if most is not None and len(value) > most:
            yield too_many(self._at(place), len(value), most)

    def _enum(self, value: Any, schema: Obj, place: str) -> Iterator[FieldError]:
        allowed = schema.get("enum")
        if allowed and value not in allowed:
            texts = [item if isinstance(item, str) else orjson.dumps(item).decode() for item in allowed]
            yield not_supported(self._at(place), Untyped(value), texts)

    def _object(self, value: Obj, schema: Obj, place: str) -> Iterator[FieldError]:
        yield from self._size(value, schema, "Properties", place)
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            item_schema = properties.get(name, others)
            if isinstance(item_schema, dict):
                yield from self.check(item, item_schema, f"{place}.{name}" if place or name not in properties else name)
        yield from (required(self._at(f"{place}.{name}")) for name in schema.get("required") or () if name not in value)


def _matches(value: str, pattern: str) -> bool:
    from understudy.machinery.golang.regexp import compile_pattern  # here, since most schemas have none

    return compile_pattern(pattern).search(value) is not None
