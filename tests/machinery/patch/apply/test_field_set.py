"""Sets of fields: an algebra, its serialised form, and the texts of paths."""

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

Path = tuple[str, ...]
elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
paths = st.lists(elements, min_size=1, max_size=3).map(tuple)
sets = st.frozensets(paths, max_size=6)


def fields(paths: Any) -> Set:
    """The set of these paths of elements."""
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
def test_a_set_has_the_paths_it_is_made_of(a: frozenset[Path]) -> None:
    assert members(fields(a)) == a
    assert all(has(fields(a), path) for path in a)
    assert sorted_set(fields(a)) == fields(a)
    assert from_json(fields(a)) == fields(a)


@given(sets, sets)
def test_union_intersection_and_difference_are_those_of_paths(a: frozenset[Path], b: frozenset[Path]) -> None:
    left, right = fields(a), fields(b)
    assert members(union(left, right)) == a | b
    assert members(intersection(left, right)) == a & b
    assert members(difference(left, right)) == a - b
    assert members(recursive_difference(left, right)) == {
        path for path in a if not any(path[:length] in b for length in range(1, len(path) + 1))
    }
    assert (left, right) == (fields(a), fields(b))


@given(sets, sets)
def test_results_have_no_nodes_without_members(a: frozenset[Path], b: frozenset[Path]) -> None:
    def check(node: Set) -> None:
        children = {key: child for key, child in node.items() if key != "."}
        assert children or is_member(node)
        assert "." not in node or children
        for child in children.values():
            check(child)

    for result in (difference(fields(a), fields(b)), intersection(fields(a), fields(b)), union(fields(a), fields(b))):
        for child in result.values():
            check(child)


def test_the_order_is_that_of_values_not_of_their_texts() -> None:
    unordered = {
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


def test_paths_of_field_names() -> None:
    assert new_set(("metadata",), ("metadata", "name"), ("spec", "replicas")) == {
        "f:metadata": {".": {}, "f:name": {}},
        "f:spec": {"f:replicas": {}},
    }


def test_elements_are_written_as_go_writes_them() -> None:
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
def test_texts_of_paths(path: Path, text: str) -> None:
    assert path_text(path) == text


READ = [
    ({"f:a": {".": {}}}, {"f:a": {}}),
    ({"f:a": {"f:b": {}, ".": {}}}, {"f:a": {".": {}, "f:b": {}}}),
    ({'k:{"b": 1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}),
    ({'v:"\\u003c"': {}}, {'v:"\\u003c"': {}}),
    ({"x:unknown": {}}, {}),
    ({"f:a": None}, {"f:a": {}}),
    ({}, {}),
]


@pytest.mark.parametrize(("sent", "result"), READ)
def test_reading_what_a_client_sent(sent: Any, result: Any) -> None:
    assert from_json(sent) == result


@pytest.mark.parametrize(
    "sent", [{"": {}}, {"nonsense": {}}, {"k:x": {}}, {"v:": {}}, {"i:x": {}}, {"k:1": {}}, [], "x"]
)
def test_what_cannot_be_read(sent: Any) -> None:
    with pytest.raises(FieldSetError):
        from_json(sent)
