"""Custom resource definitions over HTTP: when they are established, what discovery shows of them, gated fields."""

from __future__ import annotations

import base64
import gc
import weakref
from typing import Any

import pytest

from tests.http import exchange, send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
APPLY = "application/apply-patch+yaml"
BUNDLES = {
    "blank": b"\n",
    "text": b"junk",
    "pem": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
}


def definition(group: str, plural: str = "things", *, kind: str = "Thing", version: str = "v1", **spec: Any) -> Obj:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
            **spec,
        },
    }


def by_webhook(bundle: bytes) -> Obj:
    """Return a conversion by a webhook that is verified with a CA bundle."""
    config = {"url": "https://127.0.0.1:9/convert", "caBundle": base64.b64encode(bundle).decode()}
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}


def reason(obj: Obj, condition: str = "Established") -> str:
    conditions = obj["status"].get("conditions") or ()
    return next((f"{c['status']} {c['reason']}" for c in conditions if c["type"] == condition), "")


def create(server: Server, obj: Obj, expected: str = "True InitialNamesAccepted") -> Obj:
    """Create a definition, and return it when its condition Established is as expected."""
    code, body = exchange(server, "POST", DEFINITIONS, obj)
    assert code == 201, body
    path = f"{DEFINITIONS}/{obj['metadata']['name']}"
    return wait_until(lambda: exchange(server, "GET", path)[1], lambda body: reason(body) == expected)


def listed(server: Server, group: str) -> list[str]:
    """Return the versions of a group in the list of groups."""
    groups = send(server, "GET", "/apis").json()["groups"]
    return [version["version"] for each in groups if each["name"] == group for version in each["versions"]]


def aggregated(server: Server, group: str) -> dict[str, list[str]]:
    """Return {version: resources} of a group in aggregated discovery."""
    items = send(server, "GET", "/apis", headers={"Accept": AGGREGATED}).json()["items"]
    versions = [version for each in items if each["metadata"]["name"] == group for version in each["versions"]]
    return {version["version"]: [each["resource"] for each in version["resources"]] for version in versions}


@pytest.mark.parametrize("bundle", BUNDLES)
@pytest.mark.parametrize("release", ["1.32", "1.36"])
def test_invalid_ca_bundle_of_a_conversion(release: str, bundle: str) -> None:
    """A definition whose webhook has no readable certificates is not established, and its objects cannot be served.

    From 1.34 on nothing but space counts as no certificates when the webhook is called.
    """
    with Server(emulated_version=release) as server:
        created = create(
            server, definition("example.com", conversion=by_webhook(BUNDLES[bundle])), "False InvalidCABundle"
        )
        established = next(c for c in created["status"]["conditions"] if c["type"] == "Established")
        assert established["message"] == "The conversion webhook CABundle is invalid"
        assert listed(server, "example.com") == ["v1"]
        assert aggregated(server, "example.com") == {}
        assert send(server, "GET", "/apis/example.com/v1").body == b"404 page not found\n"
        code, body = exchange(server, "GET", "/apis/example.com/v1/things")
        if bundle == "blank" and release == "1.36":
            assert (code, body["items"]) == (200, [])
        else:
            assert (code, body["message"]) == (500, "Internal error occurred: error resolving resource")
        created["spec"]["conversion"] = {"strategy": "None"}
        path = f"{DEFINITIONS}/things.example.com"
        assert exchange(server, "PUT", path, created)[0] == 200
        wait_until(lambda: exchange(server, "GET", path)[1], lambda body: reason(body) == "True InitialNamesAccepted")
        assert exchange(server, "GET", "/apis/example.com/v1/things")[0] == 200


def test_group_of_a_definition_whose_names_are_taken(apiserver: Server) -> None:
    """The version of a definition that is not established is listed, but neither aggregated nor served."""
    create(apiserver, definition("example.com"))
    create(apiserver, definition("example.com", "others", version="v2"), "False NotAccepted")
    assert listed(apiserver, "example.com") == ["v2", "v1"]
    group = send(apiserver, "GET", "/apis/example.com").json()
    assert group["preferredVersion"]["version"] == "v2"
    assert aggregated(apiserver, "example.com") == {"v1": ["things"]}
    assert send(apiserver, "GET", "/apis/example.com/v2").status == 404
    assert {"/apis/example.com/v1", "/apis/example.com/v2"} < set(send(apiserver, "GET", "/").json()["paths"])


