"""Sets of fields (`fieldpath.Set`): algebra, serialised form, and the texts of paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.machinery.patch.structured_merge_diff.field_set import (
    FieldSetError,
    Set,
    difference,
    from_json,
    has,
    intersection,
    is_member,
    iterate,
    key_element,
    new_set,
    path_text,
    recursive_difference,
    sorted_set,
    union,
    value_element,
)
from understudy.machinery.types import Obj

Path = tuple[str, ...]
elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
paths = st.lists(elements, min_size=1, max_size=3).map(tuple)
sets = st.frozensets(paths, max_size=6)


def fields(paths: Any) -> Set:
    """Return the set of these paths."""
    out: Set = {}
    for path in paths:
        node: Set = {}
        for element in reversed(path):
            node = {element: node}
        out = union(out, node)
    return out


def members(fields: Set) -> set[Path]:
    return set(iterate(fields))


@given(sets)
def test_set_has_its_paths(a: frozenset[Path]) -> None:
    """A set has exactly the paths that it was made of."""
    assert members(fields(a)) == a
    assert all(has(fields(a), path) for path in a)
    assert sorted_set(fields(a)) == fields(a)
    assert from_json(fields(a)) == fields(a)


@given(sets, sets)
def test_algebra_is_that_of_paths(a: frozenset[Path], b: frozenset[Path]) -> None:
    """Union, intersection and difference of sets are those of their paths."""
    left, right = fields(a), fields(b)
    assert members(union(left, right)) == a | b
    assert members(intersection(left, right)) == a & b
    assert members(difference(left, right)) == a - b
    assert members(recursive_difference(left, right)) == {
        path for path in a if not any(path[:length] in b for length in range(1, len(path) + 1))
    }
    assert (left, right) == (fields(a), fields(b))


@given(sets, sets)
def test_results_have_no_empty_nodes(a: frozenset[Path], b: frozenset[Path]) -> None:
    """A result holds no node below which there is no member."""

    def check(node: Set) -> None:
        children = {key: child for key, child in node.items() if key != "."}
        assert children or is_member(node)
        assert "." not in node or children
        for child in children.values():
            check(child)

    for result in (difference(fields(a), fields(b)), intersection(fields(a), fields(b)), union(fields(a), fields(b))):
        for child in result.values():
            check(child)


def test_elements_are_ordered_by_value() -> None:
    """Elements are ordered by their values, not by their texts."""
    unordered: Obj = {
        'v:"a"': {},
        "i:10": {},
        "i:9": {},
        "v:true": {},
        "v:10": {},
        "v:9": {},
        "v:1.5": {},
        'k:{"a":10}': {},
        'k:{"a":9,"b":1}': {},
        'k:{"a":9}': {},
        "f:z": {"f:b": {}, ".": {}, "f:a": {}},
        "f:b": {},
        "v:null": {},
        "v:[1]": {},
        'v:{"x":1}': {},
    }
    assert list(sorted_set(unordered)) == [
        "f:b",
        "f:z",
        'k:{"a":9}',
        'k:{"a":9,"b":1}',
        'k:{"a":10}',
        "v:1.5",
        "v:9",
        "v:10",
        'v:"a"',
        "v:true",
        "v:[1]",
        'v:{"x":1}',
        "v:null",
        "i:9",
        "i:10",
    ]
    assert list(sorted_set(unordered)["f:z"]) == [".", "f:a", "f:b"]


def test_field_names_are_parsed() -> None:
    """A serialised field name becomes its path element."""
    assert new_set(("metadata",), ("metadata", "name"), ("spec", "replicas")) == {
        "f:metadata": {".": {}, "f:name": {}},
        "f:spec": {"f:replicas": {}},
    }


def test_elements_are_serialised_as_in_go() -> None:
    """Keys and values of elements are serialised as Go writes them."""
    assert key_element(("a", "b"), ("<é>", 1)) == 'k:{"a":"\\u003cé\\u003e","b":1}'
    assert value_element("a&b") == 'v:"a\\u0026b"'


TEXTS = [
    (("f:spec", "f:containers", 'k:{"name":"x"}', "f:image"), '.spec.containers[name="x"].image'),
    (("f:ports", 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
    (("f:finalizers", 'v:"a/b"'), '.finalizers[="a/b"]'),
    (("f:x", "v:true", "v:1.5", "v:null", "i:3"), ".x[=true][=1.5][=null][3]"),
    (('v:[1,"a"]', 'v:{"a":1}'), '[=[1,"a"]][=a=1]'),
]


@pytest.mark.parametrize(("path", "text"), TEXTS)
def test_path_texts(path: Path, text: str) -> None:
    """A path is written as in conflict messages."""
    assert path_text(path) == text


READ = [
    ({"f:a": {".": {}}}, {"f:a": {}}),
    ({"f:a": {"f:b": {}, ".": {}}}, {"f:a": {".": {}, "f:b": {}}}),
    ({'k:{"b": 1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}),
    ({'v:"\\u003c"': {}}, {'v:"\\u003c"': {}}),
    ({"x:unknown": {}}, {}),
    ({"f:a": None}, {"f:a": {}}),
    ({"f:": {}}, {"f:": {}}),
    ({}, {}),
]


@pytest.mark.parametrize(("sent", "result"), READ)
def test_client_sets_are_normalised(sent: Any, result: Any) -> None:
    """A set that a client sent is read and written again in order."""
    assert from_json(sent) == result


@pytest.mark.parametrize(
    "sent", [{"": {}}, {"f": {}}, {"nonsense": {}}, {"k:x": {}}, {"v:": {}}, {"i:x": {}}, {"k:1": {}}, [], "x"]
)
def test_malformed_sets_are_refused(sent: Any) -> None:
    """A serialised set of the wrong form is refused."""
    with pytest.raises(FieldSetError):
        from_json(sent)
