"""Server-side apply, as stories: who applies what, the resulting object, and the owner of each field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from understudy.machinery.errors import StatusError
from understudy.machinery.patch.apply import apply_body

NOW = "2024-01-01T00:00:00Z"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def refused(call: Any, *args: Any, **kwargs: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_first_apply_creates_and_owns(world: Any) -> None:
    """The first apply creates the object, and its manager owns the applied fields."""
    w = world()
    assert w.apply("alice", {"data": {"a": "1"}})["data"] == {"a": "1"}
    assert w.owners() == {"Apply alice": [".data.a"]}


def test_same_apply_changes_nothing(world: Any) -> None:
    """An apply of the same fields changes nothing, not even the time of the entry."""
    w = world()
    w.apply("alice", {"data": {"a": "1"}})
    before = w.live
    assert w.apply("alice", {"data": {"a": "1"}}) is before


def test_field_that_is_no_longer_applied_goes(world: Any) -> None:
    """A field goes when its only applier leaves it out."""
    w = world()
    w.apply("alice", {"data": {"a": "1", "b": "2"}})
    assert w.apply("alice", {"data": {"b": "2"}})["data"] == {"b": "2"}
    assert "data" not in w.apply("alice", {})
    assert w.owners() == {}


def test_emptied_list_stays_with_the_manager_that_made_it(world: Any) -> None:
    """A list whose last elements go with an apply stays owned by who made it, as at kube-apiservers 1.32 and 1.37."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim")
    w.create("zero", {"metadata": {"labels": {"zero": "1"}}})
    first, more = ([{"uid": uid, "resource": "pods", "name": "1"} for uid in uids] for uids in ("v", "uw"))
    w.update("two", {"status": {"reservedFor": first}})
    w.apply("one", {"status": {"reservedFor": more}})
    w.update("one", {"status": {"reservedFor": more}})
    assert "reservedFor" not in w.apply("one", {})["status"]
    assert w.owners()["Update two"] == [".status.reservedFor"]


def test_shared_field_goes_with_its_last_owner(world: Any) -> None:
    """Managers that apply the same value share the field, and the last of them removes it."""
    w = world()
    w.apply("alice", {"data": {"a": "1"}})
    w.apply("bob", {"data": {"a": "1"}})
    assert w.owners() == {"Apply bob": [".data.a"], "Apply alice": [".data.a"]}
    assert w.times() == {"Apply bob": "", "Apply alice": "01"}  # who changes nothing gets no time
    assert w.apply("alice", {})["data"] == {"a": "1"}
    assert "data" not in w.apply("bob", {})


def test_another_value_conflicts_unless_forced(world: Any) -> None:
    """Another value for an owned field is a conflict; `force` takes the field over."""
    w = world()
    w.apply("alice", {"data": {"a": "1", "b": "1"}})
    error = refused(w.apply, "bob", {"data": {"a": "2"}})
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "alice": .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".data.a"}]
        },
        "code": 409,
    }
    assert w.apply("bob", {"data": {"a": "2"}}, force=True)["data"] == {"a": "2", "b": "1"}
    assert w.owners() == {"Apply alice": [".data.b"], "Apply bob": [".data.a"]}


def test_several_conflicts_are_listed_by_manager(world: Any) -> None:
    """Several conflicts are listed by manager, then by field."""
    w = world()
    w.apply("bob", {"data": {"b": "1", "c": "1"}})
    w.create("alice", {"data": {"a": "1"}})
    w.apply("carol", {"metadata": {"labels": {"l": "1"}}})
    w.update("dave", {"data": {"d": "1"}})
    error = refused(w.apply, "eve", {"metadata": {"labels": {"l": "2"}}, "data": {"a": "2", "d": "2"}})
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "alice" using v1:\n- .data.a\n'
        'conflicts with "carol":\n- .metadata.labels.l\nconflicts with "dave" using v1:\n- .data.d'
    )
    assert [cause["field"] for cause in (error.details or {})["causes"]] == [".data.a", ".metadata.labels.l", ".data.d"]


def test_conflicts_name_the_subresource(world: Any) -> None:
    """A conflict with a write of a subresource names the subresource."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim", main=(("status",),), status=(("spec",),))
    w.create("alice", {"spec": {"devices": {"requests": []}}})
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    w.apply("sched", {"status": {"reservedFor": [consumer]}}, subresource="status")
    error = refused(w.apply, "other", {"status": {"reservedFor": [consumer | {"name": "q"}]}}, subresource="status")
    assert (error.details or {})["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "sched" with subresource "status"',
            "field": '.status.reservedFor[uid="u"].name',
        }
    ]


def test_reset_fields_are_not_owned(world: Any) -> None:
    """Fields that a request cannot change do not become its manager's."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim", main=(("status",),), status=(("spec",),))
    w.apply("alice", {"spec": {"devices": {"requests": []}}, "status": {"reservedFor": []}})
    assert w.owners() == {"Apply alice": [".spec.devices.requests"]}


