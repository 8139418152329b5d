"""Admission webhooks that are Python functions: what they are asked, and what their answers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server, StatusError
from understudy.machinery.releases.version import V1_32, V1_36, Version
from understudy.machinery.types import Obj

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.reset()
    return running


def config_map(name: str = "a", **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **({"data": data} if data else {})}


DENIED = 'admission webhook "hook.understudy.test" denied the request'
CALL = 'Internal error occurred: failed calling webhook "hook.understudy.test": '
FAILED = f"{CALL}failed to call webhook: "


@pytest.mark.parametrize(
    ("judgement", "status", "message"),
    [
        (None, 201, None),
        (True, 201, None),
        (False, 400, f"{DENIED} without explanation"),
        ("not today", 403, f"{DENIED}: not today"),
        ({"allowed": False, "status": {"reason": "Expired"}}, 400, f"{DENIED}: Expired"),
        ({"allowed": False, "status": {"message": "m", "code": 422}}, 422, f"{DENIED}: m"),
        ({"warnings": ["look out"]}, 201, None),
        (
            [{"op": "add", "path": "/data", "value": {}}],
            500,
            f"{CALL}received invalid webhook response: validating webhook may not return response.patch",
        ),
        (3, 500, f'{FAILED}an error on the server ("TypeError: a webhook returns None, a bool, a text, a JSON patch or '
        'an AdmissionResponse, not 3") has prevented the request from succeeding'),
    ],
)  # fmt: skip
def test_judgements(server: Server, judgement: Any, status: int, message: str | None) -> None:
    """A function lets requests pass, refuses them with its own text and code, or fails."""

    @server.webhook("configmaps")
    def hook(request: Obj) -> Any:
        return judgement

    answer = send(server, "POST", MAPS, config_map())
    assert (answer.status, answer.json().get("message")) == (status, message)
    assert answer.warnings == (["look out"] if judgement == {"warnings": ["look out"]} else [])


@pytest.mark.parametrize(("release", "created"), [(V1_32, {"creationTimestamp": None}), (V1_36, {})], ids=str)
def test_what_is_empty_is_shown_as_it_was_sent(release: Version, created: Obj) -> None:
    """A webhook sees lists that were sent empty, and of objects that are never stored when they were created: never."""
    seen: list[Obj] = []
    with Server(emulated_version=str(release)) as server:

        @server.webhook("clusterroles.rbac.authorization.k8s.io", "tokenreviews.authentication.k8s.io")
        def hook(request: Obj) -> None:
            seen.append(request["object"])

        group = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        send(server, "POST", group, {"metadata": {"name": "a"}, "rules": []})
        group = "/apis/authentication.k8s.io/v1/tokenreviews"
        send(server, "POST", group, {"metadata": {"labels": {"a": "b"}}, "spec": {"token": "x"}})
    role, review = seen
    assert role["rules"] == []
    assert {name: value for name, value in review["metadata"].items() if name != "managedFields"} == {
        "labels": {"a": "b"},
        **created,
    }


@pytest.mark.parametrize(
    ("release", "gate", "asked"),
    [("1.36", {}, True), ("1.37", {}, False), ("1.37", {"ExcludeAdmissionWebhookVirtualResources": False}, True)],
)
def test_reviews_are_hidden(release: str, gate: dict[str, bool], asked: bool) -> None:
    """Since 1.37 no webhook is asked about reviews of tokens and access: it could lock everybody out."""
    seen: list[str] = []
    with Server(emulated_version=release, feature_gates=gate) as server:

        @server.webhook("tokenreviews.authentication.k8s.io", "selfsubjectreviews.authentication.k8s.io", "configmaps")
        def hook(request: Obj) -> bool:
            seen.append(request["resource"]["resource"])
            return False

        codes = [
            send(server, "POST", f"/apis/authentication.k8s.io/v1/{resource}", body).status
            for resource, body in (("tokenreviews", {"spec": {"token": "x"}}), ("selfsubjectreviews", {}))
        ]
        send(server, "POST", MAPS, config_map())
    assert codes == [400 if asked else 201] * 2
    assert seen == [*(["tokenreviews", "selfsubjectreviews"] if asked else []), "configmaps"]


def test_empty_lists_survive_a_patch(server: Server) -> None:
    """A webhook sees a list that was sent empty after another webhook has patched the object."""
    seen: list[Any] = []

    @server.webhook("clusterroles.rbac.authorization.k8s.io", mutating=True, name="a")
    def patch(request: Obj) -> Any:
        return [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]

    @server.webhook("clusterroles.rbac.authorization.k8s.io", mutating=True, name="b")
    def look(request: Obj) -> None:
        seen.append((request["object"]["metadata"]["labels"], request["object"]["rules"]))

    send(server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "a"}, "rules": []})
    assert seen == [({"a": "b"}, [])]


def test_fields_are_in_order(server: Server) -> None:
    """A review has the fields of objects in the order of Go's types, and those of custom resources sorted."""
    names = {"plural": "widgets", "kind": "Widget"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    server.apply({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                  "metadata": {"name": "widgets.example.com"}, "spec": spec})  # fmt: skip
    orders: list[list[str]] = []

    @server.webhook("configmaps", "widgets.example.com")
    def look(request: Obj) -> None:
        orders.extend((list(request["object"]), list(request["object"]["metadata"])))

    fields = {"spec": {}, "metadata": {"labels": {"a": "b"}, "name": "a"}}
    send(server, "POST", MAPS, {"data": {"x": "1"}, **fields})
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", **fields}
    send(server, "POST", "/apis/example.com/v1/namespaces/default/widgets", widget)
    assert orders == [
        ["kind", "apiVersion", "metadata", "data"],
        ["name", "namespace", "uid", "creationTimestamp", "labels", "managedFields"],
        ["apiVersion", "kind", "metadata", "spec"],
        ["creationTimestamp", "generation", "labels", "managedFields", "name", "namespace", "uid"],
    ]


def test_token_requests_have_their_default(server: Server) -> None:
    """A review of a TokenRequest has the life of the token; one of no seconds is too short, and not the default.

    A validating webhook sees the account's name and uid as well, and when the request was made.
    """
    seen: list[Any] = []

    @server.webhook("serviceaccounts/token", mutating=True, name="before")
    def before(request: Obj) -> None:
        seen.append((request["object"]["spec"]["expirationSeconds"], request["object"]["metadata"].get("name")))

    @server.webhook("serviceaccounts/token", name="after")
    def after(request: Obj) -> None:
        seen.append([name for name in request["object"]["metadata"] if name != "managedFields"])

    server.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    path = "/api/v1/namespaces/default/serviceaccounts/a/token"
    assert send(server, "POST", path, {"spec": {}}).status == 201
    assert send(server, "POST", path, {"spec": {"expirationSeconds": 0}}).status == 422
    assert seen == [(3600, None), ["name", "namespace", "uid", "creationTimestamp"], (0, None)]


@pytest.mark.parametrize(("fields", "asked"), [({"data": {"x": "1"}}, 2), ({}, 1)], ids=["owned fields", "no owner"])
def test_any_patch_counts_as_a_change_of_new_owners(server: Server, fields: Obj, asked: int) -> None:
    """A patch that changes nothing still has webhooks asked again if the request has set the time of an owner: inside
    the real server that has fractions of seconds, until a patch is applied."""
    seen: list[str] = []

    @server.webhook("configmaps", mutating=True, name="a", reinvocationPolicy="IfNeeded")
    def look(request: Obj) -> None:
        seen.append("a")

    @server.webhook("configmaps", mutating=True, name="b")
    def patch(request: Obj) -> Any:
        return [{"op": "test", "path": "/metadata/name", "value": "a"}]

    assert send(server, "POST", MAPS, {"metadata": {"name": "a"}, **fields}).status == 201
    assert len(seen) == asked


def test_a_removed_field_is_no_change_of_owners(server: Server) -> None:
    """A write that only removes fields sets no time, so that a patch that changes nothing is no change."""
    seen: list[str] = []
    server.apply(config_map(x="1", y="2"))

    @server.webhook("configmaps", mutating=True, name="a", reinvocationPolicy="IfNeeded")
    def look(request: Obj) -> None:
        seen.append("a")

    @server.webhook("configmaps", mutating=True, name="b")
    def patch(request: Obj) -> Any:
        return [{"op": "test", "path": "/metadata/name", "value": "a"}]

    assert send(server, "PATCH", f"{MAPS}/a", {"data": {"y": None}}).status == 200
    assert seen == ["a"]


def test_a_collection_passes_over_objects_that_a_webhook_does_not_find(server: Server) -> None:
    """A refusal with the reason NotFound leaves an object of a collection, as if it were gone already."""

    @server.webhook("configmaps", operations=["DELETE"])
    def look(request: Obj) -> Any:
        name = request["oldObject"]["metadata"]["name"]  # a collection has none
        return {"allowed": False, "status": {"reason": "NotFound"}} if name == "a" else None

    for name in ("a", "b"):
        server.apply(config_map(name, x="1"))
    assert send(server, "DELETE", f"{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt").status == 200
    assert [obj["metadata"]["name"] for obj in server.list("configmaps", namespace="default")] == ["a"]


def test_options_of_a_deletion(server: Server) -> None:
    """A webhook sees the grace period that is granted, and for a collection the one that was asked for."""
    seen: list[int] = []

    @server.webhook("configmaps", operations=["DELETE"])
    def look(request: Obj) -> None:
        seen.append(request["options"]["gracePeriodSeconds"])

    for path in (f"{MAPS}/a", f"{MAPS}?labelSelector=!b"):
        server.apply(config_map())
        send(server, "DELETE", f"{path}{'&' if '?' in path else '?'}gracePeriodSeconds=-1")
    assert seen == [1, -1]


def test_a_deletion_that_marks_the_object_first_is_asked_about_twice(server: Server) -> None:
    """A pod without a node is marked and removed in one request, and a webhook is asked before each of both."""
    seen: list[bool] = []

    @server.webhook("pods", operations=["DELETE"])
    def look(request: Obj) -> None:
        seen.append("deletionTimestamp" in request["oldObject"]["metadata"])

    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    server.apply({**pod, "metadata": {"name": "a"}})
    for query in ("?dryRun=All", ""):
        assert send(server, "DELETE", f"/api/v1/namespaces/default/pods/a{query}").status == 200
    assert seen == [False, False, False, True]


@pytest.mark.parametrize(("part", "kind", "api"), [("eviction", "Eviction", "policy/v1"), ("binding", "Binding", "v1")])
def test_a_body_about_another_pod_is_refused_before_validating_webhooks(
    server: Server, part: str, kind: str, api: str
) -> None:
    """An eviction or binding of another pod than that of the path is seen by mutating webhooks only."""
    seen: list[str] = []

    @server.webhook(f"pods/{part}", mutating=True, name="before")
    def before(request: Obj) -> None:
        seen.append("mutating")

    @server.webhook(f"pods/{part}", name="after")
    def after(request: Obj) -> None:
        seen.append("validating")

    body = {"apiVersion": api, "kind": kind, "metadata": {"name": "b"}, "target": {"name": "n"}}
    refused = send(server, "POST", f"/api/v1/namespaces/default/pods/a/{part}", body)
    assert refused.json()["message"] == f"name in URL does not match name in {kind} object"
    assert seen == ["mutating"]


def test_a_request_of_every_operation(server: Server) -> None:
    """A function gets the AdmissionRequest: the objects before and after, the user, the options."""
    asked: list[Obj] = []

    @server.webhook("configmaps", operations=["*"])
    def hook(request: Obj) -> None:
        asked.append(request)

    server.apply(config_map(x="1"))
    send(server, "PATCH", f"{MAPS}/a?dryRun=All", {"data": {"x": "2"}})
    server.delete("configmap", "a")
    assert [(r["operation"], r["name"], r["dryRun"], r["options"]["kind"]) for r in asked] == [
        ("CREATE", "a", False, "CreateOptions"),
        ("UPDATE", "a", True, "UpdateOptions"),
        ("DELETE", "a", False, "DeleteOptions"),
    ]
    created, updated, deleted = asked
    assert list(created) == [
        *("uid", "kind", "resource", "requestKind", "requestResource", "name", "namespace", "operation", "userInfo"),
        *("object", "oldObject", "dryRun", "options"),
    ]
    assert (created["object"]["data"], created["oldObject"]) == ({"x": "1"}, None)
    assert (updated["object"]["data"], updated["oldObject"]["data"]) == ({"x": "2"}, {"x": "1"})
    assert (deleted["object"], deleted["oldObject"]["data"]) == (None, {"x": "1"})
    assert updated["options"]["dryRun"] == ["All"]


def test_mutation_and_reinvocation(server: Server) -> None:
    """Patches are applied one after the other; a webhook that wants it sees what later ones have changed."""
    seen: list[Obj] = []

    @server.webhook("configmaps", mutating=True, reinvocationPolicy="IfNeeded")
    def first(request: Obj) -> list[Obj]:
        seen.append(request["object"].get("data") or {})
        return [{"op": "add", "path": "/metadata/labels", "value": {"first": "1"}}]

    @server.webhook("configmaps", mutating=True)
    async def second(request: Obj) -> list[Obj]:
        return [{"op": "add", "path": "/data", "value": {"second": "1"}}]

    (stored,) = server.apply(config_map())
    assert (stored["metadata"]["labels"], stored["data"]) == ({"first": "1"}, {"second": "1"})
    assert seen == [{}, {"second": "1"}]


def test_functions_may_ask_the_server(server: Server) -> None:
    """A function runs beside the server: it can read, and write other objects, while its request waits."""

    @server.webhook("configmaps", operations=["CREATE"], objectSelector={"matchLabels": {"counted": "yes"}})
    def hook(request: Obj) -> None:
        count = len(server.list("configmaps", "default"))
        server.apply({**config_map("count"), "data": {"before": str(count)}})

    labelled = config_map("x")
    labelled["metadata"]["labels"] = {"counted": "yes"}
    server.apply(labelled)
    assert server.get("configmap", "count")["data"] == {"before": "0"}


def test_failure_policy(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A function that raises is a webhook that fails: its failure policy decides, and the error is logged."""

    @server.webhook("configmaps", failure_policy="Ignore")
    def broken(request: Obj) -> None:
        raise RuntimeError("broken on purpose")

    server.apply(config_map())
    assert "broken on purpose" in caplog.text


def test_names(server: Server) -> None:
    """Two functions of one name are refused; after a reset the name is free, and nothing is asked any more."""

    def hook(request: Obj) -> str:
        return "no"

    def other(request: Obj) -> None: ...

    server.webhook("configmaps", name="one")(hook)
    with pytest.raises(ValueError, match="there is a webhook called 'one' already"):
        server.webhook("configmaps", name="one")(other)
    with pytest.raises(StatusError, match="denied the request: no"):
        server.apply(config_map())
    server.reset()
    server.apply(config_map())
    server.webhook("configmaps", name="one")(other)
