"""Custom resources over HTTP: served as soon as their definition is established, in the way of all other kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http import exchange, send, watch
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
RESOURCE = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def version(name: str = "v1", *, storage: bool = True, **more: Any) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(*versions: Obj, **spec: Any) -> Obj:
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [*versions], **spec},
    }


def define(server: Server, *versions: Obj, **spec: Any) -> None:
    """Create the definition of widgets, and wait until it is established."""
    code, body = exchange(server, "POST", DEFINITIONS, definition(*versions or [version()], **spec))
    assert code == 201, body
    wait_for(server, f"{DEFINITIONS}/widgets.example.com", lambda code, body: is_true(body, "Established"))


def is_true(obj: Obj, condition: str) -> bool:
    conditions = obj["status"].get("conditions") or []
    return any((c["type"], c["status"]) == (condition, "True") for c in conditions)


def wait_for(server: Server, path: str, reached: Any) -> Obj:
    """Return the answer at a path as soon as it is the one that is waited for."""
    _, body = wait_until(lambda: exchange(server, "GET", path), lambda answer: reached(*answer))
    return dict(body)


def widget(name: str = "a", **fields: Any) -> Obj:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **fields}


def test_established_definition_is_served(apiserver: Server) -> None:
    """Objects of an established definition are created, read, patched and deleted like any other."""
    define(apiserver)
    code, created = exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 1}))
    assert (code, created["metadata"]["generation"]) == (201, 1)
    code, patched = exchange(apiserver, "PATCH", f"{WIDGETS}/a", {"spec": {"size": 2}})
    assert (patched["spec"], patched["metadata"]["generation"]) == ({"size": 2}, 2)
    assert exchange(apiserver, "GET", WIDGETS)[1]["items"] == [patched]
    assert exchange(apiserver, "DELETE", f"{WIDGETS}/a")[0] == 200
    assert exchange(apiserver, "GET", f"{WIDGETS}/a")[0] == 404


def test_unknown_resource_is_no_page(apiserver: Server) -> None:
    """A resource that no definition names is no page of the server, before and after a definition of its group."""
    missing = send(apiserver, "GET", "/apis/example.com/v1/gadgets")
    assert (missing.status, missing.body) == (404, b"404 page not found\n")
    define(apiserver)
    assert send(apiserver, "GET", "/apis/example.com/v1/gadgets").body == missing.body


NO_API_VERSION = "Object 'apiVersion' is missing in 'object has no apiVersion field'"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"kind":"Wrong","metadata":{"nonsense":1}}', NO_API_VERSION),
        (b'{"kind":"Widget","apiVersion":"","metadata":{"name":"a"},"x":1,"x":2}', NO_API_VERSION),
        (
            b'{"kind":"Wrong","apiVersion":"v1","metadata":{"odd":1}}',
            'Wrong in version "v1" cannot be handled as a Wrong: strict decoding error: unknown field "metadata.odd"',
        ),
        (
            b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{},"x":1,"x":2}',
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "x"',
        ),
    ],
)
def test_strict_errors_name_the_kind_of_the_object(apiserver: Server, body: bytes, message: str) -> None:
    """Strict errors come once an object is decoded: they name its own kind, and it has to have an apiVersion."""
    define(apiserver)
    answer = send(apiserver, "POST", f"{WIDGETS}?fieldValidation=Strict", body)
    assert (answer.status, answer.json()["message"]) == (400, message)


def test_keys_are_sorted(apiserver: Server) -> None:
    """The JSON of a custom resource has its keys in alphabetical order, those of lists too."""
    define(apiserver)
    exchange(apiserver, "POST", WIDGETS, widget(zone={"b": 1, "a": 1.0}, alpha="<"))
    text = send(apiserver, "GET", f"{WIDGETS}/a").body
    assert text.startswith(b'{"alpha":"\\u003c","apiVersion":"example.com/v1","kind":"Widget","metadata":{')
    assert text.endswith(b'"zone":{"a":1,"b":1}}\n')
    text = send(apiserver, "GET", WIDGETS).body
    assert text.startswith(b'{"apiVersion":"example.com/v1","items":[{"alpha":')
    assert b'],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"' in text


def test_patches_of_custom_resources(apiserver: Server) -> None:
    """Custom resources know no strategic merge patches, and no protobuf."""
    define(apiserver)
    exchange(apiserver, "POST", WIDGETS, widget())
    media = "application/strategic-merge-patch+json"
    assert exchange(apiserver, "PATCH", f"{WIDGETS}/a", {}, media)[0] == 415
    assert send(apiserver, "GET", WIDGETS, accept="application/vnd.kubernetes.protobuf").status == 406


def test_definition_appears_in_discovery(apiserver: Server) -> None:
    """Discovery has the resource with its subresources, its short names and its versions, the preferred one first."""
    define(apiserver, version("v1beta1", storage=False), version("v1", subresources={"status": {}}))
    group = exchange(apiserver, "GET", "/apis/example.com")[1]
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    resources = exchange(apiserver, "GET", "/apis/example.com/v1")[1]["resources"]
    assert [resource["name"] for resource in resources] == ["widgets", "widgets/status"]
    resources = exchange(apiserver, "GET", "/apis/example.com/v1beta1")[1]["resources"]
    assert [resource["name"] for resource in resources] == ["widgets"]


def test_groups_are_in_the_order_of_their_api_services(apiserver: Server) -> None:
    """Groups of definitions are listed by the first names of their API services, which begin with a version."""
    define(apiserver)
    names = {"plural": "gadgets", "kind": "Gadget"}
    other = definition(version(), version("alpha", storage=False), group="other.example.com", names=names)
    exchange(apiserver, "POST", DEFINITIONS, {**other, "metadata": {"name": "gadgets.other.example.com"}})
    wait_for(apiserver, "/apis/other.example.com", lambda code, body: code == 200)
    groups = exchange(apiserver, "GET", "/apis")[1]["groups"]
    assert [group["name"] for group in groups][-2:] == ["other.example.com", "example.com"]


def test_versions_show_the_same_objects(apiserver: Server) -> None:
    """Every version shows the same objects, each under its own apiVersion."""
    define(apiserver, version("v1"), version("v2", storage=False))
    exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 1}))
    other = exchange(apiserver, "GET", WIDGETS.replace("v1", "v2") + "/a")[1]
    assert (other["apiVersion"], other["spec"]) == ("example.com/v2", {"size": 1})


def test_status_has_writers_of_its_own(apiserver: Server) -> None:
    """With a status subresource only that one writes the status, and such a write is no new generation."""
    define(apiserver, version(subresources={"status": {}}))
    created = exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 1}, status={"ready": True}))[1]
    assert "status" not in created
    changes = {"spec": {"size": 2}, "status": {"ready": True}}
    changed = exchange(apiserver, "PATCH", f"{WIDGETS}/a/status", changes)[1]
    assert (changed["spec"], changed["status"]) == ({"size": 1}, {"ready": True})
    assert changed["metadata"]["generation"] == 1


def test_dropped_status_of_a_wrong_type_leaves_no_owners(apiserver: Server) -> None:
    """A status that is not written is not refused, but in a new object that it does not fit all managed fields go.

    Up to 1.36 those of an object that is changed go, too.
    """
    parts = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    status: Obj = {"type": "object", "properties": {"ready": {"type": "boolean"}, "parts": parts}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": status}}}
    define(apiserver, version(schema=schema, subresources={"status": {}}))
    code, created = exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 1}, status={"ready": "yes"}))
    assert (code, created["metadata"].get("managedFields")) == (201, None)
    fitting = {"ready": True, "parts": ["a", "a"]}  # duplicates are refused later, where the status is written
    code, created = exchange(apiserver, "POST", WIDGETS, widget("b", spec={"size": 1}, status=fitting))
    assert (code, len(created["metadata"]["managedFields"])) == (201, 1)
    code, changed = exchange(apiserver, "PATCH", f"{WIDGETS}/b", {"status": "odd"})
    assert (code, len(changed["metadata"]["managedFields"])) == (200, 1)


@pytest.mark.parametrize("spec", [{"at": [None]}, {"at": ["a"]}, {"all": [[]]}])
def test_lists_in_place_of_formatted_texts_leave_no_owners(apiserver: Server, spec: Obj) -> None:
    """A schema with a format is not applied to lists. An object that has one there has no managed fields."""
    text = {"type": "string", "format": "date-time"}
    fields = {"at": text, "all": {"type": "array", "items": text}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}
    define(apiserver, version(schema=schema))
    code, created = exchange(apiserver, "POST", WIDGETS, widget(spec=spec))
    assert (code, created["spec"], created["metadata"].get("managedFields")) == (201, spec, None)
    code, changed = exchange(apiserver, "PATCH", f"{WIDGETS}/a", {"metadata": {"labels": {"a": "b"}}})
    assert (code, changed["metadata"].get("managedFields")) == (200, None)
    code, fitting = exchange(apiserver, "POST", WIDGETS, widget("b", spec={"at": "2026-01-01T00:00:00Z", "all": []}))
    assert (code, len(fitting["metadata"]["managedFields"])) == (201, 1)


def test_object_of_another_kind_gets_no_defaults(apiserver: Server) -> None:
    """An object whose kind is refused has not been given defaults before, about which there would be errors too."""
    resource = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    default = {"apiVersion": "v1", "kind": "odd_"}
    spec = {
        "type": "object",
        "additionalProperties": {"type": "object", "properties": {"of": {**resource, "default": default}}},
    }
    define(apiserver, version(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}))
    refused = exchange(apiserver, "POST", WIDGETS, {**widget(spec={"a": {}}), "kind": "Gadget"})[1]
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["kind"]
    refused = exchange(apiserver, "POST", WIDGETS, widget(spec={"a": {}}))[1]
    assert [cause["field"] for cause in refused["details"]["causes"]] == ["spec[a].of.kind"]


@pytest.mark.parametrize(
    "status",
    [
        {"type": "object", "default": {"ready": False}, "properties": {"ready": {"type": "boolean"}}},
        {"type": "object", "properties": {"of": {**RESOURCE, "default": {"apiVersion": "v1", "kind": "Pod"}}}},
        {"type": "object", "default": {"ready": None}, "properties": {"ready": {"type": "boolean", "nullable": True}}},
        {"type": "object", "default": {"ready": None}, "x-kubernetes-preserve-unknown-fields": True},
    ],
)
def test_created_object_is_answered_as_it_is_read(apiserver: Server, status: Obj) -> None:
    """The answer to a creation is the object as the server reads it again, with defaults of a dropped status."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": status}}}
    define(apiserver, version(schema=schema, subresources={"status": {}}))
    code, created = exchange(apiserver, "POST", WIDGETS, widget(spec={"extra": 1}, status={"of": {"kind": "a"}}))
    assert code == 201
    path = f"{DEFINITIONS}/widgets.example.com"
    stored = exchange(apiserver, "GET", path)[1]
    stored["spec"]["versions"].append(version("v2", storage=False))
    assert exchange(apiserver, "PUT", path, stored)[0] == 200  # empties caches
    assert exchange(apiserver, "GET", f"{WIDGETS}/a") == (200, created)


