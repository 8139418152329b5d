"""MutatingAdmissionPolicy: what policies make of objects, and how they fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admission.plugins.policy.policies import (
    CONFIG_MAPS,
    GROUP,
    config_map,
    constraints,
    create,
    reason,
    store_policy,
    validations,
)
from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.36") as running:
        yield running


def apply(expression: str) -> Obj:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression: str) -> Obj:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


@pytest.mark.parametrize(
    ("mutations", "data"),
    [
        ([apply('Object{data: {"y": "2"}}')], {"x": "1", "y": "2"}),
        ([apply("has(object.data.x) ? Object{} : Object{data: {'y': '2'}}")], {"x": "1"}),
        ([apply('Object{data: {"y": variables.v}}')], {"x": "1", "y": "1!"}),
        ([json_patch('[JSONPatch{op: "add", path: "/data/y", value: object.data.x}]')], {"x": "1", "y": "1"}),
        ([json_patch('[JSONPatch{op: "remove", path: "/data/x"}]')], None),
        (
            [
                json_patch(
                    '[JSONPatch{op: "test", path: "/data/x", value: "2"}, JSONPatch{op: "remove", path: "/data/x"}]'
                )
            ],
            {"x": "1"},
        ),
        (
            [json_patch('[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "1"}]')],
            {"x": "1"},
        ),
        (
            [
                apply('Object{data: {"y": "2"}}'),
                json_patch('[JSONPatch{op: "copy", from: "/data/y", path: "/data/z"}]'),
            ],
            {"x": "1", "y": "2", "z": "2"},
        ),
    ],
    ids=range(8),
)
def test_what_becomes_of_an_object(
    server: Server, request: pytest.FixtureRequest, mutations: list[Obj], data: Obj | None
) -> None:
    """Apply configurations are merged, JSON patches applied, one after the other; a failed test changes nothing."""
    name = f"object-{request.node.callspec.indices['mutations']}"
    variables = [{"name": "v", "expression": "object.data.x + '!'"}]
    store_policy(server, name, {"variables": variables, "mutations": mutations}, "mutating")
    assert create(server, name, x="1").json().get("data") == data


@pytest.mark.parametrize(
    ("mutation", "text"),
    [
        (
            apply('Object{nothing: "2"}'),
            "error applying patch: failed to convert patch object to typed object: .nothing: field not declared in "
            "schema",
        ),
        (
            apply('Object{data: {"y": object.data.z}}'),
            "expression 'Object{data: {\"y\": object.data.z}}' resulted in error: no such key: z",
        ),
        (
            apply("Object{metadata: Object.spec{}}"),
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata", which matches field name '
            "path from root Object type",
        ),
        (
            json_patch('[JSONPatch{op: "add", path: "/spec/x", value: "2"}]'),
            'JSON Patch: add operation does not apply: doc is missing path: "/spec/x": missing value',
        ),
        (
            json_patch('[JSONPatch{op: "remove", path: "/data/z"}]'),
            "JSON Patch: error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            apply('Object{data: {"y": null}}'),
            "error applying patch: failed to convert patch object to typed object: .data.y: expected string, got "
            "&value.valueUnstructured{Value:0}",
        ),
        (
            apply('Object{data: {"y": timestamp("2024-01-02T03:04:05.5+02:00")}}'),
            "error applying patch: failed to convert patch object to typed object: .data.y: expected string, got "
            '&value.valueUnstructured{Value:time.Date(2024, time.January, 2, 3, 4, 5, 500000000, time.Location(""))}',
        ),
        (
            apply('Object{immutable: timestamp("2024-01-02T03:04:05Z")}'),
            "error applying patch: failed to convert patch object to typed object: .immutable: expected boolean, got "
            "&{2024-01-02 03:04:05 +0000 UTC}",
        ),
        (
            apply('Object{immutable: duration("3h0.25s")}'),
            "error applying patch: failed to convert patch object to typed object: .immutable: expected boolean, got "
            "&{3h0m0.25s}",
        ),
        (
            apply('Object{immutable: duration("-20us")}'),
            "error applying patch: failed to convert patch object to typed object: .immutable: expected boolean, got "
            "&{-20µs}",
        ),
    ],
    ids=range(10),
)
def test_a_mutation_that_fails(server: Server, request: pytest.FixtureRequest, mutation: Obj, text: str) -> None:
    """A mutation that fails refuses the request with a 403 whose reason is Invalid, unless the policy ignores it."""
    name = f"fails-{request.node.callspec.indices['mutation']}"
    store_policy(server, name, {"mutations": [mutation]}, "mutating")
    refused = create(server, name, x="1")
    assert (refused.status, refused.json()["reason"], reason(refused)) == (403, "Invalid", text)
    store_policy(server, f"{name}i", {"mutations": [mutation], "failurePolicy": "Ignore"}, "mutating")
    assert create(server, f"{name}i", x="1").json()["data"] == {"x": "1"}


def test_lists_that_are_replaced_as_a_whole_cannot_be_applied(server: Server) -> None:
    """Apply configurations may not set atomic lists, whose other elements they would remove."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    text = "Object{spec: Object.spec{tolerations: [Object.spec.tolerations{key: 'k'}], containers: "
    text += "[Object.spec.containers{name: 'c', env: [Object.spec.containers.env{name: 'A', value: '1'}]}]}}"
    spec = {"matchConstraints": {"resourceRules": [pods]}, "mutations": [apply(text)]}
    with Server(emulated_version="1.36") as running:
        store_policy(running, "pods", spec, "mutating")
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        refused = send(running, "POST", "/api/v1/namespaces/default/pods", pod)
        assert reason(refused) == (
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.tolerations"
        )
        patch = [
            {
                "op": "replace",
                "path": "/spec/mutations/0",
                "value": apply(text.replace("tolerations: [Object.spec.tolerations{key: 'k'}], ", "")),
            }
        ]
        path = f"{GROUP}/v1/mutatingadmissionpolicies/pods"
        assert send(running, "PATCH", path, patch, "application/json-patch+json").status == 200
        created = send(running, "POST", "/api/v1/namespaces/default/pods", pod).json()
        assert created["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
        assert created["spec"]["containers"][0]["image"] == "i"


@pytest.mark.parametrize(("release", "version", "accepted"), [("1.34", "v1beta1", False), ("1.36", "v1", True)])
def test_objects_with_list_elements_of_the_same_keys(release: str, version: str, accepted: bool) -> None:
    """Before 1.35, nothing can be applied to an object in which two elements of a list have the same keys."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [pods]}, "mutations": [apply("Object{}")]}
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "env": env}]}}
    with Server(emulated_version=release, feature_gates={"MutatingAdmissionPolicy": True}) as running:
        store_policy(running, "pods", spec, "mutating", version=version)
        answer = send(running, "POST", "/api/v1/namespaces/default/pods", pod)
        text = (
            "error applying patch: failed to convert original object to typed object: "
            '.spec.containers[name="c"].env: duplicate entries for key [name="A"]'
        )
        assert reason(answer) == ("" if accepted else text)


def test_policies_are_asked_again_about_what_later_ones_change(server: Server) -> None:
    """A policy with reinvocationPolicy IfNeeded sees what a later one has changed; one with Never does not."""
    for policy in ("IfNeeded", "Never"):
        case = f"again-{policy.lower()}"
        matches = constraints(case)
        first = apply("has(object.data.b) ? Object{data: {'a': 'after b'}} : Object{}")
        second = json_patch('[JSONPatch{op: "add", path: "/data/b", value: "1"}]')
        spec = {"matchConstraints": matches, "mutations": [first], "reinvocationPolicy": policy}
        store_policy(server, f"{case}-a", spec, "mutating")
        store_policy(server, f"{case}-b", {"matchConstraints": matches, "mutations": [second]}, "mutating")
    assert create(server, "again-ifneeded", x="1").json()["data"] == {"a": "after b", "b": "1", "x": "1"}
    assert create(server, "again-never", x="1").json()["data"] == {"b": "1", "x": "1"}


def test_what_validation_says_of_a_mutation(server: Server) -> None:
    """Expressions are compiled when the policy is stored: they have to make objects or JSON patches."""
    for mutation, text in (
        (apply("object.data.x"), "must evaluate to Object but got dyn"),
        (json_patch("object.data.x"), "must evaluate to list(JSONPatch) but got dyn"),
        (apply("Object{"), "compilation failed: ERROR: <input>:1:8: Syntax error"),
    ):
        spec = {"matchConstraints": constraints("x"), "mutations": [mutation], "reinvocationPolicy": "Never"}
        policy = {"metadata": {"name": "x"}, "spec": spec}
        answer = send(server, "POST", f"{GROUP}/v1/mutatingadmissionpolicies", policy)
        assert (answer.status, text in answer.json()["message"]) == (422, True)


def test_validating_policies_see_what_mutating_ones_have_made(server: Server) -> None:
    """A mutation comes before validation, and updates are changed as new objects are."""
    store_policy(server, "both", {"mutations": [apply('Object{data: {"y": object.data.x}}')]}, "mutating")
    store_policy(server, "both", {"validations": validations("object.data.y != '3'")})
    assert send(server, "POST", CONFIG_MAPS, config_map("both", "both", x="1")).json()["data"] == {"x": "1", "y": "1"}
    path = f"{CONFIG_MAPS}/both"
    assert send(server, "PUT", path, config_map("both", "both", x="2")).json()["data"] == {"x": "2", "y": "2"}
    assert (
        reason(send(server, "PUT", path, config_map("both", "both", x="3")))
        == "failed expression: object.data.y != '3'"
    )


def test_policies_need_their_feature_gate() -> None:
    """Stored policies change nothing while the gate MutatingAdmissionPolicy is off."""
    with Server(emulated_version="1.36") as running:
        store_policy(running, "gate", {"mutations": [apply('Object{data: {"y": "2"}}')]}, "mutating")
        assert create(running, "gate", x="1").json()["data"] == {"x": "1", "y": "2"}
        running.set_feature_gates({"MutatingAdmissionPolicy": False})
        assert create(running, "gate", x="1").json()["data"] == {"x": "1"}


def test_what_the_server_mends_after_a_mutation(server: Server) -> None:
    """Repeated owners are removed, and invalid managed fields are taken back, each with a warning."""
    owner = "{'apiVersion': 'v1', 'kind': 'A', 'name': 'a', 'uid': '1'}"
    owners = f"[JSONPatch{{op: 'add', path: '/metadata/ownerReferences', value: [{owner}, {owner}]}}]"
    store_policy(server, "owners", {"mutations": [json_patch(owners)]}, "mutating")
    created = create(server, "owners", x="1")
    assert len(created.json()["metadata"]["ownerReferences"]) == 1
    assert "duplicate entries after mutating admission happens" in created.warnings[0]
    fields = "[JSONPatch{op: 'add', path: '/metadata/managedFields', value: [{'manager': 'x', 'operation': 'Bad'}]}]"
    store_policy(server, "fields", {"mutations": [json_patch(fields)]}, "mutating")
    created = create(server, "fields", x="1")
    assert [entry["operation"] for entry in created.json()["metadata"]["managedFields"]] == ["Update"]
    assert created.warnings[0].endswith("please fix your requests: operation must be `Apply` or `Update`")


@pytest.mark.parametrize(
    ("operations", "code", "text"),
    [
        ({"kind": "Secret"}, 500, "failed to convert object: converting (v1.Secret) to (core.ConfigMap)"),
        ({"kind": "Bogus"}, 500, 'no kind "Bogus" is registered for version "v1" in scheme'),
        ({"apiVersion": "apps/v1"}, 500, 'no kind "ConfigMap" is registered for version "apps/v1"'),
        ({"apiVersion": "a/b/c"}, 500, "unexpected GroupVersion string: a/b/c"),
        ({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}, 500, 'strict decoding error: unknown field "data"'),
        ({"apiVersion": "v1", "kind": ""}, 201, ""),
        ({"apiVersion": "", "kind": "ConfigMap"}, 201, ""),
    ],
    ids=range(7),
)
def test_a_patch_that_changes_the_kind(
    server: Server, request: pytest.FixtureRequest, operations: Obj, code: int, text: str
) -> None:
    """A JSON patch that makes another kind of an object fails the request, whatever the failure policy."""
    name = f"kind-{request.node.callspec.indices['operations']}"
    patches = [f"JSONPatch{{op: 'replace', path: '/{field}', value: '{new}'}}" for field, new in operations.items()]
    spec = {"mutations": [json_patch(f"[{', '.join(patches)}]")], "failurePolicy": "Ignore"}
    store_policy(server, name, spec, "mutating")
    answer = create(server, name, x="MTEx")
    assert (answer.status, text in answer.json().get("message", "")) == (code, True), answer.json()


def test_a_patch_that_changes_the_group_is_no_failure_of_the_server(server: Server) -> None:
    """An object of another group does not convert to the version of the request, which the policy is blamed for."""
    patches = "JSONPatch{op: 'replace', path: '/apiVersion', value: 'apps/v1'}"
    patches += ", JSONPatch{op: 'replace', path: '/kind', value: 'Deployment'}, JSONPatch{op: 'remove', path: '/data'}"
    store_policy(server, "group-changed", {"mutations": [json_patch(f"[{patches}]")]}, "mutating")
    answer = create(server, "group-changed", x="1")
    assert answer.status == 403
    assert reason(answer).startswith('v1.Deployment is not suitable for converting to "v1" in scheme')


def test_objects_of_other_versions_and_of_subresources_are_not_applied_to(server: Server) -> None:
    """Policies about another version than the request's fail, and so do apply configurations of a scale."""
    classes = {"apiGroups": ["resource.k8s.io"], "apiVersions": ["v1beta1"], "operations": ["*"]}
    labels = json_patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]")
    spec = {"matchConstraints": {"resourceRules": [{**classes, "resources": ["deviceclasses"]}]}, "mutations": [labels]}
    store_policy(server, "version", spec, "mutating")
    created = send(server, "POST", "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": "c"}})
    assert reason(created) == "converting (v1beta1.DeviceClass) to (v1.DeviceClass): unknown conversion"
    events = {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"]}
    store_policy(server, "group", {"matchConstraints": {"resourceRules": [events]}, "mutations": [labels]}, "mutating")
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    assert reason(send(server, "POST", "/api/v1/namespaces/default/events", event)) == (
        'v1.Event is not suitable for converting to "v1" in scheme '
        '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
    )
    evictions = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    annotations = apply("Object{metadata: Object.metadata{annotations: {'a': 'b'}}}")
    spec = {"matchConstraints": {"resourceRules": [evictions]}, "mutations": [annotations]}
    store_policy(server, "part", spec, "mutating")
    answer = send(server, "POST", "/api/v1/namespaces/default/pods/p/eviction", {"metadata": {"name": "p"}})
    text = "error applying patch: failed to convert patch object to typed object: no corresponding type for policy/v1, "
    assert reason(answer) == f"{text}Kind=Eviction"


def test_parameters_of_built_in_kinds_have_no_kind(server: Server) -> None:
    """Mutations see parameters of built-in kinds without kind and apiVersion, as the real server's cache has them."""
    spec = {"paramKind": {"apiVersion": "v1", "kind": "Namespace"}}
    text = "Object{data: {'name': string(params.metadata.name), 'kind': string(has(params.kind))}}"
    binding: Obj = {"paramRef": {"name": "default", "parameterNotFoundAction": "Deny"}}
    store_policy(server, "params", {**spec, "mutations": [apply(text)]}, "mutating", **binding)
    assert create(server, "params").json()["data"] == {"kind": "false", "name": "default"}


@pytest.mark.parametrize(
    ("path", "new", "code", "text"),
    [
        ("/spec", "{'zz': 1}", 201, ""),
        ("/apiVersion", "'apps/v1'", 500, "failed to convert object: apps/v1, Kind=Gear is unstructured"),
        ("/apiVersion", "''", 500, "failed to convert object: /, Kind=Gear is unstructured"),
        ("/kind", "'Wheel'", 422, 'kind: Invalid value: "Wheel": must be Gear'),
        ("/kind", "''", 500, 'Object \'Kind\' is missing in \'{"apiVersion":"example.com/v1","kind":"","metadata":'),
    ],
    ids=range(5),
)
def test_patches_of_custom_resources(
    server: Server, request: pytest.FixtureRequest, path: str, new: str, code: int, text: str
) -> None:
    """Unknown fields that a patch adds to a custom resource are dropped; it does not become one of another group."""
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gears", "kind": "Gear"}
    server.apply(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "gears.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
        }
    )
    name = f"gear-{request.node.callspec.indices['path']}"
    gears = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gears"]}
    mutation = json_patch(f"[JSONPatch{{op: 'add', path: '{path}', value: {new}}}]")
    matched = constraints(name, resourceRules=[gears])
    store_policy(server, name, {"matchConstraints": matched, "mutations": [mutation]}, "mutating")
    gear = {"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": name, "labels": {"case": name}}}
    answer = send(server, "POST", "/apis/example.com/v1/gears?dryRun=All", gear)
    assert (answer.status, text in answer.json().get("message", "")) == (code, True), answer.json()
    assert answer.json().get("spec") == ({} if code == 201 else None)
