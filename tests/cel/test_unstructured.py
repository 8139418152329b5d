"""JSON as CEL values by a structural schema, and CEL values as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.cel import EvaluationError
from understudy.cel.escaping import escape
from understudy.cel.interpreter.unstructured import converter, to_json
from understudy.cel.types import with_type_and_object_meta
from understudy.cel.values import Duration, ErrorValue, Timestamp, equal, raise_if_error
from understudy.machinery.golang.json_writer import GoFloat

STRINGS = {"type": "array", "items": {"type": "string"}}
ENTRY = {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
SET: dict[str, Any] = {**STRINGS, "x-kubernetes-list-type": "set"}
BY_KEY: dict[str, Any] = {
    "type": "array",
    "items": ENTRY,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
}


@pytest.mark.parametrize(
    ("schema", "value", "converted"),
    [
        ({"type": "integer"}, 1, 1),
        ({"type": "number"}, 1, 1.0),
        ({"type": "string"}, "a", "a"),
        ({"type": "boolean"}, True, True),
        ({"type": "string", "format": "byte"}, "aGk=", b"hi"),
        ({"type": "string", "format": "date"}, "1970-01-02", Timestamp(86400 * 10**9)),
        ({"type": "string", "format": "date-time"}, "1970-01-01T00:00:01Z", Timestamp(10**9)),
        ({"type": "string", "format": "date-time"}, "1970-01-01T00:00:01", Timestamp(10**9)),
        ({"type": "string", "format": "duration"}, "1h30m", Duration(5400 * 10**9)),
        ({"type": "string", "format": "duration"}, "2 days 1 hour", Duration(49 * 3600 * 10**9)),
        ({"type": "string", "format": "uuid"}, "x", "x"),
        ({"x-kubernetes-int-or-string": True}, 1, 1),
        ({"x-kubernetes-int-or-string": True}, "1", "1"),
        ({"type": "string", "nullable": True}, None, None),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}, {"a": 1.0}),
        (STRINGS, ["b", "a"], ["b", "a"]),
    ],
)
def test_schema_decides_the_value(schema: dict[str, Any], value: Any, converted: Any) -> None:
    """The type and the format of a schema decide which CEL value JSON becomes."""
    actual = converter(schema)(value)
    assert type(actual) is type(converted)
    assert actual == converted


def test_fields_have_escaped_names() -> None:
    """An object has its declared fields by their escaped names; one that is null counts as absent."""
    properties = {name: {"type": "string", "nullable": True} for name in ("a.b", "namespace", "none", "déjà")}
    convert = converter({"type": "object", "properties": properties})
    value = convert({"a.b": "1", "namespace": "2", "none": None, "déjà": "3", "unknown": "4"})
    assert dict(value) == {"a__dot__b": "1", "__namespace__": "2"}


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a", "a"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("if", "__if__"),
        ("0a", None),
        ("a b", None),
        ("", None),
    ],
)
def test_names_are_escaped(name: str, escaped: str | None) -> None:
    """A name that is no identifier is escaped, unless it has a character that cannot be."""
    assert escape(name) == escaped


def test_stored_float_is_a_double() -> None:
    """A float that Go and Python write differently is a double to rules, as `oldSelf` is once it is stored."""
    assert converter({"type": "number"})(GoFloat(-0.0)) == 0.0


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "string"}, 1, "invalid data, expected string, got int64"),
        ({"type": "integer"}, 1.0, "invalid data, expected int, got float64"),
        ({"type": "integer"}, GoFloat(1e19), "invalid data, expected int, got float64"),
        ({"type": "integer"}, None, "invalid data, got null for schema with nullable=false"),
        ({"type": "object"}, [], "invalid data, expected a map for the provided schema with type=object"),
        ({"type": "string", "format": "duration"}, "x", "Invalid duration x: unable to parse x as duration"),
    ],
)
def test_data_that_does_not_fit_fails_where_it_is_used(schema: dict[str, Any], value: Any, text: str) -> None:
    """Data that its schema does not allow converts to an error, which is raised by what reads it."""
    converted = converter(schema)(value)
    assert isinstance(converted, ErrorValue)
    with pytest.raises(EvaluationError, match=text):
        raise_if_error(converted)


def test_order_of_a_set_does_not_count() -> None:
    """Two sets are equal if they have the same elements, and adding them drops what is there twice."""
    convert = converter(SET)
    assert equal(convert(["a", "b"]), convert(["b", "a"]))
    assert not equal(convert(["a", "b"]), convert(["b", "c"]))
    assert not equal(converter(STRINGS)(["a", "b"]), convert(["b", "a"]))
    assert list(convert(["a", "b"]) + convert(["b", "c"])) == ["a", "b", "c"]


def test_elements_of_a_map_list_are_found_by_key() -> None:
    """Two lists with keys are equal in any order, and adding them replaces the elements that have the same keys."""
    convert = converter(BY_KEY)
    one, two = {"k": "1", "v": 1}, {"k": "2", "v": 2}
    assert equal(convert([one, two]), convert([two, one]))
    assert not equal(convert([one, two]), convert([{**two, "v": 3}, one]))
    changed = convert([one, two]) + convert([{**one, "v": 3}, {"k": "3"}])
    assert to_json(changed) == [{"k": "1", "v": 3}, two, {"k": "3"}]
    assert equal(changed, convert([{"k": "3"}, two, {**one, "v": 3}]))


def test_fields_that_are_not_declared_are_compared() -> None:
    """Two objects with different undeclared fields are not equal."""
    convert = converter(ENTRY)
    assert equal(convert({"k": "1", "more": [1]}), convert({"k": "1", "more": [1]}))
    assert not equal(convert({"k": "1", "more": [1]}), convert({"k": "1", "more": [2]}))


def test_whole_objects_have_names() -> None:
    """The schema of a whole object or an embedded one declares kind, apiVersion and the names in metadata."""
    value = {"kind": "K", "apiVersion": "v1", "metadata": {"name": "n", "uid": "u"}, "spec": 1}
    names = {"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}}
    schema = {"type": "object", "properties": {"spec": {"type": "integer"}}}
    assert to_json(converter(with_type_and_object_meta(schema))(value)) == {**names, "spec": 1}
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    assert to_json(converter(embedded)(value)) == names


@pytest.mark.parametrize(
    ("value", "json"),
    [
        ({"a": [1, 1.5, True, None, "s"]}, {"a": [1, 1.5, True, None, "s"]}),
        (b"hi", "aGk="),
        (Duration(15 * 10**8), "1.5s"),
        (Timestamp(10**9), "1970-01-01T00:00:01Z"),
    ],
)
def test_values_become_json(value: Any, json: Any) -> None:
    """A value becomes the JSON that stands for it."""
    assert to_json(value) == json


def test_value_without_json_form_is_an_error() -> None:
    """A map with keys that are no strings has no JSON form."""
    with pytest.raises(EvaluationError, match="unsupported map key type"):
        to_json({1: 2})