def test_large_numbers_are_written_as_go_does(apiserver: Server) -> None:
    """Whole numbers beyond 64 bits have all digits in JSON, an exponent in YAML, and reading them is no change."""
    define(apiserver)
    exchange(apiserver, "POST", WIDGETS, widget(spec={"a": 1e20, "b": 2**63, "c": 1e21}))
    digits = [b"100000000000000000000", b"9223372036854776000", b"1e+21"]
    for query in ("", "?pretty=true"):
        text = send(apiserver, "GET", f"{WIDGETS}/a{query}").body
        assert [number in text for number in digits] == [True, True, True], text
    text = send(apiserver, "GET", f"{WIDGETS}/a", accept="application/yaml").body
    assert text.endswith(b"spec:\n  a: 1e+20\n  b: 9223372036854776000\n  c: 1e+21\n")
    unchanged = exchange(apiserver, "PATCH", f"{WIDGETS}/a", {"metadata": {}})[1]
    assert unchanged["metadata"]["generation"] == 1


def test_change_of_a_definition_ends_watches(apiserver: Server) -> None:
    """A watch ends, after the events that it still has to send, when the definition of its objects changes."""
    define(apiserver)
    with watch(apiserver, WIDGETS) as events:
        exchange(apiserver, "POST", WIDGETS, widget())
        changed = {"spec": {"versions": [version(), version("v2", storage=False)]}}
        assert exchange(apiserver, "PATCH", f"{DEFINITIONS}/widgets.example.com", changed)[0] == 200
        assert [event["type"] for event in events] == ["ADDED"]


