"""JSONPath in columns and selectable fields, as client-go reads it."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.apiserver.extensions.fields.jsonpath import JSONPathError, parse

OBJECT = {
    "spec": {"l": ["x", "y", "z"], "n": 3, "a.b/c": "dotted", "none": None},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.n", [3]),
        (".spec.missing.deeper", []),
        (".spec.none", [None]),
        (".spec.l[0]", ["x"]),
        (".spec.l[-1:]", ["z"]),
        (".spec.l[1:]", ["y", "z"]),
        (".spec.l[*]", ["x", "y", "z"]),
        (".spec.l[0,2]", ["x", "z"]),
        (".spec['n']", [3]),
        (r".spec['a\.b/c']", ["dotted"]),
        (r".spec.a\.b/c", ["dotted"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.status!="True")].type', ["Other"]),
        (".status.conditions[?(@.reason)].type", []),
        (".status..type", ["Ready", "Other"]),
    ],
)
def test_values_at_a_path(path: str, values: list[Any]) -> None:
    """A path finds the values that it leads to; a missing key is no error."""
    assert parse(path)(OBJECT) == values


@pytest.mark.parametrize("path", [".spec[", ".spec[x]", ".spec.l[?(@", ".a\x00{"])
def test_paths_that_are_refused(path: str) -> None:
    """A path with an open bracket, or a wrong index, cannot be parsed."""
    with pytest.raises(JSONPathError):
        parse(path)


@pytest.mark.parametrize("path", [".spec.n[0]", ".spec.l[7]", ".spec.n[?(@.a)]", ".status.conditions[?(@.type==1)]"])
def test_paths_that_do_not_fit(path: str) -> None:
    """A path asks for an element of what is no list, or of a list that is shorter, or compares different types."""
    with pytest.raises(JSONPathError):
        parse(path)(OBJECT)
