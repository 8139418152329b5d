"""Conversion webhooks: a server in Python converts custom resources between the versions of their definition."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from tests.apiserver.extensions.test_custom_resources import DEFINITIONS, Obj, definition, wait_for
from tests.http import exchange, send, watch
from understudy import Server

V1, V2 = (f"/apis/example.com/{version}/namespaces/default/widgets" for version in ("v1", "v2"))
APPLY = "application/apply-patch+yaml"
RENAMED = {"v1": ("width", "size"), "v2": ("size", "width")}  # the field of the spec that each version renames


class TLSServer(ThreadingHTTPServer):
    """An HTTPS server that shakes hands in the thread of each connection."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away, as an API server does that stops."""


class Webhook:
    """A webhook server. `convert` returns the review that answers another; `requests` are those of all reviews."""

    def __init__(self) -> None:
        self.requests: list[Obj] = []
        self.convert: Callable[[Obj], Any] = converted
        authority = trustme.CA()
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.requests.append(review["request"])
                answer = json.dumps(webhook.convert(review)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                """Log nothing."""

        self.server = TLSServer(("127.0.0.1", 0), Handler)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_port}/convert"

    def conversion(self, *review_versions: str) -> Obj:
        """Return the `spec.conversion` of a definition that asks this webhook."""
        config = {"url": self.url, "caBundle": self.ca_bundle}
        webhook = {"clientConfig": config, "conversionReviewVersions": list(review_versions or ("v1",))}
        return {"strategy": "Webhook", "webhook": webhook}


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever, args=(0.01,))
    thread.start()
    yield webhook
    webhook.server.shutdown()
    thread.join()
    webhook.server.server_close()


def in_version(obj: Obj, api_version: str) -> Obj:
    """Convert a widget as its webhook should: v1 has `spec.size`, v2 `spec.width`."""
    old, new = RENAMED[api_version.rpartition("/")[2]]
    spec = {new if name == old else name: value for name, value in obj.get("spec", {}).items()}
    return {**obj, "apiVersion": api_version, "spec": spec}


def converted(review: Obj, **changes: Any) -> Obj:
    """Return the review that answers another; `changes` are made to its response."""
    request = review["request"]
    objects = [in_version(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}, **changes}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def changing(**changes: Any) -> Callable[[Obj], Obj]:
    """Return a conversion that changes fields of the objects after they are converted; None removes one."""

    def convert(review: Obj) -> Obj:
        answer = converted(review)
        for obj in answer["response"]["convertedObjects"]:
            obj.update(changes)
        return answer

    return convert


def with_metadata(**changes: Any) -> Callable[[Obj], Obj]:
    """Return a conversion that changes the metadata of the objects."""

    def convert(review: Obj) -> Obj:
        answer = converted(review)
        for obj in answer["response"]["convertedObjects"]:
            obj["metadata"].update(changes)
        return answer

    return convert


def versions(storage: str = "v1") -> list[Obj]:
    """Return the versions of the definition: a whole number under `spec.size` in v1, under `spec.width` in v2."""

    def version(name: str, field: str) -> Obj:
        number = {"type": "integer"}
        spec = {"type": "object", "properties": {field: number, "replicas": number}}
        schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        return {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [{"name": field, "type": "integer", "jsonPath": f".spec.{field}"}],
        }

    return [version("v1", "size"), version("v2", "width")]


def define(server: Server, **spec: Any) -> None:
    """Create the definition of widgets, and wait until it is served."""
    code, body = exchange(server, "POST", DEFINITIONS, definition(*versions(), **spec))
    assert code == 201, body
    wait_for(server, V2, lambda code, body: code == 200)


@pytest.fixture
def server(apiserver: Server, webhook: Webhook) -> Server:
    """Return a server with a definition that asks the webhook."""
    define(apiserver, conversion=webhook.conversion())
    return apiserver