def test_removed_version_is_not_served(apiserver: Server) -> None:
    """A version that its definition does not serve any more is gone at once, and the others stay."""
    define(apiserver, version("v1"), version("v2", storage=False))
    changed = {"spec": {"versions": [version(), {**version("v2", storage=False), "served": False}]}}
    exchange(apiserver, "PATCH", f"{DEFINITIONS}/widgets.example.com", changed)
    assert send(apiserver, "GET", WIDGETS.replace("v1", "v2")).status == 404
    assert send(apiserver, "GET", WIDGETS).status == 200


SPEC = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}


def test_schemas_decide(apiserver: Server) -> None:
    """Values that the schema refuses are errors, unknown fields are dropped with a warning, and defaults are set."""
    define(apiserver, {**version(), "schema": SCHEMA})
    code, refused = exchange(apiserver, "POST", WIDGETS, widget(spec={"size": "large"}))
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "spec.size")
    accepted = send(apiserver, "POST", WIDGETS, widget(spec={"colour": "red"}))
    assert accepted.json()["spec"] == {"size": 1}
    assert accepted.warnings == ['unknown field "spec.colour"']


def test_columns_of_a_definition(apiserver: Server) -> None:
    """Tables have the columns of the definition after the name, or the age if it has none."""
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    define(apiserver, version(additionalPrinterColumns=[column]), version("v2", storage=False))
    exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 3}))
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = exchange(apiserver, "GET", WIDGETS, accept=accept)[1]
    assert [definition["name"] for definition in table["columnDefinitions"]] == ["Name", "Size"]
    assert [row["cells"] for row in table["rows"]] == [["a", 3]]
    other = exchange(apiserver, "GET", WIDGETS.replace("v1", "v2"), accept=accept)[1]
    assert [definition["name"] for definition in other["columnDefinitions"]] == ["Name", "Age"]