def test_associative_lists_merge_in_order(world: Any) -> None:
    """Elements with keys merge, and keep their order."""
    w = world("v1", "Pod")

    def containers(*names: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": name, "image": "i"} for name in names]}}

    def order() -> str:
        return " ".join(c["name"] for c in w.live["spec"]["containers"])

    w.apply("alice", containers("a", "b", "c"))
    w.apply("bob", containers("x", "b"))
    assert order() == "a x b c"
    w.apply("alice", containers("c", "a", "b"))
    assert order() == "x c a b"
    assert w.owners()["Apply bob"] == [
        '.spec.containers[name="b"]',
        '.spec.containers[name="x"]',
        '.spec.containers[name="b"].image',
        '.spec.containers[name="b"].name',
        '.spec.containers[name="x"].image',
        '.spec.containers[name="x"].name',
    ]
    w.apply("bob", containers())
    assert order() == "c a b"


def test_sets_merge_by_value(world: Any) -> None:
    """Sets of scalars are merged by value."""
    w = world()
    w.apply("alice", {"metadata": {"name": "x", "finalizers": ["e.io/a", "e.io/b"]}})
    w.apply("bob", {"metadata": {"name": "x", "finalizers": ["e.io/b", "e.io/c"]}})
    assert w.live["metadata"]["finalizers"] == ["e.io/a", "e.io/b", "e.io/c"]
    w.apply("alice", {"metadata": {"name": "x", "finalizers": ["e.io/d"]}})
    assert w.live["metadata"]["finalizers"] == ["e.io/b", "e.io/c", "e.io/d"]


def test_atomic_fields_are_owned_as_a_whole(world: Any) -> None:
    """A list or map that is atomic has one owner for all of it."""
    w = world("v1", "Pod")
    w.apply("alice", {"spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "k"}]}})
    assert w.owners() == {"Apply alice": [".spec.nodeSelector", ".spec.tolerations"]}
    assert refused(w.apply, "bob", {"spec": {"nodeSelector": {"b": "1"}}}).code == 409


def test_unowned_fields_belong_to_before_first_apply(world: Any) -> None:
    """Fields of an object without managers belong to before-first-apply after the first apply."""
    w = world()
    w.create("alice", {"data": {"a": "1"}})
    w.update("alice", {"metadata": {"managedFields": [{}]}})
    assert w.owners() == {}
    error = refused(w.apply, "bob", {"data": {"a": "2"}})
    assert error.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    w.apply("bob", {"data": {"a": "1", "b": "2"}})
    assert w.owners() == {
        "Apply bob": [".data.a", ".data.b"],
        "Update before-first-apply": [".data", ".data.a"],
    }


def test_element_keeps_what_others_own(world: Any) -> None:
    """An applier that leaves an element out takes away only what nobody else owns in it."""
    w = world("v1", "Pod")
    w.apply("alice", {"spec": {"containers": [{"name": "a", "image": "i", "env": [{"name": "E", "value": "1"}]}]}})
    w.apply("bob", {"spec": {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}]}})
    w.apply("alice", {})
    assert [(c["name"], c.get("image"), c["env"]) for c in w.live["spec"]["containers"]] == [
        ("a", None, [{"name": "F", "value": "2"}])
    ]


def test_owners_are_compared_across_versions(world: Any) -> None:
    """Fields are compared after conversion, so managers of several versions share them."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim")
    old = "resource.k8s.io/v1alpha3"
    w.apply("alice", {"metadata": {"name": "x", "labels": {"a": "1", "b": "1"}}}, api_version=old)
    assert w.owners() == {"Apply alice resource.k8s.io/v1alpha3": [".metadata.labels.a", ".metadata.labels.b"]}
    assert refused(w.apply, "bob", {"metadata": {"name": "x", "labels": {"a": "2"}}}).code == 409
    w.apply("alice", {"metadata": {"name": "x", "labels": {"a": "1"}}})
    assert w.live["metadata"]["labels"] == {"a": "1"}
    assert w.owners() == {"Apply alice": [".metadata.labels.a"]}


def test_owners_in_an_unknown_version_are_dropped(world: Any) -> None:
    """Entries of a version that is no longer served are dropped with the next change."""
    w = world("resource.k8s.io/v1beta1", "ResourceClaim")
    w.create("alice", {"metadata": {"labels": {"a": "1"}}})
    w.live["metadata"]["managedFields"][0]["apiVersion"] = "resource.k8s.io/v9"
    w.apply("bob", {"metadata": {"name": "x", "labels": {"a": "2"}}})
    assert w.owners() == {"Apply bob": [".metadata.labels.a"]}


def test_kubectl_takes_over_client_side_apply(world: Any) -> None:
    """A server-side apply of kubectl takes over the fields of its own client-side applies."""
    w = world()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1", "b": "1"}}
    annotations = {"annotations": {LAST_APPLIED: json.dumps(config)}}
    w.create("kubectl-client-side-apply", {"metadata": annotations, "data": {"a": "1", "b": "1"}})
    w.update("alice", {"data": {"b": "2"}})
    error = refused(w.apply, "kubectl", {"data": {"a": "2", "b": "1"}})
    assert error.message == 'Apply failed with 1 conflict: conflict with "alice" using v1: .data.b'
    w.apply("kubectl", {"data": {"a": "2", "b": "2"}})
    assert w.live["data"] == {"a": "2", "b": "2"}
    assert w.live["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"a":"2","b":"2"},"kind":"ConfigMap","metadata":{"name":"x"}}\n'
    )
    assert refused(w.apply, "other", {"data": {"a": "3"}}).code == 409
    before = w.live["metadata"]["annotations"][LAST_APPLIED]
    w.apply("other", {"data": {"c": "3"}})
    assert w.live["metadata"]["annotations"][LAST_APPLIED] == before


@pytest.mark.parametrize(
    "config",
    [
        {"apiVersion": "v2", "kind": "ConfigMap", "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "", "data": {"a": "1"}},
        ["a"],
        "{",
    ],
)
def test_wrong_last_applied_configuration_takes_nothing_over(world: Any, config: Any) -> None:
    """A configuration of another version, without a kind or that is no object at all, leaves the conflicts."""
    w = world()
    text = config if isinstance(config, str) else json.dumps(config)
    w.create("kubectl-client-side-apply", {"metadata": {"annotations": {LAST_APPLIED: text}}, "data": {"a": "1"}})
    assert refused(w.apply, "kubectl", {"data": {"a": "2"}}).code == 409


def test_last_applied_configuration_leaves_itself_out(world: Any) -> None:
    w = world()
    annotations = {LAST_APPLIED: "old", "e.io/a": "1"}
    w.apply("kubectl", {"metadata": {"name": "x", "annotations": annotations}})
    assert w.live["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"e.io/a":"1"},"name":"x"}}\n'
    )


TYPES = [
    ({"kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap"),
    ({"apiVersion": "v1"}, "invalid object type: /v1, Kind="),
    ({"apiVersion": "v2", "kind": "ConfigMap"}, "invalid object type: /v2, Kind=ConfigMap"),
    ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "invalid object type: apps/v1, Kind=ConfigMap"),
    ({"apiVersion": "a/b/c", "kind": "ConfigMap"}, "invalid object type: /, Kind="),
    ({"apiVersion": 5, "kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap"),
]


@pytest.mark.parametrize(("config", "message"), TYPES)
def test_applied_object_must_name_its_type(world: Any, config: dict[str, Any], message: str) -> None:
    """An applied object without the right apiVersion and kind is refused."""
    fields = world().field_manager()
    error = refused(fields.apply, None, apply_body.Patch(config, [], []), "m", NOW, force=False)
    assert (error.code, error.message) == (400, message)


POD = "(/x; /v1, Kind=Pod)"
BAD_PATCHES = [
    ({"metadata": {"managedFields": [{}]}}, 400, "metadata.managedFields must be nil"),
    ({"metadata": {"managedFields": []}}, 400, "metadata.managedFields must be nil"),
    ({"nope": 1}, 500, f"failed to create typed patch object {POD}: .nope: field not declared in schema"),
    (
        {"metadata": "x"},
        500,
        "failed to create typed patch object (/; /v1, Kind=Pod): .metadata: expected map, got &{x}",
    ),
]
BAD_CONTAINERS = [
    (
        {"ports": [{"containerPort": 80}, {"containerPort": 80}]},
        '.ports: duplicate entries for key [containerPort=80,protocol="TCP"]',
    ),
    ({"ports": [None]}, ".ports: element 0: associative list with keys may not have a null element"),
    ({"ports": {"a": 1}}, ".ports: expected list, got &{map[a:1]}"),
    ({"ports": "x"}, ".ports: expected list, got &{x}"),
    ({"tty": "x"}, ".tty: expected boolean, got &{x}"),
    ({"image": 5}, ".image: expected string, got &value.valueUnstructured{Value:5}"),
    (
        {"image": {"a": [1, "x", None, 1.5]}},
        '.image: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}'
        '{1, "x", interface {}(nil), 1.5}}}',
    ),
    ({"resources": {"limits": {"cpu": {}}}}, ".resources.limits.cpu: expected any scalar, got &{map[]}"),
]


@pytest.mark.parametrize(("patch", "code", "message"), BAD_PATCHES)
def test_applied_object_must_fit_the_schema(world: Any, patch: dict[str, Any], code: int, message: str) -> None:
    """An applied value of the wrong type is refused with its path."""
    w = world("v1", "Pod")
    if isinstance(patch.get("metadata"), dict):
        patch["metadata"]["name"] = "x"
    error = refused(w.apply, "m", patch)
    assert (error.code, error.reason, error.message) == (code, "BadRequest" if code == 400 else "", message)


@pytest.mark.parametrize(("container", "message"), BAD_CONTAINERS)
def test_unknown_nested_fields_are_refused(world: Any, container: dict[str, Any], message: str) -> None:
    """A field that the schema does not have is refused at every depth."""
    w = world("v1", "Pod")
    error = refused(w.apply, "m", {"spec": {"containers": [{"name": "c"} | container]}})
    assert error.message == f'failed to create typed patch object {POD}: .spec.containers[name="c"]{message}'


def test_several_schema_errors_are_listed(world: Any) -> None:
    """Several errors of the schema are listed together."""
    w = world("v1", "Pod")
    error = refused(w.apply, "m", {"spec": {"containers": [{"name": "c", "env": [{"name": 1}], "nope": 1}]}})
    assert error.message == (
        f"failed to create typed patch object {POD}: errors:\n"
        '  .spec.containers[name="c"].env[name=1].name: expected string, got &value.valueUnstructured{Value:1}\n'
        '  .spec.containers[name="c"].nope: field not declared in schema'
    )


CONVERSIONS = [
    (
        {"resources": {"limits": {"cpu": "abc"}}},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    ({"ports": [{"containerPort": 1.5}]}, "cannot convert float64 to int32"),
]


@pytest.mark.parametrize(("container", "why"), CONVERSIONS)
def test_impossible_values_are_refused(world: Any, container: dict[str, Any], why: str) -> None:
    """A value that the Go type of its field cannot hold is refused."""
    w = world("v1", "Pod")
    error = refused(w.apply, "m", {"spec": {"containers": [{"name": "c"} | container]}})
    assert (error.code, error.message) == (
        500,
        f"failed to convert new object {POD} to proper version: unable to convert unstructured object to "
        f"/v1, Kind=Pod: {why}",
    )


def test_duplicate_keys_are_the_last_error(world: Any) -> None:
    """Strict errors about duplicate keys come after all other errors."""
    body = b"apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\nmetadata:\n  name: x\n  name: x\n"
    lines = ['line 3: key "kind" already set in map', 'line 6: key "name" already set in map']
    assert apply_body.parse(body).warnings == lines
    patch = apply_body.parse(body, "Strict")
    assert (patch.warnings, patch.duplicates) == ([], lines)
    assert apply_body.parse(body, "Ignore") == apply_body.Patch(patch.obj, [], [])
    error = refused(world().field_manager().apply, None, patch, "m", NOW, force=False)
    assert (error.code, error.message) == (
        400,
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  " + "\n  ".join(lines),
    )


NOT_JSON = "error decoding YAML: error converting YAML to JSON: "
NOT_AN_OBJECT = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
BODIES = [
    (b"{", NOT_JSON + "yaml: line 1: did not find expected node content"),
    (b"a: b: c", NOT_JSON + "yaml: mapping values are not allowed in this context"),
    (b"[]", NOT_AN_OBJECT + "array into Go value of type map[string]interface {}"),
    (b'"x"', NOT_AN_OBJECT + "string into Go value of type map[string]interface {}"),
]


@pytest.mark.parametrize(("body", "message"), BODIES)
def test_malformed_apply_is_refused(body: bytes, message: str) -> None:
    """A body that is no YAML mapping is refused."""
    assert refused(apply_body.parse, body).message == message


@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_empty_apply_body(body: bytes) -> None:
    """An empty body is an apply without fields."""
    assert apply_body.parse(body).obj == {}


def test_whole_floats_are_integers() -> None:
    """A whole number written as a float is an integer."""
    assert json.dumps(apply_body.parse(b'{"a":1.0,"b":1e3,"c":1.5}').obj) == '{"a": 1, "b": 1000, "c": 1.5}'
