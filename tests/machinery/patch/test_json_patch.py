"""JSON patches: RFC 6902 as the library jsonpatch applies it, and where the real server departs from it."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.machinery.errors import StatusError
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.patch import json_patch

OBJECT = {"s": "a<b", "n": 1, "o": {"x": "1", "y": None}, "l": ["a", "b", "c"], "d/e~f": True}


def run(obj: Any, *operations: dict[str, Any]) -> Any:
    return json_patch.apply(json_patch.parse(json.dumps(operations).encode()), obj)


def op(kind: str, path: str, *value: Any, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **({"value": value[0]} if value else {}), **more}


APPLIED = [
    ([op("add", "/o/z", 1)], {"o": {"x": "1", "y": None, "z": 1}}),
    ([op("add", "/o/z")], {"o": {"x": "1", "y": None, "z": None}}),
    ([op("add", "/l/-", "d")], {"l": ["a", "b", "c", "d"]}),
    ([op("add", "/l/3", "d")], {"l": ["a", "b", "c", "d"]}),
    ([op("add", "/l/-1", "d")], {"l": ["a", "b", "c", "d"]}),
    ([op("add", "/l/-4", "d")], {"l": ["d", "a", "b", "c"]}),
    ([op("replace", "/o/z", 1)], {"o": {"x": "1", "y": None, "z": 1}}),
    ([op("replace", "/l/-1", "z")], {"l": ["a", "b", "z"]}),
    ([op("remove", "/l/+1")], {"l": ["a", "c"]}),
    ([op("remove", "/d~1e~0f")], {"d/e~f": None}),
    ([op("move", "/o/z", **{"from": "/n"})], {"n": None, "o": {"x": "1", "y": None, "z": 1}}),
    ([op("copy", "/o/z", **{"from": "/nope"})], {"o": {"x": "1", "y": None, "z": None}}),
    ([op("copy", "/l/0", **{"from": "/n"})], {"l": [1, "a", "b", "c"]}),
    ([op("test", "/nope", None)], {}),
    ([op("test", "/nope")], {}),
    ([op("test", "/o/y", None)], {}),
    ([op("test", "/o", {"y": None, "x": "1"})], {}),
    ([op("test", "/l", ["a", "b", "c"])], {}),
    ([op("replace", "", "scalars do nothing")], {}),
    ([op("add", "what stands before the first slash is ignored/n", 2)], {"n": 2}),
]


@pytest.mark.parametrize(("operations", "changed"), APPLIED)
def test_patches_are_applied(operations: list[Any], changed: dict[str, Any]) -> None:
    """Every operation changes the document as the real server does."""
    obj = copy.deepcopy(OBJECT)
    expected = {key: value for key, value in {**OBJECT, **changed}.items() if value is not None or key not in changed}
    assert run(obj, *operations) == expected
    assert obj == OBJECT


REFUSED = [
    {},
    {"op": "bogus", "path": "/n"},
    {"op": "add", "value": 1},
    op("add", "no slash", 1),
    op("add", "", {}),
    op("add", "/nope/z", 1),
    op("add", "/n/z", 1),
    op("add", "/o/y/z", 1),
    op("add", "/l/4", "d"),
    op("add", "/l/x", "d"),
    op("add", "/l/-5", "d"),
    op("replace", "/l/3", "d"),
    op("replace", "/l/-", "d"),
    op("replace", ""),
    op("remove", "/nope"),
    op("remove", "/l/3"),
    op("remove", "/l/1_0"),
    op("move", "/o/z"),
    op("move", "/o/z", **{"from": "/nope"}),
    op("test", "/n"),
    op("test", "/n", "1"),
    op("test", "/n", True),
    op("test", "/o", {"x": "1"}),
    op("test", "/l", ["a", "b"]),
    op("test", "/l", ["a", "b", "z"]),
    op("test", "/l", {}),
    op("test", "", {}),
]


@pytest.mark.parametrize("operation", REFUSED)
def test_failing_patches_are_refused(operation: dict[str, Any]) -> None:
    """An operation that fails is refused in the real server's words."""
    with pytest.raises(StatusError) as caught:
        run(OBJECT, operation)
    assert caught.value.status()["message"] == "the server rejected our request due to an error in our request"
    assert caught.value.code == 422


def test_test_compares_spellings() -> None:
    """`test` compares scalars as they are written: strings escaped for HTML, numbers not calculated."""

    def passes(literal: str, path: str) -> bool:
        body = f'[{{"op":"test","path":"{path}","value":{literal}}}]'
        try:
            return bool(json_patch.apply(json_patch.parse(body.encode()), OBJECT))
        except StatusError:
            return False

    assert passes(r'"a\u003cb"', "/s")
    assert not passes('"a<b"', "/s")
    assert passes("1", "/n")
    assert not passes("1.0", "/n")