def test_selectable_fields(apiserver: Server) -> None:
    """Lists select by the fields that the version names, and by no others."""
    properties = {"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    define(apiserver, {**version(selectableFields=[{"jsonPath": ".spec.colour"}]), "schema": schema})
    for name, colour in (("a", "red"), ("b", "blue")):
        exchange(apiserver, "POST", WIDGETS, widget(name, spec={"colour": colour}))
    items = exchange(apiserver, "GET", f"{WIDGETS}?fieldSelector=spec.colour=red")[1]["items"]
    assert [item["metadata"]["name"] for item in items] == ["a"]
    assert exchange(apiserver, "GET", f"{WIDGETS}?fieldSelector=spec.size=1")[0] == 400


def test_deleted_definition_waits_for_its_objects(apiserver: Server) -> None:
    """A deleted definition deletes its objects, refuses new ones, and goes when the last of them is gone."""
    define(apiserver)
    path = f"{DEFINITIONS}/widgets.example.com"
    held = widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    exchange(apiserver, "POST", WIDGETS, held)
    exchange(apiserver, "POST", WIDGETS, widget("b"))
    exchange(apiserver, "DELETE", path)
    wait_for(apiserver, WIDGETS, lambda code, body: [item["metadata"]["name"] for item in body["items"]] == ["a"])
    assert exchange(apiserver, "POST", WIDGETS, widget("c"))[0] == 403
    exchange(apiserver, "PATCH", f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    wait_for(apiserver, path, lambda code, body: code == 404)
    assert send(apiserver, "GET", WIDGETS).status == 404


def test_api_services_of_definitions(apiserver: Server) -> None:
    """Each group-version that a definition serves has an API service, until it is served no more."""
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    define(apiserver)
    wait_for(apiserver, f"{services}/v1.example.com", lambda code, body: code == 200)
    exchange(apiserver, "DELETE", f"{DEFINITIONS}/widgets.example.com")
    wait_for(apiserver, f"{services}/v1.example.com", lambda code, body: code == 404)


def test_api_services_of_definitions_are_set_back(apiserver: Server) -> None:
    """The spec of an API service stays that of its definition, and it cannot be deleted, unless it has another label;
    those of a release can be changed."""
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    own, built_in = f"{services}/v1.example.com", f"{services}/v1.apps"
    define(apiserver)
    uid = wait_for(apiserver, own, lambda code, body: code == 200)["metadata"]["uid"]
    for path in (own, built_in):
        exchange(apiserver, "PATCH", path, {"spec": {"versionPriority": 7}})
    wait_for(apiserver, own, lambda code, body: body["spec"]["versionPriority"] == 100)
    exchange(apiserver, "DELETE", own)
    wait_for(apiserver, own, lambda code, body: code == 200 and body["metadata"]["uid"] != uid)
    exchange(apiserver, "PATCH", own, {"metadata": {"labels": None}, "spec": {"versionPriority": 7}})
    exchange(apiserver, "DELETE", f"{DEFINITIONS}/widgets.example.com")
    wait_for(apiserver, f"{DEFINITIONS}/widgets.example.com", lambda code, body: code == 404)
    assert [exchange(apiserver, "GET", path)[1]["spec"]["versionPriority"] for path in (own, built_in)] == [7, 7]
    exchange(apiserver, "DELETE", own)


def test_deprecated_version_warns(apiserver: Server) -> None:
    """A request in a deprecated version is answered with a warning that names the newest other one."""
    define(apiserver, version("v1"), version("v1beta1", storage=False, deprecated=True))
    warnings = send(apiserver, "GET", WIDGETS.replace("v1", "v1beta1")).warnings
    assert warnings == ["example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"]


def test_scale_reads_the_paths_of_the_definition(apiserver: Server) -> None:
    """The scale of a custom resource shows and writes the fields that its definition names."""
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.by"}
    define(apiserver, version(subresources={"status": {}, "scale": paths}))
    exchange(apiserver, "POST", WIDGETS, widget(spec={"size": 2}))
    exchange(apiserver, "PATCH", f"{WIDGETS}/a/status", {"status": {"size": 1, "by": "a=b"}})
    scale = exchange(apiserver, "GET", f"{WIDGETS}/a/scale")[1]
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "a=b"})
    assert exchange(apiserver, "PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})[1]["spec"] == {"replicas": 5}
    assert exchange(apiserver, "GET", f"{WIDGETS}/a")[1]["spec"] == {"size": 5}
    exchange(apiserver, "PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 0}})
    table = send(apiserver, "GET", f"{WIDGETS}/a/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert json.loads(table.body)["rows"][0]["cells"][:3] == ["a", None, 1]  # 0 is left out of the JSON of a Scale
    exchange(apiserver, "POST", WIDGETS, widget("b"))
    code, refused = exchange(apiserver, "GET", f"{WIDGETS}/b/scale")
    assert (code, refused["message"]) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )


def test_scale_has_owners(apiserver: Server) -> None:
    """A write of a scale makes its manager own the replicas, without a time; an apply that changes them is 500."""
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    define(apiserver, version(subresources={"scale": paths}))
    exchange(apiserver, "POST", f"{WIDGETS}?fieldManager=one", widget(spec={"size": 2}))
    exchange(apiserver, "PATCH", f"{WIDGETS}/a/scale?fieldManager=two", {"spec": {"replicas": 5}})
    scaled: Obj = {"f:spec": {"f:size": {}}}

    def owners() -> list[Any]:
        entries = exchange(apiserver, "GET", f"{WIDGETS}/a")[1]["metadata"]["managedFields"]
        return [(entry["manager"], entry.get("subresource"), entry["fieldsV1"], "time" in entry) for entry in entries]

    assert owners() == [("two", "scale", scaled, False), ("one", None, {"f:spec": {}}, True)]
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 5}}
    apply = f"{WIDGETS}/a/scale?fieldManager=three"
    assert exchange(apiserver, "PATCH", apply, scale, "application/apply-patch+yaml")[0] == 200
    assert ("three", "scale", scaled, False) in owners()
    code, refused = exchange(
        apiserver, "PATCH", f"{apply}&force=true", {**scale, "spec": {"replicas": 6}}, "application/apply-patch+yaml"
    )
    why = "to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
    message = f"failed to convert new object (/a; autoscaling/v1, Kind=Scale) {why}"
    assert (code, refused["message"]) == (500, message)
    exchange(apiserver, "PATCH", f"{WIDGETS}/a", {"metadata": {"managedFields": [{}]}})
    code, refused = exchange(apiserver, "PATCH", apply, {**scale, "kind": "Other"}, "application/apply-patch+yaml")
    assert (code, refused["message"]) == (400, "invalid object type: autoscaling/v1, Kind=Other")


