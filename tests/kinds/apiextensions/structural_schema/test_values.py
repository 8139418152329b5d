"""Validation of values against the schemas of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.kinds.apiextensions.structural_schema.json_values import with_go_numbers
from understudy.kinds.apiextensions.structural_schema.values import compile_values, validate
from understudy.machinery.releases.version import V1_32

NOT_POSITIVE = "factor MultipleOf declared for  must be positive:"


def messages(value: Any, schema: Any) -> list[str]:
    return [error.body(V1_32) for error in validate(compile_values(schema, V1_32), with_go_numbers(value), "f")]


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (4, 2, ""),
        (3, 2, "Invalid value: 3:  in body should be a multiple of 2"),
        (4, 1.5, ""),
        (4.0, 1.5, "Invalid value: 4:  in body should be a multiple of 1.5"),
        (0.3, 0.1, ""),
        (-0.3, 0.1, ""),
        (0.35, 0.1, "Invalid value: 0.35:  in body should be a multiple of 0.1"),
        (1e30, 2, "Invalid value: 1e+30:  in body should be a multiple of 2"),
        (2, 0.5, f"Invalid value: 0: {NOT_POSITIVE} 0"),
        (2.5, -2, f"Invalid value: -2: {NOT_POSITIVE} -2"),
    ],
)
def test_multiple_of(value: float, step: float, text: str) -> None:
    """`multipleOf` of an integer is cut to an integer; floats may differ by a rounding error."""
    assert messages(value, {"type": "number", "multipleOf": step}) == ([text] if text else [])


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        (2, {"minimum": 1234567.5}, "Invalid value: 2:  in body should be greater than or equal to 1234567"),
        (2.5, {"minimum": 1234567.5}, "Invalid value: 2.5:  in body should be greater than or equal to 1.2345675e+06"),
        (1e22, {"maximum": 1e21, "exclusiveMaximum": True}, "Invalid value: 1e+22:  in body should be less than 1e+21"),
        (5, {"minimum": 5, "exclusiveMinimum": True}, "Invalid value: 5:  in body should be greater than 5"),
        (10**20, {"maximum": 1}, "Invalid value: 1e+20:  in body should be less than or equal to 1"),
    ],
)
def test_bounds_in_messages(value: float, schema: Any, text: str) -> None:
    """Messages print bounds as Go's %v does, and without fractions if the value is an integer."""
    assert messages(value, schema) == [text]


@pytest.mark.parametrize(("value", "kind"), [(1.5, "number"), (1e22, "number"), (10**20, "number"), ("1", "string")])
def test_integer_type(value: Any, kind: str) -> None:
    """An integer has at most 64 bits; a whole float that is not too large is one, too."""
    text = f' in body must be of type integer: "{kind}"'
    assert messages(value, {"type": "integer"}) == [f'Invalid value: "{kind}": {text}']
    assert messages(2.0, {"type": "integer"}) == []


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("c", '"c"'),
        (False, "false"),
        (["b", None, 1.5], '[]interface {}{"b", interface {}(nil), 1.5}'),
        ([10**20, 1000000], "[]interface {}{1e+20, 1000000}"),
        ({"b": {}, "a": True}, 'map[string]interface {}{"a":true, "b":map[string]interface {}{}}'),
    ],
)
def test_enum_prints_value_in_go_syntax(value: Any, printed: str) -> None:
    """The message of a value outside of an enum shows it in Go's syntax, and the supported values in JSON."""
    texts = messages(value, {"enum": [[1], "x"]})
    assert texts == [f'Unsupported value: {printed}: supported values: "[1]", "x"']