@pytest.mark.parametrize("group", ["apiextensions.k8s.io", "resource.k8s.io"])
def test_definition_in_a_built_in_group(apiserver: Server, group: str) -> None:
    """A version of its own is listed, aggregated and described first, but nothing is served of it."""
    before = listed(apiserver, group)
    create(apiserver, definition(group, version="v7"))
    service = f"/apis/apiregistration.k8s.io/v1/apiservices/v7.{group}"
    _, body = wait_until(lambda: exchange(apiserver, "GET", service), lambda answer: answer[0] == 200)
    assert (body["spec"]["groupPriorityMinimum"], body["spec"]["versionPriority"]) == (1000, 100)
    assert listed(apiserver, group) == ["v7", *before]
    assert list(aggregated(apiserver, group)) == ["v7", *before]
    assert aggregated(apiserver, group)["v7"] == ["things"]
    code, answer = exchange(apiserver, "GET", f"/apis/{group}/v7/things")
    assert (code, answer["message"]) == (404, "the server could not find the requested resource")
    assert exchange(apiserver, "GET", f"/apis/{group}/v7")[0] == 404
    assert send(apiserver, "GET", f"/openapi/v3/apis/{group}/v7").json()["info"]["title"] == "Kubernetes CRD Swagger"
    assert exchange(apiserver, "DELETE", f"{DEFINITIONS}/things.{group}")[0] == 200
    wait_until(lambda: exchange(apiserver, "GET", service)[0], lambda code: code == 404)


def test_definition_in_a_built_in_version(apiserver: Server) -> None:
    """The built-in version stays as it is: its document, its resources and its API service."""
    document = send(apiserver, "GET", "/openapi/v3/apis/resource.k8s.io/v1").json()
    create(apiserver, definition("resource.k8s.io"))
    assert "things" not in aggregated(apiserver, "resource.k8s.io")["v1"]
    assert send(apiserver, "GET", "/openapi/v3/apis/resource.k8s.io/v1").json() == document
    _, service = exchange(apiserver, "GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.resource.k8s.io")
    assert service["spec"]["groupPriorityMinimum"] > 1000


def gated_schema() -> Obj:
    optional = [{"rule": "true", "optionalOldSelf": True}]
    lists = {"type": "array", "items": {"type": "string", "x-kubernetes-validations": optional}}
    spec = {"type": "object", "x-kubernetes-validations": optional, "properties": {"a": {"type": "string"}, "b": lists}}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def gated(obj: Obj) -> Obj:
    """Return a definition with fields that need the gates CRDValidationRatcheting and CustomResourceFieldSelectors."""
    obj["spec"]["versions"][0] |= {"schema": gated_schema(), "selectableFields": [{"jsonPath": ".spec.a"}]}
    return obj


@pytest.mark.apiserver(
    emulated_version="1.31", feature_gates={"CRDValidationRatcheting": False, "CustomResourceFieldSelectors": False}
)
def test_gated_fields_are_dropped(apiserver: Server) -> None:
    """Fields of definitions whose gate is off are dropped; an update that brings them counts as a change."""
    created = create(apiserver, gated(definition("example.com")))
    version = {**created["spec"]["versions"][0]}
    assert "selectableFields" not in version
    assert "optionalOldSelf" not in str(version)
    code, body = exchange(apiserver, "GET", "/apis/example.com/v1/things?fieldSelector=spec.a%3Dx")
    assert (code, body["message"]) == (400, "field label not supported: spec.a")
    code, updated = exchange(apiserver, "PUT", f"{DEFINITIONS}/things.example.com", gated(created))
    assert (code, updated["spec"]["versions"][0], updated["metadata"]["generation"]) == (200, version, 2)