@pytest.mark.parametrize("query", ["orphanDependents=true", "propagationPolicy=Foreground"])
def test_deleted_definitions_keep_their_finalizers(apiserver: Server, query: str) -> None:
    """The deletion of a definition adds the finalizer of its cleanup and none of the garbage collector."""
    define(apiserver)
    exchange(apiserver, "PATCH", f"{DEFINITIONS}/widgets.example.com", {"metadata": {"finalizers": ["e.io/a"]}})
    deleted = exchange(apiserver, "DELETE", f"{DEFINITIONS}/widgets.example.com?{query}")[1]
    assert deleted["metadata"]["finalizers"] == ["e.io/a", "customresourcecleanup.apiextensions.k8s.io"]


def test_openapi_of_definitions(apiserver: Server) -> None:
    """Both forms of OpenAPI have the schema of a definition, and another one when it changes."""
    define(apiserver, {**version(), "schema": SCHEMA})
    index = exchange(apiserver, "GET", "/openapi/v3")[1]["paths"]
    url = index["apis/example.com/v1"]["serverRelativeURL"]
    schema = exchange(apiserver, "GET", url)[1]["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["properties"]["spec"] == SPEC
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
    v2 = exchange(apiserver, "GET", "/openapi/v2")[1]
    assert "com.example.v1.WidgetList" in v2["definitions"]
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert send(apiserver, "GET", "/openapi/v2", accept=protobuf).status == 200
    changed = {"spec": {"versions": [version()]}}
    exchange(apiserver, "PATCH", f"{DEFINITIONS}/widgets.example.com", changed)
    assert exchange(apiserver, "GET", "/openapi/v3")[1]["paths"]["apis/example.com/v1"]["serverRelativeURL"] != url


def test_openapi_of_large_numbers_and_unknown_fields(apiserver: Server) -> None:
    """OpenAPI has numbers beyond 64 bits. In v2, nothing is known of objects with unknown fields."""
    limits = {"type": "number", "maximum": 1e20, "description": "<any>"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"limits": limits}}}
    define(apiserver, version(schema=schema), version("v2", storage=False))
    text = send(apiserver, "GET", "/openapi/v3/apis/example.com/v1").body
    assert (b"100000000000000000000" in text, b"\\u003cany\\u003e" in text) == (True, True)
    text = send(apiserver, "GET", "/openapi/v2").body
    assert (b"100000000000000000000" in text, b"<any>" in text) == (True, True)
    shape = json.loads(text)["definitions"]["com.example.v2.Widget"]
    assert shape == {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v2", "kind": "Widget"}],
    }


EITHER = [{"type": "integer"}, {"type": "string"}]


@pytest.mark.parametrize(
    ("schema", "v3"),
    [
        ({}, {"anyOf": EITHER}),
        ({"allOf": [{"minimum": 1}]}, {"anyOf": EITHER, "allOf": [{"minimum": 1}]}),
        ({"anyOf": [{"minimum": 1}]}, {"anyOf": [{"minimum": 1}], "allOf": [{"anyOf": EITHER}]}),
        ({"anyOf": EITHER, "allOf": [{"minimum": 1}]}, {"anyOf": EITHER, "allOf": [{"minimum": 1}]}),
    ],
)
def test_openapi_says_that_a_value_is_an_integer_or_a_string(apiserver: Server, schema: Obj, v3: Obj) -> None:
    """Schemas with x-kubernetes-int-or-string say it in OpenAPI v3 in the way that all readers know; v2 has no way."""
    either = {"x-kubernetes-int-or-string": True}
    properties = {"size": {**either, **schema}}
    define(apiserver, version(schema={"openAPIV3Schema": {"type": "object", "properties": properties}}))
    document = exchange(apiserver, "GET", "/openapi/v3/apis/example.com/v1")[1]["components"]["schemas"]
    assert document["com.example.v1.Widget"]["properties"]["size"] == {**either, **v3}
    document = exchange(apiserver, "GET", "/openapi/v2")[1]["definitions"]
    assert document["com.example.v1.Widget"]["properties"]["size"] == either


