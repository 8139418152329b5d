"""Defaults of a structural schema, and nulls that stand for absent fields (upstream: `apiserver/schema/defaulting`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties, map_items
from understudy.machinery.types import Obj

Change = Callable[[Any], Any]  # returns the value itself if nothing changes


def compile_defaults(schema: Obj, prepare: Callable[[Any, Obj], Any]) -> Change | None:
    """Return the function that sets the defaults within a value (upstream: `Default`), None if there are none.

    A null is replaced by the default of its field unless it may be null. `prepare` returns the default of a schema as
    it is to be used (upstream: `PruneDefaults`).
    """

    def compile_child(part: Any) -> _Default | None:
        if not isinstance(part, dict):
            return None
        within = compile_defaults(part, prepare)
        default = part.get("default")
        if default is not None:
            default = prepare(default, part)
            default = within(default) if within else default
        elif within is None:
            return None
        return _Default(default, bool(part.get("nullable")), within)

    properties = compile_properties(schema, compile_child)
    fields = {name: child for name, child in properties.items() if child is not None}
    others, items = compile_child(schema.get("additionalProperties")), compile_child(schema.get("items"))
    if not fields and others is None and items is None:
        return None

    def set_defaults(value: Any) -> Any:
        if isinstance(value, dict):
            return _default_object(value, fields, others, properties)
        if isinstance(value, list) and items is not None:
            return map_items(value, items.apply)
        return value

    return set_defaults


class _Default:
    """The default of a field (None: none), and those within its value."""

    __slots__ = ("default", "nullable", "within")

    def __init__(self, default: Any, nullable: bool, within: Change | None) -> None:
        self.default = default
        self.nullable = nullable
        self.within = within

    def apply(self, value: Any) -> Any:
        """Return a value with its defaults."""
        if value is None:
            return None if self.nullable else self.default
        return self.within(value) if self.within is not None else value


def _default_object(
    value: Obj, fields: Mapping[str, _Default], others: _Default | None, known: Mapping[str, Any]
) -> Obj:
    out = value
    for name, child in fields.items():
        if name in value:
            new = child.apply(value[name])
        elif child.default is not None:
            new = child.default
        else:
            continue
        if name not in value or new is not value[name]:
            out = dict(value) if out is value else out
            out[name] = new
    if others is not None:
        for name, item in value.items():
            new = item if name in known else others.apply(item)
            if new is not item:
                out = dict(value) if out is value else out
                out[name] = new
    return out


def compile_null_pruner(schema: Obj) -> Change | None:
    """Return the function that removes fields that are null, may not be null and have no default (upstream:
    `PruneNonNullableNullsWithoutDefaults`). None if nothing can be removed."""
    properties = compile_properties(schema, _compile_field)
    others_schema, items_schema = schema.get("additionalProperties"), schema.get("items")
    others = _compile_field(others_schema) if isinstance(others_schema, dict) else (False, None)
    items = compile_null_pruner(items_schema) if isinstance(items_schema, dict) else None
    if not any(removes or within for removes, within in (*properties.values(), others)) and items is None:
        return None

    def prune(value: Any) -> Any:
        if isinstance(value, dict):
            return _prune_nulls(value, properties, others)
        if isinstance(value, list) and items is not None:
            return map_items(value, items)
        return value

    return prune


_Field = tuple[bool, Change | None]  # whether a null is removed, and what removes nulls within the value


def _compile_field(schema: Obj) -> _Field:
    return not schema.get("nullable") and schema.get("default") is None, compile_null_pruner(schema)


def _prune_nulls(value: Obj, properties: Mapping[str, _Field], others: _Field) -> Obj:
    out = value
    for name, item in value.items():
        removes, within = properties.get(name, others)
        if item is None:
            if removes:
                out = dict(value) if out is value else out
                del out[name]
        elif within is not None:
            new = within(item)
            if new is not item:
                out = dict(value) if out is value else out
                out[name] = new
    return out
