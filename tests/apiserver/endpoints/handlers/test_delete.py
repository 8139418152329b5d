"""Bodies of DELETE requests and their answers, as in kube-apiserver 1.32.5."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange
from understudy import Server

MAPS = "/api/v1/namespaces/default/configmaps"
SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(emulated_version="1.32") as running:
        yield running


@pytest.mark.parametrize("query", ["", "?gracePeriodSeconds=0", "?propagationPolicy=Background", "?dryRun=All"])
def test_deleted_node_is_answered_with_a_status(server: Server, query: str) -> None:
    """A deleted node is answered with a Status, whatever the options."""
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    for body in (None, {"kind": "DeleteOptions", "apiVersion": "v1"}):
        status, answer = exchange(server, "DELETE", f"/api/v1/nodes/n?dryRun=All&{query[1:]}", body)
        assert (status, answer["kind"], answer["status"]) == (200, "Status", "Success")
        assert answer["details"]["name"] == "n"


@pytest.mark.parametrize("version", ["", "v1", "meta.k8s.io/v1", "apps/v1", "nope/v1"])
def test_delete_options_of_any_version_are_read(server: Server, version: str) -> None:
    """DeleteOptions are read under any apiVersion, even one that does not exist."""
    server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    body = {"kind": "DeleteOptions", "apiVersion": version}
    assert exchange(server, "DELETE", f"{MAPS}/m", body)[0] == 200


@pytest.mark.parametrize(
    ("version", "kind", "message"),
    [
        ("v1", "Status", "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
        ("apps/v1", "Status", "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
        ("", "APIGroup", "converting (v1.APIGroup) to (v1.DeleteOptions): unknown conversion"),
        ("meta.k8s.io/v1", "WatchEvent", "converting (v1.WatchEvent) to (v1.DeleteOptions): unknown conversion"),
        ("meta.k8s.io/v1", "ListOptions", "converting (v1.ListOptions) to (v1.DeleteOptions): unknown conversion"),
        ("meta.k8s.io/v1", "Table", "converting (v1.Table) to (v1.DeleteOptions): unknown conversion"),
        ("v1", "WatchEvent", f'no kind "WatchEvent" is registered for version "v1" in scheme "{SCHEME}"'),
        ("v1", "Pod", f'no kind "Pod" is registered for version "v1" in scheme "{SCHEME}"'),
        ("", "Pod", f'no kind "Pod" is registered for version "meta.k8s.io/v1" in scheme "{SCHEME}"'),
        ("/v1", "Pod", f'no kind "Pod" is registered for version "v1" in scheme "{SCHEME}"'),
        ("__internal", "Pod", f'no kind "Pod" is registered for the internal version of group "" in scheme "{SCHEME}"'),
        ("", "ListOptions", "converting (v1.ListOptions) to (v1.DeleteOptions): unknown conversion"),
        ("v1", "CreateOptions", "converting (v1.CreateOptions) to (v1.DeleteOptions): unknown conversion"),
        ("apps/v1", "UpdateOptions", "converting (v1.UpdateOptions) to (v1.DeleteOptions): unknown conversion"),
        ("a/", "DeleteOptions", """Object 'apiVersion' is missing in '{"apiVersion":"a/","kind":"DeleteOptions"}'"""),
        ("a/b/c", "DeleteOptions", "unexpected GroupVersion string: a/b/c"),
    ],
)
def test_body_of_another_kind_is_refused(server: Server, version: str, kind: str, message: str) -> None:
    """A DELETE body of another kind is refused before the object is looked up."""
    for path in (f"{MAPS}/absent", f"{MAPS}?labelSelector=a%3Db"):
        status, answer = exchange(server, "DELETE", path, {"apiVersion": version, "kind": kind})
        assert (status, answer["message"]) == (500, message)


def test_undecodable_field_precedes_the_wrong_kind(server: Server) -> None:
    """A field that cannot be decoded is reported before the wrong kind of the body."""
    body = {"apiVersion": "v1", "kind": "Status", "code": "x"}
    _, answer = exchange(server, "DELETE", f"{MAPS}/absent", body)
    assert answer["message"] == "json: cannot unmarshal string into Go struct field Status.code of type int32"


def test_preconditions_precede_the_refusal_of_namespaces_that_stay(server: Server) -> None:
    """A precondition that the namespace `default` does not meet is reported before the deletion is refused."""
    path = "/api/v1/namespaces/default"
    uid = server.get("namespaces", "default")["metadata"]["uid"]
    status, answer = exchange(server, "DELETE", path, {"preconditions": {"uid": "other"}})
    text = f"Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    assert (status, answer["message"]) == (409, f'Operation cannot be fulfilled on namespaces "default": {text}')
    status, answer = exchange(server, "DELETE", path, {"preconditions": {"uid": uid}})
    text = 'namespaces "default" is forbidden: this namespace may not be deleted'
    assert (status, answer["message"]) == (403, text)


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


@pytest.mark.parametrize(
    ("obj", "path", "resource"),
    [
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ends"}}, "/api/v1/namespaces", "namespaces"),
        (
            DEFINITION,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "customresourcedefinitions.apiextensions.k8s.io",
        ),
    ],
    ids=["namespace", "definition"],
)
@pytest.mark.parametrize(("field", "name"), [("uid", "UID"), ("resourceVersion", "ResourceVersion")])
def test_terminating_kinds_word_preconditions_themselves(
    server: Server, obj: dict[str, Any], path: str, resource: str, field: str, name: str
) -> None:
    """Namespaces and definitions report a failed precondition in words of their own, with the name of the resource."""
    metadata = server.apply(obj)[0]["metadata"]
    status, answer = exchange(server, "DELETE", f"{path}/{metadata['name']}", {"preconditions": {field: "other"}})
    text = f"Precondition failed: {name} in precondition: other, {name} in object meta: {metadata[field]}"
    expected = f'Operation cannot be fulfilled on {resource} "{metadata["name"]}": {text}'
    assert (status, answer["message"]) == (409, expected)
