"""Structural schemas at work: pruning, defaults, embedded resources, list types, ratcheting."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.apiextensions.strategy import behaviors
from understudy.kinds.apiextensions.structural_schema.json_values import compile_properties
from understudy.kinds.apiextensions.structural_schema.schema import StructuralSchema
from understudy.kinds.context import Context
from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_33, V1_36, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PRESERVED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {**PRESERVED, "x-kubernetes-embedded-resource": True}


def schema_of(spec: Obj, release: Version = V1_36, **fields: Any) -> StructuralSchema:
    return StructuralSchema({"type": "object", "properties": {"spec": spec, **fields}}, release)


def obj_of(spec: Any) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def texts(errors: Errors, release: Version = V1_36) -> list[str]:
    return sorted(error.text(release) for error in errors)


def test_fields_with_one_schema_are_compiled_once() -> None:
    """Properties whose schema is one object share what it compiles to; one that is only equal is compiled itself."""
    seen: list[Obj] = []
    compiled = compile_properties({"properties": {"a": STRING, "b": STRING, "c": dict(STRING)}}, seen.append)
    assert list(compiled) == ["a", "b", "c"]
    assert seen == [STRING, STRING]
    pruned = schema_of({"properties": {"a": (part := {"properties": {"x": STRING}}), "b": part}})
    assert pruned.coerce(obj_of({"a": {"x": 1, "y": 2}, "b": {"y": 3}}))["spec"] == {"a": {"x": 1}, "b": {}}


@pytest.mark.parametrize("strategy", ["strategy", "status"])
def test_stored_definitions_keep_equal_schemas_once(strategy: str) -> None:
    """A definition that is created or updated, its status included, has one object for the equal schemas of fields."""
    definition: Obj = {"spec": {"versions": [{"schema": {name: dict(STRING) for name in "ab"}}]}}
    behavior = behaviors(V1_36)["apiextensions.k8s.io", "CustomResourceDefinition"]
    getattr(behavior, strategy).canonicalize(definition, Context(V1_36, Gates.of(V1_36), "v1"))
    schema = definition["spec"]["versions"][0]["schema"]
    assert schema["a"] is schema["b"]


@pytest.mark.parametrize(
    ("schema", "value", "pruned", "unknown"),
    [
        ({"properties": {"a": STRING}}, {"a": 1, "b": 2}, {"a": 1}, ["spec.b"]),
        ({"properties": {"a": STRING}}, {"a": {"b": 1}}, {"a": {}}, ["spec.a.b"]),
        ({"properties": {"a": STRING}}, {"kind": "x"}, {}, ["spec.kind"]),
        ({"additionalProperties": STRING}, {"x": {"y": [{"z": 1}]}}, {"x": {}}, ["spec.x.y"]),
        ({"additionalProperties": True}, {"x": 1, "y": {"z": 1}}, {"x": 1, "y": {}}, ["spec.y.z"]),
        ({"properties": {"l": {"items": {}}}}, {"l": [{"a": 1}, 2]}, {"l": [{}, 2]}, ["spec.l[0].a"]),
        ({"properties": {"l": {}}}, {"l": [[{"b": 1, "a": 1}]]}, {"l": [[{}]]}, ["spec.l[0][0].a", "spec.l[0][0].b"]),
        (PRESERVED, {"a": {"b": 1}}, {"a": {"b": 1}}, []),
        (
            {**PRESERVED, "properties": {"a": {}}},
            {"a": {"b": 1}, "c": {"d": 1}},
            {"a": {}, "c": {"d": 1}},
            ["spec.a.b"],
        ),
        ({**PRESERVED, "items": {"properties": {}}}, [{"a": 1}], [{"a": 1}], []),
    ],
)
def test_unknown_fields_are_pruned(schema: Obj, value: Any, pruned: Any, unknown: list[str]) -> None:
    """Fields without a schema are removed, and their paths are reported in order."""
    paths: list[str] = []
    obj = obj_of(value)
    assert schema_of(schema).coerce(obj, paths)["spec"] == pruned
    assert paths == unknown
    assert obj == obj_of(value)


def test_metadata_is_not_pruned_by_the_schema() -> None:
    """Unknown fields of metadata are found by its own type; those of the root stand behind them."""
    paths: list[str] = []
    obj = {**obj_of({}), "metadata": {"name": "a", "nme": "a"}, "extra": 1}
    assert schema_of({}).coerce(obj, paths) == obj_of({})
    assert paths == ["metadata.nme", "extra"]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": STRING}}, {"a": None}, {}),
        ({"properties": {"a": {**STRING, "nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {**STRING, "default": "x"}}}, {"a": None}, {"a": "x"}),
        ({"properties": {"a": {**STRING, "default": "x"}}}, {}, {"a": "x"}),
        ({"properties": {"a": {**STRING, "default": "x", "nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}, {}, {"a": {"b": 1}}),
        ({"properties": {"a": {"default": {"b": 1, "c": 1}, "properties": {"b": {}}}}}, {}, {"a": {"b": 1}}),
        ({"additionalProperties": {"properties": {"a": {"default": 1}}}}, {"x": {}}, {"x": {"a": 1}}),
        ({"items": {"properties": {"a": {"default": 1}}}}, [{}, {"a": 2}], [{"a": 1}, {"a": 2}]),
        ({"items": {**STRING, "default": "x"}}, [None], ["x"]),
        ({"items": STRING}, [None], [None]),
    ],
)
def test_defaults_take_the_place_of_absent_fields_and_nulls(schema: Obj, value: Any, expected: Any) -> None:
    """A null that may not be is replaced by a default or removed; it stays an element of a list."""
    compiled = schema_of(schema)
    assert compiled.default(compiled.coerce(obj_of(value)))["spec"] == expected


def test_unchanged_objects_are_not_copied() -> None:
    """Parts that nothing changes in are shared with the object that was sent."""
    compiled = schema_of({"properties": {"a": {**STRING, "default": "x"}, "b": {"properties": {"c": STRING}}}})
    spec = {"a": "y", "b": {"c": "z"}}
    assert compiled.default(compiled.coerce(obj_of(spec)))["spec"] is spec


def test_metadata_of_embedded_resources_is_coerced() -> None:
    """Unknown fields of embedded metadata are removed; wrong types are errors, but in stored objects."""
    compiled = schema_of(EMBEDDED)
    paths: list[str] = []
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "nme": "y", "creationTimestamp": None}}
    assert compiled.coerce(obj_of(embedded), paths)["spec"] == {**embedded, "metadata": {"name": "x"}}
    assert paths == ["spec.metadata.nme"]
    broken = obj_of({"apiVersion": 1, "metadata": {"name": 1, "labels": {"a": "b"}}})
    with pytest.raises(DecodeError, match=r"spec.apiVersion: Invalid value: 1: must be a string"):
        compiled.coerce(broken)
    assert compiled.coerce(broken, stored=True)["spec"] == {"metadata": {"labels": {"a": "b"}}}


LIST_MAP = {
    "items": {"type": "object"},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"x-kubernetes-list-type": "set"}, [1, 1, 1.0, True, 1], ["spec[1]: Duplicate value: 1"]),
        ({"x-kubernetes-list-type": "set"}, [{"a": 1}, {"a": 1.0}], ['spec[1]: Duplicate value: {"a":1}']),
        (LIST_MAP, [{"name": "a"}, {"name": "a"}], ['spec[1]: Duplicate value: {"name":"a"}']),
        (LIST_MAP, [{"name": 1}, {"name": 1.0}], []),
        (
            {**LIST_MAP, "x-kubernetes-list-map-keys": ["name", "x"]},
            [{"name": 1}, {"name": True}, {"name": 1.0, "y": 1}],
            ['spec[2]: Duplicate value: {"name":1}'],
        ),
        (LIST_MAP, [{}, None], ["spec[1]: Duplicate value: {}"]),
        (LIST_MAP, [1], ["spec[0]: Invalid value: 1: must be an object for an array of list-type map"]),
        ({"additionalProperties": LIST_MAP}, {"x": [{}, {}]}, ["spec[x][1]: Duplicate value: {}"]),
    ],
)
def test_sets_and_list_maps_have_no_duplicates(schema: Obj, value: Any, expected: list[str]) -> None:
    """The second of equal elements is reported; numbers are equal if they are of one type."""
    assert texts(schema_of(schema).validate_list_types(obj_of(value))) == expected


SHORT = {"type": "string", "maxLength": 1}
ITEM = {"type": "object", "properties": {"name": STRING, "x": SHORT}}


@pytest.mark.parametrize(
    ("schema", "old", "new", "fields"),
    [
        ({"properties": {"a": SHORT, "b": SHORT}}, {"a": "long"}, {"a": "long", "b": "b"}, []),
        ({"properties": {"a": SHORT, "b": SHORT}}, {"a": "long"}, {"a": "other", "b": "long"}, ["spec.a", "spec.b"]),
        ({"properties": {"a": SHORT}, "anyOf": [{"required": ["b"]}]}, {"a": "x"}, {"a": "x"}, []),
        ({"properties": {"a": SHORT}, "anyOf": [{"required": ["b"]}]}, {"a": "x"}, {"a": "y"}, ["<nil>", "spec.b"]),
        ({"items": SHORT}, ["long"], ["long", "b"], ["spec[0]"]),
        ({**LIST_MAP, "items": ITEM}, [{"name": "a", "x": "long"}], [{"name": "b"}, {"name": "a", "x": "long"}], []),
        ({**LIST_MAP, "items": ITEM}, [{"name": "a", "x": "long"}], [{"name": "b", "x": "long"}], ["spec[0].x"]),
        ({**PRESERVED, "maxProperties": 0}, {"a": 1}, {"a": 1}, ["spec"]),
    ],
)
def test_unchanged_parts_may_be_wrong(schema: Obj, old: Any, new: Any, fields: list[str]) -> None:
    """An error is left out if its part of the object did not change; what cannot be matched counts as changed."""
    compiled = schema_of(schema)
    errors = compiled.validate_update(obj_of(new), obj_of(old))
    assert sorted(error.field for error in errors) == fields
    assert len(compiled.validate_update(obj_of(new), obj_of(old), ratchets=False)) > 0


@pytest.mark.parametrize(("release", "count"), [(V1_32, 1), (V1_33, 0)])
def test_unchanged_status_may_be_wrong_since_1_33(release: Version, count: int) -> None:
    """Before 1.33 the whole status is validated on every update of it."""
    compiled = schema_of({}, release, status={"type": "object", "properties": {"a": SHORT}})
    obj = {**obj_of({}), "status": {"a": "long"}}
    assert len(compiled.validate_status_update(obj, obj)) == count
