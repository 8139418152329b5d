"""OpenAPI: the index, the documents and hashes of v3, and v2 in JSON and protobuf."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.releases import NEWEST, RELEASES, every_release, served
from understudy.apiserver.endpoints.openapi.gnostic import encode
from understudy.apiserver.endpoints.openapi.v2 import schema
from understudy.apiserver.endpoints.openapi.v3 import OpenAPI
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.options import Query
from understudy.machinery.releases.version import Version

DOCUMENTS = {release: OpenAPI(Serving(served(release))) for release in RELEASES}
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
DRA = "/openapi/v3/apis/resource.k8s.io/v1beta1"


def ask(path: str, query: str = "", release: Version = NEWEST, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = DOCUMENTS[release].answer(Request("GET", path, named, b"", Query(query), release))
    assert reply is not None
    return reply


def read(reply: Response) -> Any:
    assert reply.status == 200
    return orjson.loads(reply.body)


def index() -> Any:
    return read(ask("/openapi/v3"))["paths"]


@every_release
def test_index_lists_every_group_version(release: Version) -> None:
    """The index has every group, version and page in sorted order, as plain text without an ETag."""
    reply = ask("/openapi/v3", release=release)
    result = read(reply)["paths"]
    assert (reply.content_type, [*dict(reply.headers)]) == (
        "text/plain; charset=utf-8",
        ["Last-Modified", "Accept-Ranges"],
    )
    assert list(result)[:6] == [".well-known/openid-configuration", "api", "api/v1", "apis", *list(result)[4:6]]
    assert list(result) == sorted(result)
    assert list(result)[-2:] == ["openid/v1/jwks", "version"]
    groups = served(release).groups
    versions = {f"apis/{group.name}/{version}" for group in groups if group.name for version in group.versions}
    assert versions < set(result)
    assert result["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_every_document_can_be_read() -> None:
    """Every document can be read at the URL that the index gives."""
    for name, where in index().items():
        path, _, query = where["serverRelativeURL"].partition("?")
        document = read(ask(path, query))
        assert document["openapi"] == "3.0.0", name
        assert document["paths"], name


def falsy(value: Any, path: str) -> list[str]:
    """Return the paths of what Go's types leave out when they write a document: false, empty lists and maps."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    here = [f"{path}/{key}" for key, item in pairs if item is False or item in ([], {})]
    return here + [inner for key, item in pairs for inner in falsy(item, f"{path}/{key}")]


@every_release
def test_paths_hold_nothing_that_go_leaves_out(release: Version) -> None:
    """A document that kube-openapi's `spec3` reads and writes again is the same one."""
    documents = DOCUMENTS[release]
    for name in documents.hashes:
        assert falsy(documents.document(name)["paths"], name) == []


def test_hash_in_the_url() -> None:
    """The right hash makes a document cacheable for ever, a stale one redirects, and none allows no caching."""
    path, _, query = index()["apis/apps/v1"]["serverRelativeURL"].partition("?")
    right, stale, none = ask(path, query), ask(path, "hash=ABC"), ask(path)
    etag = dict(right.headers)["ETag"]
    assert etag == f'"{query.removeprefix("hash=")}"'
    assert dict(right.headers)["Cache-Control"] == "public, immutable"
    assert dict(right.headers)["Expires"].endswith("UTC")
    assert (stale.status, stale.body, dict(stale.headers)["Location"]) == (301, b"", f"{path}?{query}")
    modified = dict(right.headers)["Last-Modified"]
    assert dict(none.headers) == {
        "ETag": etag,
        "Vary": "Accept",
        "Last-Modified": modified,
        "Accept-Ranges": "bytes",
    }
    again = ask(path, If_None_Match=f"W/{etag}")
    assert (again.status, again.body, dict(again.headers)["ETag"]) == (304, b"", etag)


def test_hash_follows_runtime_config() -> None:
    """Switching a resource off changes the document and the hash of its group-version only."""
    less = OpenAPI(Serving(served(NEWEST, {"apps/v1/daemonsets": False})))
    changed = {name for name, etag in less.hashes.items() if etag != DOCUMENTS[NEWEST].hashes[name]}
    assert changed == {"apis/apps/v1"}
    assert not [path for path in less.document("apis/apps/v1")["paths"] if "daemonsets" in path]


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        (DRA, "application/*", 200),
        (DRA, "application/json;as=whatever", 200),
        (DRA, "text/html", 406),
        (DRA + "/", "*/*", 404),
        ("/openapi/v3/apis/nothing", "*/*", 404),
        ("/openapi/v2", "text/html", 406),
        ("/openapi/v2", "application/*", 200),
    ],
)
def test_refusals_have_no_body(path: str, accept: str, status: int) -> None:
    """A document that cannot be served in the accepted form is a 406 without a body."""
    reply = ask(path, Accept=accept)
    assert reply.status == status
    if status != 200:
        assert (reply.body, reply.content_type) == (b"", "")


