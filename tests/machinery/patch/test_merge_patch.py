"""JSON merge patches: the cases of RFC 7386, and where the real server departs from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from understudy.machinery.errors import StatusError
from understudy.machinery.patch import merge_patch

CASES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"a": None}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ({"a": [1]}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
    ({"a": {"b": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),  # a list over an object keeps its nulls
]


@pytest.mark.parametrize(("current", "patch", "result"), CASES)
def test_cases_of_the_rfc(current: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    """The examples of RFC 7386 have their results."""
    before = json.dumps(current)
    assert merge_patch.apply(merge_patch.parse(json.dumps(patch).encode()), current) == result
    assert json.dumps(current) == before


def test_merged_objects_are_sorted() -> None:
    """An object that was merged has its keys sorted."""
    patch = merge_patch.Patch({"a": {"z": {"q": 1, "p": None, "o": 2}}}, [])
    assert json.dumps(merge_patch.apply(patch, {"b": {"y": 1, "x": 2}, "a": {"d": 1, "c": 2}})) == (
        '{"a": {"c": 2, "d": 1, "z": {"o": 2, "q": 1}}, "b": {"y": 1, "x": 2}}'
    )


BODIES = [
    ("[]", True, "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ("{", True, "error decoding patch: unexpected end of JSON input"),
    ("null", True, "Invalid JSON Patch"),
    ("{", False, "Invalid JSON Patch"),
    ('"x"', False, "Invalid JSON Patch"),
    ("null", False, "Invalid JSON Patch"),
]


@pytest.mark.parametrize(("body", "validate", "message"), BODIES)
def test_malformed_patches_are_refused(body: str, validate: bool, message: str) -> None:
    """A body that is no JSON object is refused in Go's words."""
    with pytest.raises(StatusError) as caught:
        merge_patch.parse(body.encode(), validate)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_list_replaces_the_document_without_field_validation() -> None:
    """With fieldValidation=Ignore, a list as the patch replaces the document."""
    assert merge_patch.apply(merge_patch.parse(b'[{"a":null}]', validate=False), {"a": 1}) == [{}]


def test_duplicate_key_keeps_its_last_value() -> None:
    """A duplicate key is a strict error, and its last value counts."""
    patch = merge_patch.parse(b'{"metadata":{"labels":{"a":"1","a":"2"}},"data":[{"b":1,"b":2}]}')
    assert patch.content == {"metadata": {"labels": {"a": "2"}}, "data": [{"b": 2}]}
    assert patch.strict_errors == ['duplicate field "metadata.labels.a"', 'duplicate field "data[0].b"']


def test_huge_integers_are_floats() -> None:
    """An integer beyond 64 bits becomes a float."""
    patch = merge_patch.parse(b'{"a":9223372036854775807,"b":9223372036854775808,"c":1e2}')
    assert json.dumps(patch.content) == '{"a": 9223372036854775807, "b": 9.223372036854776e+18, "c": 100.0}'