def test_added_values_keep_their_spelling() -> None:
    """A value that the patch adds keeps its spelling for later tests and in errors."""
    result = run(OBJECT, op("add", "/s", "x<y"), op("test", "/s", "x<y"))
    assert result["s"] == "x<y"
    patch = json_patch.parse_as_written(rb'[{"op": "add", "path": "/o/f", "value": [1.50, "\u0041", 1e400]}]')
    assert encode(json_patch.apply(patch, OBJECT)["o"]["f"]) == rb'[1.50,"\u0041",1e400]'


def test_traversed_objects_are_sorted() -> None:
    """An object that an operation walked through has its keys sorted."""
    obj = {"b": {"d": 1, "c": 2}, "a": {"f": 1, "e": 2}}
    assert json.dumps(run(obj, op("add", "/a/g", {"z": 1, "y": 2}))) == (
        '{"a": {"e": 2, "f": 1, "g": {"z": 1, "y": 2}}, "b": {"d": 1, "c": 2}}'
    )
    assert json.dumps(run(obj, op("test", "", obj))) == '{"a": {"e": 2, "f": 1}, "b": {"c": 2, "d": 1}}'


def test_whole_document_can_be_replaced() -> None:
    """The path "" replaces the document, even by a list."""
    assert run(OBJECT, op("replace", "", {"a": 1})) == {"a": 1}
    assert run(OBJECT, op("replace", "", [1]), op("add", "/-", 2)) == [1, 2]


def test_size_of_copies_is_limited() -> None:
    """All copies of a patch together must not exceed a size."""
    obj = {"big": "x" * 1_000_000}
    copies = [op("copy", f"/{i}", **{"from": "/big"}) for i in range(4)]
    assert len(run(obj, *copies[:3])) == 4
    with pytest.raises(StatusError):
        run(obj, *copies)


def test_number_of_operations_is_limited() -> None:
    """A patch must not have more than 10,000 operations."""
    with pytest.raises(StatusError) as caught:
        json_patch.parse(b"[" + b",".join([b"{}"] * 10001) + b"]")
    assert (caught.value.code, caught.value.message) == (
        413,
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


DECODING = "error decoding patch: "
BODIES = [
    ("{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    ('"x"', "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
    ("[1]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    ("[[1]]", "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
    ('[{"op":5}]', "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ('[{"path":{}}]', "json: cannot unmarshal object into Go struct field jsonPatchOp.path of type string"),
    ("", "unexpected end of JSON input"),
    ("nul", "invalid character ' ' in literal null (expecting 'l')"),
    ("[]x", "invalid character 'x' after top-level value"),
    ("[NaN]", "invalid character 'N' looking for beginning of value"),
    ('[{"op" "add"}]', "invalid character '\"' after object key"),
    ('["\\x"]', "invalid character 'x' in string escape code"),
    ("[01]", "invalid character '1' after array element"),
]


@pytest.mark.parametrize(("body", "message"), BODIES)
def test_malformed_patches_are_refused(body: str, message: str) -> None:
    """A body that is no list of operations is refused in Go's words."""
    with pytest.raises(StatusError) as caught:
        json_patch.parse(body.encode())
    assert (caught.value.code, caught.value.message) == (400, DECODING + message)


def test_malformed_patch_without_field_validation() -> None:
    """With fieldValidation=Ignore, other words of Go refuse a malformed patch."""
    with pytest.raises(StatusError) as caught:
        json_patch.parse(b"{}", validate=False)
    assert caught.value.message == "json: cannot unmarshal object into Go value of type jsonpatch.Patch"


def test_strict_errors_of_operations() -> None:
    """Unknown and duplicate fields of operations are strict errors."""
    body = b'[{"op":"add","op":"add","path":"/n","value":{"a":1,"a":2},"foo":1}]'
    assert json_patch.parse(body).strict_errors == [
        'json patch unknown field "[0].foo"',
        'json patch duplicate field "[0].op"',
        'json patch duplicate field "[0].value.a"',
    ]
    assert json_patch.parse(body, validate=False).strict_errors == []


@pytest.mark.parametrize("body", ["null", "[]"])
def test_empty_patch_changes_nothing(body: str) -> None:
    """A patch without operations changes nothing."""
    assert json_patch.apply(json_patch.parse(body.encode()), OBJECT) == OBJECT


scalars = st.sampled_from(["1", "2", 3, True])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
paths = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-"]), min_size=1, max_size=3).map(
    lambda names: "".join(f"/{name}" for name in names)
)
operations = st.builds(op, st.sampled_from(["add", "remove", "replace"]), paths, values)


@given(objects, st.lists(operations, max_size=4))
def test_results_agree_with_the_library(obj: dict[str, Any], patch: list[dict[str, Any]]) -> None:
    """Random patches that jsonpatch applies have the same result here."""
    try:
        expected = jsonpatch.apply_patch(obj, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError):
        return
    assert run(obj, *patch) == expected