def test_operations_of_a_namespaced_resource() -> None:
    """Every operation has the kind and action that kubectl reads, and PATCH its parameters."""
    paths = read(ask(DRA))["paths"]
    one = paths["/apis/resource.k8s.io/v1beta1/namespaces/{namespace}/resourceclaims/{name}"]
    assert set(one) == {"get", "put", "patch", "delete", "parameters"}
    assert one["patch"]["operationId"] == "patchResourceV1beta1NamespacedResourceClaim"
    assert one["patch"]["x-kubernetes-action"] == "patch"
    kind = {"group": "resource.k8s.io", "version": "v1beta1", "kind": "ResourceClaim"}
    assert one["patch"]["x-kubernetes-group-version-kind"] == kind
    named = [parameter["name"] for parameter in one["patch"]["parameters"]]
    assert named == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert "application/apply-patch+yaml" in one["patch"]["requestBody"]["content"]
    everywhere = paths["/apis/resource.k8s.io/v1beta1/resourceclaims"]
    assert everywhere["get"]["operationId"] == "listResourceV1beta1ResourceClaimForAllNamespaces"
    many = paths["/apis/resource.k8s.io/v1beta1/namespaces/{namespace}/resourceclaims"]
    assert many["delete"]["operationId"] == "deleteResourceV1beta1CollectionNamespacedResourceClaim"
    assert "/apis/resource.k8s.io/v1beta1/namespaces/{namespace}/resourceclaims/{name}/status" in paths


@pytest.mark.parametrize(
    ("name", "tag", "operation"),
    [
        ("api/v1", "core_v1", "getCoreV1APIResources"),
        ("apis/apps/v1", "apps_v1", "getAppsV1APIResources"),
        ("apis/rbac.authorization.k8s.io/v1", "rbacAuthorization_v1", "getRbacAuthorizationV1APIResources"),
    ],
)
def test_tags_of_group_versions(name: str, tag: str, operation: str) -> None:
    """Operations are named and tagged after the group without `.k8s.io`, and the version."""
    paths = read(ask(f"/openapi/v3/{name}"))["paths"]
    listed = paths[f"/{name}/"]["get"]
    assert (listed["tags"], listed["operationId"], "401" in listed["responses"]) == ([tag], operation, True)
    tags = {tag for item in paths.values() for verb in item if verb != "parameters" for tag in item[verb]["tags"]}
    assert tags == {tag}


@pytest.mark.parametrize(
    ("name", "path", "method", "operation", "about"),
    [
        ("api/v1", "pods", "get", "listCoreV1PodForAllNamespaces", "list or watch objects of kind Pod"),
        ("api/v1", "componentstatuses", "get", "listCoreV1ComponentStatus", "list objects of kind ComponentStatus"),
        ("api/v1", "namespaces/{namespace}/endpoints", "post", "createCoreV1NamespacedEndpoints", "create Endpoints"),
        ("api/v1", "nodes/{name}/status", "get", "readCoreV1NodeStatus", "read status of the specified Node"),
        (
            *("api/v1", "namespaces/{namespace}/pods/{name}/eviction", "post"),
            *("createCoreV1NamespacedPodEviction", "create eviction of a Pod"),
        ),
        (
            *("api/v1", "namespaces/{namespace}/pods/{name}/exec", "get"),
            *("connectCoreV1GetNamespacedPodExec", "connect GET requests to exec of Pod"),
        ),
        (
            *("api/v1", "nodes/{name}/proxy/{path}", "options"),
            *("connectCoreV1OptionsNodeProxyWithPath", "connect OPTIONS requests to proxy of Node"),
        ),
        (
            *("apis/apps/v1", "watch/daemonsets", "get", "watchAppsV1DaemonSetListForAllNamespaces"),
            "watch individual changes to a list of DaemonSet. deprecated: use the 'watch' parameter with a list "
            "operation instead.",
        ),
        (
            *("apis/networking.k8s.io/v1", "watch/namespaces/{namespace}/ingresses/{name}", "get"),
            "watchNetworkingV1NamespacedIngress",
            "watch changes to an object of kind Ingress. deprecated: use the 'watch' parameter with a list operation "
            "instead, filtered to a single item with the 'fieldSelector' parameter.",
        ),
        (
            *("apis/networking.k8s.io/v1", "namespaces/{namespace}/ingresses/{name}", "delete"),
            *("deleteNetworkingV1NamespacedIngress", "delete an Ingress"),
        ),
    ],
)
def test_names_and_descriptions_of_operations(name: str, path: str, method: str, operation: str, about: str) -> None:
    """Operations are named after verb, group, version, kind and subresource, and described in one sentence."""
    item = read(ask(f"/openapi/v3/{name}"))["paths"][f"/{name}/{path}"][method]
    assert (item["operationId"], item["description"]) == (operation, about)


