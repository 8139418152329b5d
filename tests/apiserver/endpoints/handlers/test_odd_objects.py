"""Stored objects that validation lets through, and that later requests cannot handle; as recorded from 1.37."""

from __future__ import annotations

from typing import Any

from tests.http import exchange, send
from understudy import Server
from understudy.machinery.types import Obj

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
OMITTED = (
    "(default/o; /v1, Kind=ServiceAccount){}: .secrets: element 0: associative list with keys has an element that omits"
    ' all key fields ["name"] (and doesn\'t have default values for any key fields)'
)


WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
WIDGET: Obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


def definition(*schemas: Obj) -> Obj:
    """Return a definition of widgets with a field `spec.a`, of one schema in each version; the first one is stored."""
    versions = []
    for number, schema in enumerate(schemas, 1):
        spec = {"type": "object", "properties": {"a": schema}}
        version = {"name": f"v{number}", "served": True, "storage": number == 1}
        versions.append(version | {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    }


def apply(apiserver: Server, secret: str | None = "s") -> tuple[int, Any]:
    patch: Obj = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "o"}}
    if secret is not None:
        patch["secrets"] = [{"name": secret}]
    path = f"{ACCOUNTS}/o?fieldManager=m&force=true"
    answer = send(apiserver, "PATCH", path, patch, APPLY).json()
    return answer.get("code", 200), answer.get("message")


def test_apply_to_an_element_without_its_key(apiserver: Server) -> None:
    """An element that lacks the key of its list cannot be merged, whether the object has owners or not."""
    account: Obj = {"metadata": {"name": "o"}, "secrets": [{"namespace": "q"}]}
    assert exchange(apiserver, "POST", ACCOUNTS, account)[0] == 201
    first = "failed to create manager for existing fields: failed to convert new object "
    assert apply(apiserver) == (500, first + OMITTED.format(" to smd typed"))
    assert exchange(apiserver, "PUT", f"{ACCOUNTS}/o", {**account, "secrets": [{"name": "s"}]})[0] == 200
    assert apply(apiserver) == (200, None)
    assert exchange(apiserver, "PUT", f"{ACCOUNTS}/o", account)[0] == 200
    assert apply(apiserver) == (500, "failed to create typed live object " + OMITTED.format(""))
    assert apply(apiserver, None) == (500, "failed to create typed live object " + OMITTED.format(""))
    owners = exchange(apiserver, "GET", f"{ACCOUNTS}/o")[1]["metadata"]["managedFields"]
    patched = send(apiserver, "PATCH", f"{ACCOUNTS}/o", {"metadata": {"labels": {"a": "b"}}}, MERGE).json()
    assert (patched["metadata"]["labels"], patched["metadata"]["managedFields"]) == ({"a": "b"}, owners)


def test_apply_to_an_object_that_its_definition_has_left_behind(apiserver: Server) -> None:
    """An object that does not fit the changed schema cannot be applied to, and another write keeps its owners."""
    apiserver.apply(definition({"type": "string"}))
    assert exchange(apiserver, "POST", WIDGETS, {**WIDGET, "spec": {"a": "q"}})[0] == 201
    apiserver.apply(definition({"type": "integer"}))
    why = "(default/w; example.com/v1, Kind=Widget): .spec.a: expected numeric (int or float), got string"
    labels: Obj = {"metadata": {"name": "w", "labels": {"a": "b"}}}
    answer = send(apiserver, "PATCH", f"{WIDGETS}/w?fieldManager=m", WIDGET | labels, APPLY).json()
    assert (answer["code"], answer["message"]) == (500, f"failed to create typed live object {why}")
    owners = exchange(apiserver, "GET", f"{WIDGETS}/w")[1]["metadata"]["managedFields"]
    patched = send(apiserver, "PATCH", f"{WIDGETS}/w", labels, MERGE).json()
    assert (patched["metadata"]["labels"], patched["metadata"]["managedFields"]) == ({"a": "b"}, owners)
    no_owners: Obj = {"metadata": {"managedFields": [{}]}}
    assert "managedFields" not in send(apiserver, "PATCH", f"{WIDGETS}/w", no_owners, MERGE).json()["metadata"]
    answer = send(apiserver, "PATCH", f"{WIDGETS}/w?fieldManager=m", WIDGET | labels, APPLY).json()
    first = "failed to create manager for existing fields: failed to convert new object "
    assert answer["message"] == first + why.replace("): ", ") to smd typed: ", 1)