def test_openapi_of_paths_and_embedded_resources(apiserver: Server) -> None:
    """Parameters that all operations of a path have stand beside them; v2 requires nothing of embedded resources."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"of": RESOURCE}}}
    define(apiserver, version(schema=schema))
    document = exchange(apiserver, "GET", "/openapi/v3/apis/example.com/v1")[1]
    everywhere = document["paths"]["/apis/example.com/v1/widgets"]
    names = [parameter["name"] for parameter in everywhere["parameters"]]
    assert ("parameters" in everywhere["get"], names) == (False, sorted(names))
    assert {"pretty", "watch"} <= {*names}
    of = document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["of"]
    assert of["required"] == ["kind", "apiVersion"]
    of = exchange(apiserver, "GET", "/openapi/v2")[1]["definitions"]["com.example.v1.Widget"]["properties"]["of"]
    assert of.keys() == {"x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"}


def test_apply_sets_defaults(apiserver: Server) -> None:
    """Server-side apply creates an object with the defaults of its schema, and its manager owns what it sent."""
    define(apiserver, {**version(), "schema": SCHEMA})
    media = "application/apply-patch+yaml"
    path = f"{WIDGETS}/a?fieldManager=me"
    code, applied = exchange(apiserver, "PATCH", path, widget(spec={}), media)
    assert (code, applied["spec"]) == (201, {"size": 1})
    assert applied["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {}}


def test_definition_is_applied_with_its_objects() -> None:
    """Manifests may hold a definition and then its objects, in any served version."""
    both = [definition(version(), version("v1beta1", storage=False)), {**widget(), "apiVersion": "example.com/v1beta1"}]
    with Server(load=[json.dumps(obj) for obj in both]) as server:
        assert server.get("widgets", "a")["apiVersion"] == "example.com/v1"
        server.reset()
        server.delete("widgets.example.com", "a")
        server.delete("crd", "widgets.example.com")
        wait_for(server, f"{DEFINITIONS}/widgets.example.com", lambda code, body: code == 404)
        assert server.apply(*both)[1]["metadata"]["name"] == "a"


def test_requests_of_custom_resources_are_counted(apiserver: Server) -> None:
    """Metrics name a custom resource as they name any other."""
    define(apiserver)
    exchange(apiserver, "GET", WIDGETS)
    text = send(apiserver, "GET", "/metrics").body.decode()
    assert (
        'apiserver_request_total{code="200",component="apiserver",dry_run="",group="example.com",resource="widgets"'
        in text
    )


def test_controllers_know_custom_resources() -> None:
    """A namespace takes its custom resources with it, and an owner its dependents, in any version of their kind."""
    with Server(controllers=["namespace", "garbage-collector"]) as server:
        define(server, version(), version("v1beta1", storage=False))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
        assert exchange(server, "POST", "/api/v1/namespaces", namespace)[0] == 201
        within = WIDGETS.replace("default", "ns")
        assert exchange(server, "POST", within, widget())[0] == 201
        exchange(server, "DELETE", "/api/v1/namespaces/ns")
        wait_for(server, "/api/v1/namespaces/ns", lambda code, body: code == 404)
        assert exchange(server, "GET", within)[1]["items"] == []
        uid = exchange(server, "POST", WIDGETS, widget("owner"))[1]["metadata"]["uid"]
        owned = widget("owned")
        owner = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "name": "owner", "uid": uid}
        owned["metadata"]["ownerReferences"] = [owner]
        exchange(server, "POST", WIDGETS, owned)
        exchange(server, "DELETE", f"{WIDGETS}/owner")
        wait_for(server, f"{WIDGETS}/owned", lambda code, body: code == 404)


@pytest.mark.parametrize(
    ("method", "body", "code", "message"),
    [
        ("POST", {"kind": "Widget"}, 400, "the API version in the data () does not match the expected API version"),
        ("POST", {"apiVersion": "example.com/v1"}, 400, "Object 'Kind' is missing in"),
        ("POST", {"apiVersion": "a/b/c"}, 400, "unexpected GroupVersion string: a/b/c"),
        (
            "POST",
            {**widget(), "kind": "Gadget"},
            422,
            'Gadget.example.com "a" is invalid: kind: Invalid value: "Gadget"',
        ),
        ("PATCH", {"kind": None}, 422, "Object 'Kind' is missing in"),
        ("POST", {"apiVersion": None, "kind": "Widget"}, 400, ".apiVersion accessor error: <nil> is of the type <nil>"),
        ("PATCH", {"apiVersion": None}, 500, "Object 'apiVersion' is missing in 'object has no apiVersion field'"),
        ("PATCH", {"apiVersion": None, "metadata": {"labels": []}}, 422, "cannot unmarshal array into Go struct field"),
        ("PATCH", {"metadata": None}, 400, "name must be provided"),
    ],
)
def test_objects_name_their_kind(apiserver: Server, method: str, body: Obj, code: int, message: str) -> None:
    """An object that does not name its kind and version as the path does is refused in the real server's words."""
    define(apiserver, {**version(), "schema": SCHEMA})
    exchange(apiserver, "POST", WIDGETS, widget())
    path = f"{WIDGETS}/a" if method == "PATCH" else WIDGETS
    status, answer = exchange(apiserver, method, path, body)
    assert (status, message in answer["message"]) == (code, True), answer


