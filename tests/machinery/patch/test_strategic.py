"""Strategic merge patches: maps, lists by merge key, directives, the order of lists, and refusals."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.releases import NEWEST
from understudy.machinery.errors import StatusError
from understudy.machinery.patch import strategic
from understudy.machinery.serializer.json import decode_json
from understudy.machinery.typeinfo.go_types import Schemas

SCHEMAS = Schemas.of(NEWEST)
POD = SCHEMAS.kind("", "v1", "Pod")
DEPLOYMENT = SCHEMAS.kind("apps", "v1", "Deployment")
SLICE = SCHEMAS.kind("discovery.k8s.io", "v1", "EndpointSlice")
CLAIM = SCHEMAS.kind("resource.k8s.io", "v1beta1", "ResourceClaim")


def run(current: Any, patch: Any, struct: Any = POD) -> Any:
    before = copy.deepcopy(current)
    result = strategic.apply(strategic.parse(json.dumps(patch).encode()), current, struct)
    assert current == before, "the patch has changed the object"
    return result


def refusal(current: Any, patch: Any, struct: Any = POD) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        run(current, patch, struct)
    return caught.value.code, caught.value.message


LABELS = [
    ({"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
    ({"a": "1", "b": "1"}, {"a": None}, {"b": "1"}),
    ({"a": "1"}, {"b": None}, {"a": "1"}),
    ({"a": "1"}, {"$patch": "replace", "b": "2"}, {"b": "2"}),
    ({"a": "1"}, {"$patch": "delete"}, {}),
    ({"a": "1", "b": "1"}, {"$retainKeys": ["b", "c"], "c": "2"}, {"b": "1", "c": "2"}),
    (None, {"a": "1", "b": None}, {"a": "1"}),
    (None, {"$patch": "nonsense"}, None),  # a directive for what is not there
    (None, {"$retainKeys": ["a"], "a": "1"}, {"$retainKeys": ["a"], "a": "1"}),
    ({"a": "1"}, {"$nonsense/a": "1"}, {"a": "1", "$nonsense/a": "1"}),
]


@pytest.mark.parametrize(("current", "patch", "result"), LABELS)
def test_maps_are_merged(current: Any, patch: Any, result: Any) -> None:
    """Maps are merged key by key, and `$patch` directives are followed."""
    obj = {"metadata": {"labels": current} if current is not None else {}}
    assert run(obj, {"metadata": {"labels": patch}}) == {"metadata": {"labels": result} if result is not None else {}}


FINALIZERS = [
    (["a", "b"], {"finalizers": ["c"]}, ["c", "a", "b"]),
    (["a", "b"], {"finalizers": ["b"]}, ["a", "b"]),
    (["a", "b", "c"], {"finalizers": ["c", "x"]}, ["a", "b", "c", "x"]),
    (["a", "b"], {"finalizers": []}, ["a", "b"]),
    (["a", "b"], {"finalizers": None}, None),
    (["a", "b"], {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}, ["b"]),
    (["a", "b", "c"], {"$setElementOrder/finalizers": ["c", "a"]}, ["b", "c", "a"]),
    (["a", "b"], {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"]}, ["c", "a", "b"]),
    (["a", "b"], {"$setElementOrder/finalizers": []}, ["a", "b"]),
    (None, {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b", "a"]}, ["b", "a"]),
    (None, {"$setElementOrder/finalizers": ["b"]}, None),
]


@pytest.mark.parametrize(("current", "patch", "result"), FINALIZERS)
def test_scalar_lists_are_merged(current: Any, patch: Any, result: Any) -> None:
    """Lists of scalars with the merge strategy are united, and `$deleteFromPrimitiveList` removes values."""
    obj = {"metadata": {"finalizers": current} if current is not None else {}}
    assert run(obj, {"metadata": patch}) == {"metadata": {"finalizers": result} if result is not None else {}}


def env(text: str) -> list[dict[str, str]]:
    """Return the elements of a text such as "A=1 B -C": A with the value 1, B without one, C deleted."""
    out: list[dict[str, str]] = []
    for word in text.split():
        name, _, value = word.removeprefix("-").partition("=")
        out.append(
            {"name": name} | ({"value": value} if value else {}) | ({"$patch": "delete"} if word[0] == "-" else {})
        )
    return out


KEYED = [
    ("A=1 B=1", {"env": "B=2"}, "A=1 B=2"),
    ("A=1 B=1", {"env": "C=2"}, "C=2 A=1 B=1"),
    ("A=1 B=1 C=1", {"env": "C=2 A=2"}, "B=1 C=2 A=2"),
    ("A=1 B=1", {"env": "-A"}, "B=1"),
    ("A=1 A=2 B=1", {"env": "-A"}, "B=1"),
    ("A=1 B=1", {"env": "-Z"}, "A=1 B=1"),
    ("A=1 B=1", {"$setElementOrder/env": "B A"}, "B=1 A=1"),
    ("A=1 B=1 C=1", {"$setElementOrder/env": "C X A", "env": "X=2"}, "B=1 C=1 X=2 A=1"),
    ("A=1 B=1 C=1", {"$setElementOrder/env": "C", "env": "C=2"}, "A=1 B=1 C=2"),
    ("A=1 B=1", {"$setElementOrder/env": "B", "env": "B=2 -A"}, "B=2"),
]


@pytest.mark.parametrize(("current", "patch", "result"), KEYED)
def test_lists_are_merged_by_key(current: str, patch: dict[str, str], result: str) -> None:
    """Elements are merged by their merge key, and `$setElementOrder` orders them."""
    obj = {"spec": {"containers": [{"name": "c", "env": env(current)}]}}
    changes = {key: env(text) for key, text in patch.items()}
    merged = run(obj, {"spec": {"containers": [{"name": "c", **changes}]}})
    assert merged == {"spec": {"containers": [{"name": "c", "env": env(result)}]}}


def test_atomic_lists_are_replaced() -> None:
    """A list without a merge strategy is replaced."""
    assert run({"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": [{"key": "b"}]}}) == {
        "spec": {"tolerations": [{"key": "b"}]}
    }


def test_element_replaces_the_list() -> None:
    """An element with `$patch: replace` replaces the whole list."""
    obj = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}}
    patch = {"spec": {"containers": [{"name": "a"}, {"$patch": "replace"}, {"name": "c"}]}}
    assert run(obj, patch) == {"spec": {"containers": [{"name": "a"}, {"name": "c"}]}}
    assert run(obj, {"spec": {"containers": [{"$patch": "replace"}]}}) == {"spec": {"containers": []}}


def test_retain_keys_clears_other_members() -> None:
    """`$retainKeys` removes the members of a union that it does not name."""
    obj = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert run(obj, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_directives_in_new_values_are_dropped() -> None:
    """Directives inside a value that is added are dropped."""
    patch = {
        "spec": {
            "containers": [{"name": "a", "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": None}]}]
        }
    }
    assert run({"spec": {}}, patch) == {"spec": {"containers": [{"name": "a", "env": [{"name": "B"}]}]}}


def test_whole_object_can_be_replaced() -> None:
    """`$patch: replace` at the top replaces the object."""
    assert run({"spec": {"a": 1}}, {"$patch": "replace", "kind": "Pod"}) == {"kind": "Pod"}
    assert run({"spec": {"a": 1}}, {"$patch": "delete"}) == {}


def test_value_of_another_type_replaces() -> None:
    """A value of another type replaces the old one."""
    assert run({"spec": {"containers": [{"name": "a"}]}}, {"spec": {"containers": "x"}}) == {
        "spec": {"containers": "x"}
    }


CONTAINERS = {
    "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]},
    "metadata": {"finalizers": ["f"]},
}
REFUSED = [
    (
        {"spec": {"containers": [{"image": "i"}]}},
        500,
        "map: map[image:i] does not contain declared merge key: name",
    ),
    (
        {"spec": {"containers": [{"$patch": "delete"}]}},
        500,
        "map: map[$patch:delete] does not contain declared merge key: name",
    ),
    (
        {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}},
        500,
        "merging lists cannot yet be specified in the patch",
    ),
    (
        {"spec": {"containers": [{"name": "a", "$patch": "x"}]}},
        500,
        "unknown patch type: x in map: map[$patch:x name:a]",
    ),
    ({"spec": {"$patch": 5}}, 500, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
    (
        {"spec": {"containers": ["x"]}},
        500,
        "list element types are not identical: [[map[name:a resources:map[limits:map[cpu:1]]]] [x]]",
    ),
    ({"metadata": {"finalizers": [["x"]]}}, 500, "list element types are not identical: [[f] [[x]]]"),
    ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
    ({"spec": {"$retainKeys": ["x"], "containers": []}}, 400, "invalid patch format of retainKeys"),
    ({"metadata": {"$deleteFromPrimitiveListX": []}}, 400, "invalid patch format of primitive list"),
    ({"metadata": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
    ({"metadata": {"$setElementOrder/finalizers": "x"}}, 500, "expected a []interface {}, but received a string"),
    ({"metadata": {"$setElementOrder/finalizers": None}}, 500, "expected a []interface {}, but received a %!s(<nil>)"),
    (
        {"metadata": {"$setElementOrder/finalizers": [], "finalizers": {}}},
        500,
        "expected a []interface {}, but received a map[string]interface {}",
    ),
    (
        {"metadata": {"$setElementOrder/nope": []}},
        500,
        'unable to find api field in struct ObjectMeta for the json field "nope"',
    ),
    (
        {"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}},
        500,
        "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
    ),
]


@pytest.mark.parametrize(("patch", "code", "message"), REFUSED)
def test_unmergeable_patches_are_refused(patch: Any, code: int, message: str) -> None:
    """A patch that does not fit the type is refused in the real server's words."""
    assert refusal(CONTAINERS, patch) == (code, message)


