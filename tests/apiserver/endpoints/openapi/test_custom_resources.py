"""OpenAPI documents of custom resources: their structure, and the order of their keys, which clients may show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

NAME = "com.example.v1.Gear"
GEAR = "/apis/example.com/v1/namespaces/{namespace}/gears/{name}"
SCHEMA: Obj = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"},
                "ports": {
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "type": "array",
                    "items": {"required": ["name"], "properties": {"name": {"type": "string"}}, "type": "object"},
                },
            },
        },
        "active": {"default": True, "description": "on", "type": "boolean"},
    },
}


@pytest.fixture(scope="module", params=["1.32", "1.36"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    names = {"plural": "gears", "kind": "Gear"}
    with Server(emulated_version=request.param) as running:
        running.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "gears.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
            }
        )
        yield running


def document(server: Server) -> Obj:
    body: Obj = send(server, "GET", "/openapi/v3/apis/example.com/v1").json()
    return body


def test_order_of_schemas(server: Server) -> None:
    """The fields of a schema stand in the order of the Go type, vendor extensions after them; names are sorted."""
    schema = document(server)["components"]["schemas"][NAME]
    assert list(schema["properties"]) == ["active", "apiVersion", "kind", "metadata", "spec"]
    assert list(schema["properties"]["active"]) == ["description", "type", "default"]
    spec = schema["properties"]["spec"]["properties"]
    assert list(spec) == ["ports", "size"]
    assert list(spec["size"]) == ["pattern", "anyOf", "x-kubernetes-int-or-string"]
    assert list(spec["ports"]) == ["type", "items", "x-kubernetes-list-map-keys", "x-kubernetes-list-type"]
    assert list(spec["ports"]["items"]) == ["type", "required", "properties"]
    assert list(schema["x-kubernetes-group-version-kind"][0]) == ["group", "kind", "version"]


def test_delete_options_name_all_versions_of_clients(server: Server) -> None:
    """DeleteOptions belong to each group-version that client-go knows, served or not."""
    schema = document(server)["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    named = [(kind["group"], kind["version"]) for kind in schema["x-kubernetes-group-version-kind"]]
    assert named == sorted(named)
    assert {("", "v1"), ("apps", "v1beta2"), ("extensions", "v1beta1"), ("resource.k8s.io", "v1beta1")} < set(named)
    assert ("apiextensions.k8s.io", "v1") not in named


def test_media_types_of_patches(server: Server) -> None:
    """The media types of a body are sorted in v3, and stand in the server's order in v2."""
    patches = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"]
    body = document(server)["paths"][GEAR]["patch"]["requestBody"]["content"]
    assert list(body) == sorted(patches)
    operations = send(server, "GET", "/openapi/v2").json()["paths"][GEAR]
    assert operations["patch"]["consumes"] == patches
    assert operations["get"]["consumes"] == operations["get"]["produces"] == ["application/json", "application/yaml"]
    assert (operations["get"]["schemes"], list(operations["parameters"][0])) == (
        ["https"],
        ["uniqueItems", "type", "description", "name", "in", "required"],
    )


def test_type_whose_name_is_taken_gets_another() -> None:
    """In v2 a definition's type does not take the place of one of the release, whose name it has: it is a `_v2`."""
    group, plural = "apiextensions.apis.pkg.apiextensions-apiserver.k8s.io", "customresourcedefinitions"
    schema: Obj = {"type": "object", "properties": {"probe": {"type": "boolean"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": "CustomResourceDefinition"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, test-only"},
        },
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [version]},
    }
    with Server() as server:
        server.apply(definition)
        swagger = send(server, "GET", "/openapi/v2").json()
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    assert {f"{name}List_v2", f"{name}_v2"} == {key for key in swagger["definitions"] if key.endswith("_v2")}
    assert "probe" in swagger["definitions"][f"{name}_v2"]["properties"]
    assert "probe" not in swagger["definitions"][name]["properties"]
    for of, suffix in ((group, "_v2"), ("apiextensions.k8s.io", "")):
        read = swagger["paths"][f"/apis/{of}/v1/{plural}/{{name}}"]["get"]["responses"]["200"]
        assert read["schema"] == {"$ref": f"#/definitions/{name}{suffix}"}
