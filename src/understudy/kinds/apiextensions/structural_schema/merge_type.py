"""Types for server-side apply, made of structural schemas (upstream: kube-openapi's `schemaconv`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties
from understudy.machinery.patch.structured_merge_diff.typed import (
    DEDUCED,
    NEEDS_ALL_KEYS,
    UNTYPED,
    AtomicList,
    DeducedType,
    ListType,
    MapType,
    ScalarType,
    Type,
    type_of,
)
from understudy.machinery.releases.version import Version
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj

_SCALARS = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_EMBEDDED = "x-kubernetes-embedded-resource"


def merge_type(schema: Obj, version: Version, *, preserve_unknown_fields: bool = False) -> MapType:
    """Return the type of the objects of a version of a definition; {} is no schema."""
    if not schema:
        return DEDUCED.map
    return _ObjectType({**schema, _EMBEDDED: True}, version, preserve_unknown_fields)


class _ObjectType(MapType):
    """The type of the objects that a schema describes. `preserves`: whether these may have any other fields."""

    def __init__(self, schema: Obj, version: Version, preserves: bool) -> None:
        super().__init__(atomic=schema.get("x-kubernetes-map-type") == "atomic")
        self._schema = schema
        self._version = version
        self._preserves = preserves or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.element = self._other_fields(schema.get("additionalProperties"))

    def _other_fields(self, others: Any) -> Type | None:
        """Return the type of fields that are not declared, None if there may be none."""
        if isinstance(others, dict):
            return self._type(others)
        if others is None:
            is_open = self._preserves or not (self._schema.get("properties") or self._schema.get(_EMBEDDED))
            return DEDUCED if is_open else None
        return DEDUCED if others else None

    def _type(self, schema: Obj) -> Type:
        return _type_of_schema(schema, self._version, self._preserves)

    @cached_property
    def fields(self) -> dict[str, Type]:
        fields = compile_properties(self._schema, self._type)
        if self._schema.get(_EMBEDDED):
            string = ScalarType("string")
            fields |= {
                "apiVersion": string,
                "kind": string,
                "metadata": type_of(Schemas.of(self._version).object_meta),
            }
        return fields

    @cached_property
    def defaults(self) -> dict[str, Any]:
        properties = (self._schema.get("properties") or {}).items()
        return {name: part["default"] for name, part in properties if part.get("default") is not None}


def _type_of_schema(schema: Obj, version: Version, preserves: bool) -> Type:
    kind = schema.get("type") or ""
    if kind == "object":
        return _ObjectType(schema, version, preserves)
    if kind == "array":
        return _list_type(schema, version, preserves)
    if kind == "string":
        return ScalarType("string" if schema.get("format") in (None, "", "byte") else "untyped")
    if kind:
        return ScalarType(_SCALARS[kind])
    declares = schema.get("properties") or schema.get("additionalProperties") is not None or schema.get(_EMBEDDED)
    return DeducedType(_ObjectType(schema, version, preserves)) if declares else DEDUCED


def _list_type(schema: Obj, version: Version, preserves: bool) -> Type:
    items, kind = schema.get("items"), schema.get("x-kubernetes-list-type")
    preserves = preserves or bool(schema.get("x-kubernetes-preserve-unknown-fields"))

    def element() -> Type:
        return _type_of_schema(items, version, preserves) if isinstance(items, dict) else UNTYPED

    if kind not in ("set", "map"):
        return AtomicList(element)
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
    return ListType(element, keys, NEEDS_ALL_KEYS[version])