@pytest.mark.parametrize(
    ("release", "owned"),
    [("1.34", {"f:spec": {}}), ("1.35", {"f:spec": {".": {}, "f:a": {}}})],
)
def test_fields_that_the_status_resets(release: str, owned: Obj) -> None:
    """A writer of the status takes fields of the spec from owners in other versions, in vain, before 1.35 only."""
    status: Obj = {"subresources": {"status": {}}}
    with Server(emulated_version=release) as server:
        define(server, version(**status), version("v2", storage=False, **status))
        other_version = {**widget(spec={"a": 1}), "apiVersion": "example.com/v2"}
        code, obj = exchange(server, "POST", WIDGETS.replace("v1", "v2") + "?fieldManager=owner", other_version)
        assert code == 201
        sent = {**obj, "apiVersion": "example.com/v1", "spec": {"a": 2}}
        code, obj = exchange(server, "PUT", f"{WIDGETS}/a/status", sent)
        assert (code, obj["spec"]) == (200, {"a": 1})
        assert [entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]] == [owned]


def test_conflicts_about_fields_that_the_resource_resets(apiserver: Server) -> None:
    """Apply meets conflicts about a status that it cannot change, with owners in other versions only."""
    status: Obj = {"subresources": {"status": {}}}
    define(apiserver, version(**status), version("v2", storage=False, **status))
    exchange(apiserver, "POST", WIDGETS, widget(spec={}))
    for name, expected in (("v1", 200), ("v2", 409)):
        path = f"{WIDGETS.replace('v1', name)}/a/status"
        assert exchange(apiserver, "PATCH", path, {"status": {"s": name}})[0] == 200
        path, patch = f"{WIDGETS}/a?fieldManager=m", widget(status={"s": "other"})
        code, body = exchange(apiserver, "PATCH", path, patch, "application/apply-patch+yaml")
        assert code == expected, body


def test_true_and_one_are_two_values(apiserver: Server) -> None:
    """A value that changes from true to 1, or from 0 to false, is stored, although Python takes them for equal."""
    define(apiserver, version(subresources={"status": {}}))
    [widget] = apiserver.apply({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "a": True})
    for method, body, expected in (
        ("PUT", {**widget, "a": 1}, 1),
        ("PATCH", {"a": 0}, 0),
        ("PATCH", {"a": False}, False),
    ):
        _, answer = exchange(apiserver, method, f"{WIDGETS}/w", body)
        assert json.dumps(answer["a"]) == json.dumps(expected)
    assert answer["metadata"]["generation"] == 4
    for value in (False, 0):
        _, answer = exchange(apiserver, "PATCH", f"{WIDGETS}/w/status", {"status": {"b": value}})
        assert json.dumps(answer["status"]["b"]) == json.dumps(value)


@pytest.mark.parametrize(("release", "kept"), [("1.36", False), ("1.37", True)])
def test_owners_that_cannot_be_worked_out(release: str, kept: bool) -> None:
    """Stored managed fields stay since 1.37 where the owners of a change cannot be worked out; before, they all go.

    So it is where the version of a request sets a default for a field that the version of an owner lacks.
    """

    def with_fields(**fields: Obj) -> Obj:
        return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}

    with Server(emulated_version=release) as server:
        text: Obj = {"type": "string"}
        old, new = with_fields(a=text), with_fields(a=text, added={**text, "default": "d"})
        define(server, version(schema=old), version("v2", storage=False, schema=new))
        created = exchange(server, "POST", WIDGETS, widget(spec={"a": "x"}))[1]["metadata"]["managedFields"]
        path = WIDGETS.replace("v1", "v2") + "/a"
        patched = exchange(server, "PATCH", path, {"spec": {"a": "z"}})[1]["metadata"].get("managedFields")
        assert patched == (created if kept else None)
        assert exchange(server, "GET", f"{WIDGETS}/a")[1]["metadata"].get("managedFields") == patched


@pytest.mark.parametrize(("release", "kept"), [("1.36", False), ("1.37", True)])
def test_owners_in_a_version_that_a_definition_does_not_have(release: str, kept: bool) -> None:
    """Owners that wrote in a version that is gone, or in another group, cannot be converted to: apply is refused."""
    with Server(emulated_version=release) as server:
        define(server, version(), version("v2", storage=False))
        sent = widget(spec={"a": "x"})
        created = exchange(server, "POST", WIDGETS.replace("v1", "v2"), {**sent, "apiVersion": "example.com/v2"})[1]
        exchange(server, "PATCH", f"{DEFINITIONS}/widgets.example.com", {"spec": {"versions": [version()]}})
        wait_until(lambda: send(server, "GET", WIDGETS.replace("v1", "v2")).status, lambda code: code == 404)
        answer = send(server, "PATCH", f"{WIDGETS}/a?fieldManager=m", sent, media="application/apply-patch+yaml")
        text = "request to convert CR to an invalid group/version: example.com/v2"
        assert (answer.status, json.loads(answer.body)["message"]) == (500, text)
        patched = exchange(server, "PATCH", f"{WIDGETS}/a", {"spec": {"a": "z"}})[1]["metadata"].get("managedFields")
        assert patched == (created["metadata"]["managedFields"] if kept else None)
        entry = {**created["metadata"]["managedFields"][0], "apiVersion": "other.io/v1"}
        code, other = exchange(
            server, "POST", WIDGETS, widget("b") | {"metadata": {"name": "b", "managedFields": [entry]}}
        )
        assert (code, "managedFields" in other["metadata"]) == (201, False)