def test_lists_of_lists_are_unprocessable() -> None:
    """A list of lists in a patch is 422."""
    code, message = refusal({"metadata": {"finalizers": []}}, {"metadata": {"finalizers": [["x"]]}})
    assert (code, message) == (422, "the server rejected our request due to an error in our request")


@pytest.mark.parametrize("order", [[], [{"port": 80}]])
def test_order_of_maps_without_a_merge_key(order: list[Any]) -> None:
    """Maps that have no merge key cannot be ordered. The real server crashes then, and drops the connection."""
    patch = {"ports": [{"port": 80}], "$setElementOrder/ports": order}
    assert refusal({"ports": []}, patch, SLICE) == (400, "invalid JSON document")


def test_errors_print_the_rest_of_the_patch() -> None:
    """An error prints the patch without the parts that were already taken from it."""
    patch = strategic.parse(
        b'{"metadata":{"labels":{"$retainKeys":["a"],"a":"1"},"$setElementOrder/finalizers":["f"],"x":[1,null,true,1.5]}}'
    )
    strategic.apply(patch, {"metadata": {"labels": {}, "finalizers": ["f"]}}, POD)
    assert patch.printed() == "map[metadata:map[labels:map[a:1] x:[1 <nil> true 1.5]]]"


def test_opaque_keys_are_sorted() -> None:
    """Any patch sorts the keys of opaque values, because they are parsed with the rest of the object."""
    opaque = b'{"driver":"d","parameters":{"b":1.0,"a":{"d":1,"c":2}}}'
    claim = decode_json(b'{"spec":{"devices":{"config":[{"opaque":%s}]}}}' % opaque, CLAIM)[0]
    patched = run(claim, {"metadata": {"labels": {"a": "1"}}}, CLAIM)
    parameters = patched["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert (type(parameters), json.dumps(parameters)) == (dict, '{"a": {"c": 2, "d": 1}, "b": 1.0}')


BODIES = [
    ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ("{", "unexpected end of JSON input"),
    ("", "unexpected end of JSON input"),
]


@pytest.mark.parametrize(("body", "message"), BODIES)
def test_malformed_patches_are_refused(body: str, message: str) -> None:
    """A body that is no JSON object is refused in Go's words."""
    with pytest.raises(StatusError) as caught:
        strategic.parse(body.encode())
    assert (caught.value.code, caught.value.message) == (400, message)


def test_null_is_an_empty_patch() -> None:
    """The body null changes nothing."""
    assert strategic.apply(strategic.parse(b"null"), {"kind": "Pod"}, POD) == {"kind": "Pod"}


names = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


@given(names, names)
def test_order_of_merged_lists(server: list[str], patch: list[str]) -> None:
    """No element is lost; elements of the patch stand in its order, the others in the object's."""
    merged = run({"metadata": {"finalizers": server}}, {"metadata": {"finalizers": patch}})["metadata"]["finalizers"]
    assert sorted(merged) == sorted({*server, *patch})
    assert [name for name in merged if name in patch] == patch
    assert [name for name in merged if name not in patch] == [name for name in server if name not in patch]