@every_release
def test_parameters_have_descriptions(release: Version) -> None:
    """Every parameter of every operation has a description."""
    for name in DOCUMENTS[release].hashes:
        for path, item in DOCUMENTS[release].document(name)["paths"].items():
            operations = [value for method, value in item.items() if method != "parameters"]
            for own in (item, *operations):
                assert all(parameter["description"] for parameter in own.get("parameters", ())), path


def test_operations_of_subresources() -> None:
    """An operation of a subresource has the kind of its body."""
    paths = read(ask("/openapi/v3/apis/apps/v1"))["paths"]
    scale = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert scale["operationId"] == "readAppsV1NamespacedDeploymentScale"


def test_references_resolve() -> None:
    """Every reference of a document leads to a schema in it."""
    for name in index():
        document = DOCUMENTS[NEWEST].document(name)
        known = document.get("components", {}).get("schemas", {})
        text = orjson.dumps(document).decode()
        named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert named <= set(known), name


def test_v2_schema_is_simplified() -> None:
    """v2 drops what stands beside references, unions and defaults."""
    shape = {
        "type": "object",
        "properties": {
            "metadata": {"description": "x", "default": {}, "allOf": [{"$ref": "#/components/schemas/a.Meta"}]},
            "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "default": {"type": "array", "items": {"type": "string", "default": ""}},
            "limits": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/a.Q"}},
        },
    }
    assert schema(shape) == {
        "type": "object",
        "properties": {
            "metadata": {"description": "x", "$ref": "#/definitions/a.Meta"},
            "port": {"format": "int-or-string", "type": "string"},
            "default": {"type": "array", "items": {"type": "string"}},
            "limits": {"type": "object", "additionalProperties": {"$ref": "#/definitions/a.Q"}},
        },
    }


def test_v2_document_in_json() -> None:
    """One v2 document holds all groups, with the media types of PATCH that kubectl looks for."""
    reply = ask("/openapi/v2")
    document = read(reply)
    assert (document["swagger"], document["info"]) == ("2.0", {"title": "Kubernetes", "version": str(NEWEST)})
    assert len(document["definitions"]) > 500
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert patch["parameters"][0] == {"$ref": "#/parameters/body-78PwaGsr"}
    assert ask("/openapi/v2", If_None_Match=dict(reply.headers)["ETag"]).status == 304


def test_v2_parameters_are_shared() -> None:
    """Parameters that speak of no kind stand once, under the name that kube-openapi makes of their JSON."""
    document = read(ask("/openapi/v2"))
    everywhere = document["paths"]["/apis/apps/v1/daemonsets"]["parameters"]
    assert everywhere[0] == {"$ref": "#/parameters/allowWatchBookmarks-HC2hJt-J"}
    selector = document["parameters"]["labelSelector-5Zw57w4C"]
    assert selector["description"].startswith("A selector to restrict the list of returned objects by their labels.")
    assert document["securityDefinitions"]["BearerToken"]["type"] == "apiKey"
    assert document["security"] == [{"BearerToken": []}]
    text = ask("/openapi/v2").body.decode()
    named = {part.partition('"')[0] for part in text.split("#/parameters/")[1:]}
    assert named == set(document["parameters"])


def test_v2_document_in_protobuf() -> None:
    """The v2 document is served in protobuf under either name of the media type."""
    reply = ask("/openapi/v2", Accept=PROTOBUF)
    assert reply.content_type == PROTOBUF.replace("@", ".")
    assert reply.body.startswith(b"\x0a\x032.0\x12\x12\x0a\x0aKubernetes\x12\x04" + str(NEWEST).encode())
    assert b"io.k8s.api.resource.v1beta1.ResourceClaim" in reply.body


def test_v2_protobuf_field_numbers() -> None:
    """The protobuf has the field numbers of gnostic's openapiv2 messages."""
    document = {"definitions": {"a.B": {"type": "object", "properties": {"c": {"$ref": "#/d"}}, "x-k": ["v"]}}}
    named = b"\x0a\x01c\x12\x05\x0a\x03#/d"
    properties = b"\xca\x01" + bytes([len(named) + 2]) + b"\x0a" + bytes([len(named)]) + named
    extension = b"\x0a\x03x-k\x12\x06\x12\x04- v\n"
    inner = b"\xb2\x01\x08\x0a\x06object" + properties + b"\xfa\x01" + bytes([len(extension)]) + extension
    entry = b"\x0a\x03a.B\x12" + bytes([len(inner)]) + inner
    assert encode(document) == b"\x4a" + bytes([len(entry) + 2]) + b"\x0a" + bytes([len(entry)]) + entry