@pytest.mark.parametrize(("release", "failed"), [("1.36", "Precondition"), ("1.37", "precondition")])
def test_preconditions_of_deleted_definitions(release: str, failed: str) -> None:
    """Definitions have their own words for preconditions, in small letters since 1.37; so have namespaces."""
    with Server(emulated_version=release) as server:
        define(server)
        preconditions = {"preconditions": {"uid": "other"}}
        refused = exchange(server, "DELETE", f"{DEFINITIONS}/widgets.example.com", preconditions)[1]["message"]
        assert f'"widgets.example.com": {failed} failed: UID in precondition: other, UID in object meta: ' in refused
        refused = exchange(server, "DELETE", "/api/v1/namespaces/default", preconditions)[1]["message"]
        assert '"default": Precondition failed: UID in precondition: other, UID in object meta: ' in refused


FIELD = "json: cannot unmarshal {} into Go struct field "


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"labels": 5, "annotations": 6}, FIELD.format("number") + "ObjectMeta.annotations of type map[string]string"),
        ({"uid": 5, "labels": 6}, FIELD.format("number") + "ObjectMeta.labels of type map[string]string"),
        (
            {"ownerReferences": [{"uid": 5, "apiVersion": 6}]},
            FIELD.format("number") + "OwnerReference.ownerReferences.apiVersion of type string",
        ),
        ({"managedFields": 5, "generation": "x"}, FIELD.format("string") + "ObjectMeta.generation of type int64"),
        (
            {"zzz": 1, "aaa": 2},
            'strict decoding error: unknown field "metadata.aaa", unknown field "metadata.zzz"',
        ),
    ],
)
def test_errors_of_metadata_in_the_order_of_their_fields(apiserver: Server, metadata: Obj, error: str) -> None:
    """The first error is that of the first field by name, whatever comes first in the body: as of 1.32."""
    define(apiserver)
    sent = {**widget(), "metadata": {"name": "a", **metadata}}
    answer = send(apiserver, "POST", f"{WIDGETS}?fieldValidation=Strict", sent).json()
    assert answer["message"] == f'Widget in version "v1" cannot be handled as a Widget: {error}'


@pytest.mark.parametrize(
    ("metadata", "errors"),
    [
        (
            {"labels": 5, "annotations": 6},
            "errors:\n  .metadata.annotations: expected map, got &{6}\n  .metadata.labels: expected map, got &{5}",
        ),
        ({"zzz": 1, "aaa": 2}, ".metadata.aaa: field not declared in schema"),
    ],
)
def test_errors_of_an_applied_configuration_in_the_order_of_its_fields(
    apiserver: Server, metadata: Obj, errors: str
) -> None:
    """The errors of server-side apply are those of fields in the order of their names, too."""
    define(apiserver)
    sent = {**widget(), "metadata": {"name": "a", **metadata}}
    answer = send(apiserver, "PATCH", f"{WIDGETS}/a?fieldManager=m", sent, "application/apply-patch+yaml")
    assert answer.json()["message"].endswith(f"(/a; example.com/v1, Kind=Widget): {errors}")


@pytest.mark.parametrize(
    ("labels", "operations"),
    [
        pytest.param(1, ["NotSupported", "Required"], marks=pytest.mark.apiserver(emulated_version="1.37"), id="1.37"),
        pytest.param(2, ["Invalid", "Invalid"], marks=pytest.mark.apiserver(emulated_version="1.36"), id="1.36"),
    ],
)
def test_errors_of_metadata_beside_declared_rules(apiserver: Server, labels: int, operations: list[str]) -> None:
    """From 1.37 on equal errors of the metadata of a custom resource, or of one within, are causes once."""
    schema = {"type": "object", "properties": {"template": RESOURCE}}
    define(apiserver, {**version(), "schema": {"openAPIV3Schema": schema}})
    wrong = {"labels": {"a": "a=b", "b": "a=b"}}
    template = {"apiVersion": "v1", "kind": "X", "metadata": {**wrong, "managedFields": [{"operation": "x"}, {}]}}
    answer = send(apiserver, "POST", WIDGETS, widget(template=template) | {"metadata": {"name": "a", **wrong}}).json()
    causes = [(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in answer["details"]["causes"]]
    assert causes == [
        *[("metadata.labels", "Invalid")] * labels,
        *[("template.metadata.labels", "Invalid")] * labels,
        *[(f"template.metadata.managedFields[{i}].operation", reason) for i, reason in enumerate(operations)],
    ]


def test_webhook_of_which_no_field_is_set(apiserver: Server) -> None:
    """A webhook without fields is none: it is no change of the definition."""
    define(apiserver)
    path = f"{DEFINITIONS}/widgets.example.com"
    empty: Obj = {"conversion": {"webhook": {"conversionReviewVersions": []}}}
    patched = send(apiserver, "PATCH", path, {"spec": empty}).json()
    assert (patched["spec"]["conversion"], patched["metadata"]["generation"]) == ({"strategy": "None"}, 1)
