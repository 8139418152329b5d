"""Values against the schemas of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.validation.apiextensions.schema_values import validate
from understudy.machinery.validation.field import Path

NOT_POSITIVE = "factor MultipleOf declared for  must be positive:"


def wrong(value: Any, schema: Any) -> list[str]:
    return [error.body(NEWEST) for error in validate(value, schema, Path("f"))]


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
def test_multiples(value: float, step: float, text: str) -> None:
    """Beside an integer the step is one, too: its fraction is cut off. Floats may be off by a trifle."""
    assert wrong(value, {"type": "number", "multipleOf": step}) == ([text] if text else [])


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
def test_bounds(value: float, schema: Any, text: str) -> None:
    """As %v prints them; beside an integer without their fractions."""
    assert wrong(value, schema) == [text]


@pytest.mark.parametrize(("value", "kind"), [(1.5, "number"), (1e22, "number"), (10**20, "number"), ("1", "string")])
def test_what_is_no_integer(value: Any, kind: str) -> None:
    """Integers have 64 bits; of other numbers those that are whole and not too large are taken."""
    text = f' in body must be of type integer: "{kind}"'
    assert wrong(value, {"type": "integer"}) == [f'Invalid value: "{kind}": {text}']
    assert wrong(2.0, {"type": "integer"}) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("c", '"c"'),
        (False, "false"),
        (["b", None, 1.5], '[]interface {}{"b", interface {}(nil), 1.5}'),
        ([10**20, 1000000], "[]interface {}{1e+20, 1000000}"),
        ({"b": {}, "a": True}, 'map[string]interface {}{"a":true, "b":map[string]interface {}{}}'),
    ],
)
def test_values_that_are_not_listed(value: Any, shown: str) -> None:
    """They are shown in Go syntax, those that are allowed in JSON."""
    texts = wrong(value, {"enum": [[1], "x"]})
    assert texts == [f'Unsupported value: {shown}: supported values: "[1]", "x"']