@pytest.mark.apiserver(emulated_version="1.31")
def test_gated_fields_in_use_are_kept(apiserver: Server) -> None:
    """A definition that has the fields keeps them when the gates are turned off, in its updates, too."""
    obj = gated(definition("example.com"))
    spec = obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "oldSelf.hasValue() || true", "optionalOldSelf": True}]
    del spec["properties"]["b"]
    created = create(apiserver, obj)
    apiserver.set_feature_gates({"CRDValidationRatcheting": False, "CustomResourceFieldSelectors": False})
    created["metadata"]["labels"] = {"a": "b"}
    code, updated = exchange(apiserver, "PUT", f"{DEFINITIONS}/things.example.com", created)
    assert (code, updated["spec"]) == (200, created["spec"])
    assert "optionalOldSelf" in str(updated["spec"])


@pytest.mark.parametrize(("release", "owned"), [("1.35", False), ("1.36", True)])
def test_metadata_in_an_update_of_the_status(release: str, owned: bool) -> None:
    """The status takes labels along; their manager owns them from 1.36 on."""
    with Server(emulated_version=release) as server:
        create(server, definition("example.com"))
        path = f"{DEFINITIONS}/things.example.com/status?fieldManager=me"
        code, body = exchange(server, "PATCH", path, {"metadata": {"labels": {"a": "b"}}})
        assert (code, body["metadata"]["labels"]) == (200, {"a": "b"})
        fields = [entry["fieldsV1"] for entry in body["metadata"]["managedFields"] if entry["manager"] == "me"]
        assert fields == ([{"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}] if owned else [])


ITEM = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "x-kubernetes-validations": [{"rule": "self.n > 0"}],
}


@pytest.mark.parametrize("kind", ["object", "string"])
def test_rules_of_items_below_a_type_without_items(apiserver: Server, kind: str) -> None:
    """Such rules do not compile: an object that has a list there since before cannot be changed any more."""

    def schema(**backend: Any) -> Obj:
        spec = {"type": "object", "properties": {"backend": {"items": ITEM, **backend}}}
        return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}

    obj = definition("example.com")
    obj["spec"]["versions"][0]["schema"] = schema(type="array", maxItems=100)
    created = create(apiserver, obj)
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"backend": [{"n": 1}]},
    }
    code, stored = exchange(apiserver, "POST", things, {**thing, "metadata": {"name": "a"}})
    assert code == 201, stored
    created["spec"]["versions"][0]["schema"] = schema(type=kind)
    assert exchange(apiserver, "PUT", f"{DEFINITIONS}/things.example.com", created)[0] == 200
    stored["metadata"]["labels"] = {"a": "b"}
    code, body = exchange(apiserver, "PUT", f"{things}/a", stored)
    assert (code, body["message"]) == (
        422,
        'Thing.example.com "a" is invalid: spec.backend[0]: Invalid value: "object": rule compiler initialization '
        "error: failed to convert to declType for CEL validation rules",
    )
    code, body = exchange(apiserver, "POST", things, {**thing, "metadata": {"name": "b"}})
    assert (code, f'spec.backend in body must be of type {kind}: "array"' in body["message"]) == (422, True)


def test_deleted_definitions_are_forgotten(apiserver: Server) -> None:
    """Deleting a definition forgets its schema, which may have tens of thousands of properties."""
    create(apiserver, definition("example.com"))
    assert exchange(apiserver, "GET", "/apis/example.com/v1/namespaces/default/things/a")[0] == 404
    defined = apiserver.state.serving.custom("example.com", "things")
    assert defined is not None
    custom = weakref.ref(defined.storage.custom)
    del defined
    assert exchange(apiserver, "DELETE", f"{DEFINITIONS}/things.example.com")[0] == 200
    wait_until(lambda: exchange(apiserver, "GET", f"{DEFINITIONS}/things.example.com")[0], lambda code: code == 404)
    create(apiserver, definition("other.example.com"))
    gc.collect()
    assert custom() is None
