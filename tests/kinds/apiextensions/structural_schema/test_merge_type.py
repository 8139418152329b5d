"""Types for server-side apply that are made of structural schemas."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.apiextensions.structural_schema.merge_type import merge_type
from understudy.machinery.patch.structured_merge_diff.merge import merge
from understudy.machinery.patch.structured_merge_diff.typed import InvalidValue, MapType
from understudy.machinery.patch.structured_merge_diff.typed_validation import validate
from understudy.machinery.releases.version import V1_32, V1_36, Version
from understudy.machinery.types import Obj

STRING = {"type": "string"}
ITEM = {"type": "object", "properties": {"name": STRING, "port": {"type": "integer", "default": 1}, "x": STRING}}
LIST_MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name", "port"],
    "items": ITEM,
}
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": STRING}
LIST = {"type": "array", "items": STRING}
ATOMIC = {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": STRING}
PRESERVED = {"x-kubernetes-preserve-unknown-fields": True}


def type_of(spec: Obj, release: Version = V1_36) -> MapType:
    return merge_type({"type": "object", "properties": {"spec": spec}}, release)


@pytest.mark.parametrize(
    ("spec", "live", "applied", "merged"),
    [
        ({"type": "object", "properties": {"a": STRING, "b": STRING}}, {"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
        (ATOMIC, {"a": "1"}, {"b": "2"}, {"b": "2"}),
        (SET, ["a", "b"], ["c", "b"], ["a", "c", "b"]),
        (LIST, ["a", "b"], ["c"], ["c"]),
        (
            LIST_MAP,
            [{"name": "a", "port": 1, "x": "1"}, {"name": "b", "port": 1}],
            [{"name": "b"}, {"name": "a"}],
            [{"name": "b", "port": 1}, {"name": "a", "port": 1, "x": "1"}],
        ),
        (PRESERVED, {"a": {"b": 1}, "l": [1]}, {"a": {"c": 1}, "l": [2]}, {"a": {"b": 1, "c": 1}, "l": [2]}),
        ({**PRESERVED, "properties": {"s": SET}}, {"s": ["a"]}, {"s": ["b"]}, {"s": ["a", "b"]}),
        ({"x-kubernetes-int-or-string": True}, 1, "50%", "50%"),
    ],
)
def test_schema_says_what_is_merged(spec: Obj, live: Any, applied: Any, merged: Any) -> None:
    """Maps are merged unless they are atomic, lists only if they are sets or maps."""
    assert merge(type_of(spec), {"spec": live}, {"spec": applied}) == {"spec": merged}


@pytest.mark.parametrize(
    ("spec", "applied", "error"),
    [
        (STRING, 1, ".spec: expected string, got &value.valueUnstructured{Value:1}"),
        ({**STRING, "format": "date"}, 1, ""),
        ({"type": "object", "properties": {"a": STRING}}, {"b": 1}, ".spec.b: field not declared in schema"),
        ({"type": "object", "properties": {"a": STRING}, **PRESERVED}, {"b": 1}, ""),
        ({"type": "object"}, {"b": 1}, ""),
        ({"properties": {"a": STRING}, **PRESERVED}, {"a": 1}, ".spec.a: expected string, got"),
        (SET, ["a", "a"], '.spec: duplicate entries for key [="a"]'),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, {"kind": 1}, ".spec.kind: expected string, got"),
    ],
)
def test_applied_object_fits_its_schema(spec: Obj, applied: Any, error: str) -> None:
    """Undeclared fields and values of a wrong type are refused; what may have any fields may have any."""
    text = ""
    try:
        validate(type_of(spec), {"spec": applied})
    except InvalidValue as raised:
        text = str(raised)
    assert text.startswith(error)
    assert bool(text) == bool(error)


@pytest.mark.parametrize(("spec", "value"), [({"type": "object", "properties": {"a": STRING}}, "x"), (SET, {"a": 1})])
def test_values_of_another_type_have_no_fields(spec: Obj, value: Any) -> None:
    """A text where a map or list belongs has no owners; validation refuses the object afterwards."""
    kind = type_of(spec)
    with pytest.raises(InvalidValue, match=r"expected (map|list), got"):
        kind.added_fields({"spec": value})
    with pytest.raises(InvalidValue, match=r"expected (map|list), got"):
        kind.compare({"spec": {"a": "1"} if spec is not SET else ["a"]}, {"spec": value})


@pytest.mark.parametrize(("release", "refused"), [(V1_32, True), (V1_36, False)])
def test_keys_of_list_maps_may_be_left_out_since_1_34(release: Version, refused: bool) -> None:
    """Before 1.34 an element needs all keys that have no default."""
    keys = {**LIST_MAP, "items": {"type": "object", "properties": {"name": STRING, "port": {"type": "integer"}}}}
    try:
        validate(type_of(keys, release), {"spec": [{"name": "a"}]})
    except InvalidValue:
        assert refused
    else:
        assert not refused


def test_metadata_has_its_own_type() -> None:
    """Metadata is merged as in built-in kinds, whatever the schema says of it."""
    live = {"metadata": {"finalizers": ["a/a"], "labels": {"a": "1"}}}
    applied = {"metadata": {"finalizers": ["b/b"], "labels": {"b": "2"}}}
    merged = {"metadata": {"finalizers": ["a/a", "b/b"], "labels": {"a": "1", "b": "2"}}}
    assert merge(type_of({"type": "object"}), live, applied) == merged