def test_owners_in_another_version_of_an_object_with_duplicates(apiserver: Server) -> None:
    """Duplicates cannot be converted into the version of an owner: nobody is added to the owners, nothing applied."""
    scaled: Obj = {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"}
    scaler: Obj = {"metadata": {"name": "h", "finalizers": ["a.b/c"] * 2}}
    scaler["spec"] = {"maxReplicas": 3, "scaleTargetRef": scaled}
    path = "/apis/autoscaling/v{}/namespaces/default/horizontalpodautoscalers"
    owners = exchange(apiserver, "POST", path.format(2), scaler)[1]["metadata"]["managedFields"]
    labels: Obj = {"metadata": {"name": "h", "labels": {"a": "b"}}}
    patched = send(apiserver, "PATCH", path.format(1) + "/h", labels, MERGE).json()
    assert (patched["metadata"]["labels"], patched["metadata"]["managedFields"]) == ({"a": "b"}, owners)
    applied: Obj = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", **labels}
    answer = send(apiserver, "PATCH", path.format(1) + "/h?fieldManager=m&force=true", applied, APPLY).json()
    assert (answer["code"], answer["message"]) == (500, '.metadata.finalizers: duplicate entries for key [="a.b/c"]')
    applied["apiVersion"] = "autoscaling/v2"
    assert send(apiserver, "PATCH", path.format(2) + "/h?fieldManager=m&force=true", applied, APPLY).status == 200


def test_duplicates_that_only_another_version_knows(apiserver: Server) -> None:
    """Duplicates in a list that is a set in the version of an owner alone are refused where it is converted."""
    old: Obj = {"type": "array", "items": {"type": "string"}}
    apiserver.apply(definition(old, {**old, "x-kubernetes-list-type": "set"}))
    created = {**WIDGET, "apiVersion": "example.com/v1", "spec": {"a": ["q", "q"]}}
    assert exchange(apiserver, "POST", WIDGETS, created)[0] == 201
    other = WIDGETS.replace("v1", "v2")
    labels: Obj = {"metadata": {"name": "w", "labels": {"a": "b"}}}
    assert send(apiserver, "PATCH", f"{other}/w?fieldManager=m", labels, MERGE).status == 200
    applied = WIDGET | labels | {"apiVersion": "example.com/v2"}
    assert send(apiserver, "PATCH", f"{other}/w?fieldManager=m&force=true", applied, APPLY).status == 200
    answer = send(apiserver, "PATCH", f"{WIDGETS}/w?fieldManager=m&force=true", WIDGET | labels, APPLY).json()
    assert (answer["code"], answer["message"]) == (500, '.spec.a: duplicate entries for key [="q"]')


def test_change_of_data_that_are_no_utf8(apiserver: Server) -> None:
    """An error that prints raw JSON says U+FFFD for each byte that is no UTF-8, in an escape."""
    revision: Obj = {"metadata": {"name": "o"}, "revision": 1, "data": {"a": "b"}}
    assert exchange(apiserver, "POST", REVISIONS, revision)[0] == 201
    body = b'{"metadata":{"name":"o"},"revision":1,"data":{"a":"\xff\xe2\x82"}}'
    answer = send(apiserver, "PUT", f"{REVISIONS}/o", body)
    assert answer.status == 422
    assert rb"data: Invalid value: {\"a\":\"\ufffd\ufffd\ufffd\"}: field is immutable" in answer.body