def widget(version: str = "v1", name: str = "a", **spec: Any) -> Obj:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def test_every_version_has_its_own_fields(server: Server) -> None:
    """Objects are written, read, listed, watched and deleted in either version, whatever version is stored."""
    assert exchange(server, "POST", V2, widget("v2", width=1))[1]["spec"] == {"width": 1}
    assert exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": 2}})[1]["spec"] == {"size": 2}
    assert exchange(server, "PATCH", f"{V2}/a", {"spec": {"width": 3}})[1]["spec"] == {"width": 3}
    code, live = exchange(server, "GET", f"{V2}/a")
    assert (code, live["spec"], live["metadata"]["generation"]) == (200, {"width": 3}, 3)
    assert exchange(server, "PUT", f"{V2}/a", {**live, "spec": {"width": 4}})[0] == 200
    assert exchange(server, "GET", V1)[1]["items"][0]["spec"] == {"size": 4}
    code, table = exchange(server, "GET", V2, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"] == ["a", 4]
    assert exchange(server, "DELETE", V2)[1]["items"][0]["spec"] == {"width": 4}


def test_subresources(server: Server) -> None:
    """Status and scale of another version than the stored one keep the rest of the object."""
    exchange(server, "POST", V1, widget(size=1, replicas=1))
    assert exchange(server, "PATCH", f"{V2}/a/scale", {"spec": {"replicas": 5}})[1]["spec"] == {"replicas": 5}
    assert exchange(server, "GET", f"{V2}/a/scale")[1]["spec"] == {"replicas": 5}
    assert exchange(server, "PATCH", f"{V2}/a/status", {"status": {}})[1]["spec"] == {"width": 1, "replicas": 5}
    assert exchange(server, "GET", f"{V1}/a")[1]["spec"] == {"size": 1, "replicas": 5}


def test_a_list_is_one_call(apiserver: Server, webhook: Webhook) -> None:
    """The objects of a list are converted together; the webhook does not see their resourceVersion."""
    define(apiserver)
    for name in "abc":
        assert exchange(apiserver, "POST", V1, widget(name=name, size=1))[0] == 201
    path = f"{DEFINITIONS}/widgets.example.com"
    assert exchange(apiserver, "PATCH", path, {"spec": {"conversion": webhook.conversion()}})[0] == 200
    items = exchange(apiserver, "GET", V2)[1]["items"]
    assert [item["spec"] for item in items] == [{"width": 1}] * 3
    assert all(item["metadata"]["resourceVersion"] for item in items)
    assert {len(request["objects"]) for request in webhook.requests} == {3}
    assert "resourceVersion" not in webhook.requests[0]["objects"][0]["metadata"]
    assert webhook.requests[0]["desiredAPIVersion"] == "example.com/v2"


def test_watches(server: Server) -> None:
    """The events of a watch come in their order, in the version of the watch."""
    exchange(server, "POST", V1, widget(size=1))
    with watch(server, V2) as events:
        for size in (2, 3):
            exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": size}})
        exchange(server, "DELETE", f"{V1}/a")
        seen = [(event["type"], event["object"]["spec"]["width"]) for event in (next(events) for _ in range(4))]
    assert seen == [("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", 3), ("DELETED", 3)]


def test_a_watch_ends_at_what_cannot_be_converted(server: Server, webhook: Webhook) -> None:
    """A watch ends at the event of an object that the webhook does not convert."""
    exchange(server, "POST", V1, widget(size=1))
    with watch(server, V2) as events:
        assert next(events)["type"] == "ADDED"
        webhook.convert = lambda review: converted(review, result={"status": "Failure"})
        exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": 2}})
        assert list(events) == []


def test_owners_in_several_versions(server: Server) -> None:
    """Managed fields are kept in the version of each manager, and conflicts name its fields."""
    first = widget("v1", size=1)
    assert exchange(server, "PATCH", f"{V1}/a?fieldManager=one", first, APPLY)[0] == 201
    code, conflict = exchange(server, "PATCH", f"{V2}/a?fieldManager=two", widget("v2", width=2), APPLY)
    assert (code, conflict["details"]["causes"][0]["field"]) == (409, ".spec.size")
    forced = f"{V2}/a?fieldManager=two&force=true"
    code, applied = exchange(server, "PATCH", forced, widget("v2", width=2), APPLY)
    owners = [(entry["manager"], entry["apiVersion"]) for entry in applied["metadata"]["managedFields"]]
    assert (code, owners) == (200, [("two", "example.com/v2")])


def test_admission_is_asked_once(server: Server, webhook: Webhook) -> None:
    """A request that waits for conversions is not answered twice: admission webhooks are asked about it once.

    They are asked about the object as it was sent, without a conversion.
    """
    asked: list[str] = []

    @server.webhook("widgets.example.com")
    def note(request: Obj) -> None:
        asked.append(request["object"]["apiVersion"])

    assert exchange(server, "POST", V2, widget("v2", width=1))[0] == 201
    assert asked == ["example.com/v2"]
    assert [request["desiredAPIVersion"] for request in webhook.requests[:2]] == ["example.com/v1", "example.com/v2"]


def test_a_webhook_may_use_the_server(server: Server, webhook: Webhook) -> None:
    """A webhook can read converted objects while another request waits for it."""
    exchange(server, "POST", V1, widget(name="other", size=1))
    answers: list[int] = []

    @server.webhook("widgets.example.com")
    async def read(request: Obj) -> None:
        import asyncio

        answers.append((await asyncio.to_thread(exchange, server, "GET", f"{V2}/other"))[0])

    assert exchange(server, "POST", V2, widget("v2", width=1))[0] == 201
    assert answers == [200]


def test_definitions_with_old_objects_are_deleted(server: Server, webhook: Webhook) -> None:
    """A definition goes with its objects in an older version than that of storage, once they can be converted."""
    exchange(server, "POST", V1, widget(size=1))
    webhook.convert = lambda review: converted(review, result={"status": "Failure"})
    path = f"{DEFINITIONS}/widgets.example.com"
    assert exchange(server, "PATCH", path, {"spec": {"versions": versions("v2")}})[0] == 200
    assert exchange(server, "DELETE", path)[0] == 200
    asked = len(webhook.requests)
    deleted = wait_for(server, path, lambda code, body: len(webhook.requests) > asked + 5)  # it is tried again
    terminating = next(item for item in deleted["status"]["conditions"] if item["type"] == "Terminating")
    assert (terminating["status"], terminating["reason"]) == ("True", "InstanceDeletionFailed")
    assert terminating["message"] == (
        "could not list instances: storage is (re)initializing: failed to list example.com/v2, Kind=Widget: "
        "conversion webhook for example.com/v1, Kind=Widget failed: response.result.status was 'Failure', not 'Success'"
    )
    webhook.convert = converted
    wait_for(server, path, lambda code, body: code == 404)


def test_reviews_of_v1beta1(apiserver: Server, webhook: Webhook) -> None:
    """A webhook of v1beta1 need not return the uid of the review."""
    define(apiserver, conversion=webhook.conversion("v7", "v1beta1"))
    webhook.convert = lambda review: converted(review, uid="")
    exchange(apiserver, "POST", V1, widget(size=1))
    assert exchange(apiserver, "GET", f"{V2}/a")[1]["spec"] == {"width": 1}


def test_labels_and_annotations_may_change(server: Server, webhook: Webhook) -> None:
    """A webhook may change labels and annotations; other metadata stay as they are."""
    exchange(server, "POST", V1, widget(size=1))
    webhook.convert = with_metadata(labels={"a": "b"}, annotations={"c": "d"}, finalizers=["example.com/x"])
    metadata = exchange(server, "GET", f"{V2}/a")[1]["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"a": "b"}, {"c": "d"})
    assert "finalizers" not in metadata


def test_objects_that_nest_too_deep(server: Server) -> None:
    """An object that Python's ordinary stack is too small for is refused, and the server goes on."""
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    body = b'{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"deep"},"spec":{"deep":' + deep + b"}}"
    assert send(server, "POST", V2, body).status in (201, 500)
    assert exchange(server, "POST", V2, widget("v2", width=1))[0] == 201


FAILED = "conversion webhook for example.com/v1, Kind=Widget failed: "
RETURNED = "conversion webhook for example.com/v1, Kind=Widget returned "


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda review: converted(review, result={"status": "Failure", "message": "no"}), f"{FAILED}no"),
        (
            lambda review: converted(review, result={"status": "Failure"}),
            f"{FAILED}response.result.status was 'Failure', not 'Success'",
        ),
        (
            lambda review: converted(review, result={}),
            f"{FAILED}response.result.status was '', not 'Success'",
        ),
        (lambda review: {**converted(review), "response": None}, f"{FAILED}no response provided"),
        (lambda review: converted(review, convertedObjects=[]), f"{RETURNED}0 objects, expected 1"),
        (lambda review: converted(review, convertedObjects=None), f"{RETURNED}0 objects, expected 1"),
        (lambda review: converted(review, convertedObjects=[{"a": 1}]), "Object 'Kind' is missing in '{\"a\":1}'"),
        (
            lambda review: converted(review, convertedObjects=[[1]]),
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            changing(apiVersion="example.com/v9"),
            f"{RETURNED}invalid object at index 0: invalid groupVersion "
            "(expected example.com/v2, received example.com/v9)",
        ),
        (
            changing(kind="Gadget"),
            f"{RETURNED}invalid object at index 0: invalid kind (expected Widget, received Gadget)",
        ),
        (changing(metadata=None), f"{RETURNED}invalid object: must have the same name: a != "),
        (with_metadata(name="b"), f"{RETURNED}invalid object: must have the same name: a != b"),
        (with_metadata(namespace="b"), f"{RETURNED}invalid object: must have the same namespace: default != b"),
        (
            with_metadata(labels=["a"]),
            f"{RETURNED}invalid metadata: invalid metadata.labels of type []interface {{}} in converted object",
        ),
        (
            with_metadata(annotations={"a": 1}),
            f"{RETURNED}invalid metadata: metadata.annotations[a] must be a string, but is int64 in converted object",
        ),
        (
            with_metadata(annotations={"": "b"}),
            f"{RETURNED}invalid metadata: [metadata.annotation: Invalid value: \"\": name part must be non-empty, ",
        ),
    ],
)  # fmt: skip
def test_bad_answers(server: Server, webhook: Webhook, convert: Callable[[Obj], Any], message: str) -> None:
    """An object that the webhook does not convert as it has to is a 500, with the real server's text."""
    exchange(server, "POST", V1, widget(size=1))
    webhook.convert = convert
    code, status = exchange(server, "GET", f"{V2}/a")
    assert (code, status["code"], "reason" in status) == (500, 500, False)
    assert status["message"].startswith(message)
    assert exchange(server, "GET", f"{V1}/a")[1]["spec"] == {"size": 1}


def test_a_failure_does_not_write(server: Server, webhook: Webhook) -> None:
    """An object that cannot be converted to the storage version is not created."""
    webhook.convert = lambda review: converted(review, result={"status": "Failure", "message": "no"})
    code, status = exchange(server, "POST", V2, widget("v2", width=1))
    assert (code, status["message"]) == (500, "conversion webhook for example.com/v2, Kind=Widget failed: no")
    assert exchange(server, "GET", f"{V1}/a")[0] == 404


@pytest.mark.parametrize(("mutating", "times"), [(False, 1), (True, 2)])
def test_admission_in_a_version_that_cannot_be_had(
    server: Server, webhook: Webhook, mutating: bool, times: int
) -> None:
    """An admission webhook of another version is not asked about an object that cannot be converted to it: a 500."""
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]}
    server.webhook("widgets.example.com", mutating=mutating, name="never", rules=[rule])(lambda request: "asked")
    webhook.convert = lambda review: converted(review, result={"status": "Failure", "message": "no"})
    code, status = exchange(server, "POST", V2, widget("v2", width=1))
    failed = "conversion webhook for example.com/v2, Kind=Widget failed: no"
    assert (code, status["message"]) == (500, "Internal error occurred: " * times + failed)
