"""Conversion webhooks: a server in Python converts custom resources between the versions of their definition."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.apiserver.extensions.conversion_webhook import (
    APPLY,
    FAILED,
    V1,
    V2,
    Webhook,
    changing,
    converted,
    define,
    widget,
    with_metadata,
)
from tests.http import exchange, send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

UNSAFE = "AllowUnsafeMalformedObjectDeletion"


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


@pytest.mark.parametrize("release", ["1.32", "1.37"])
def test_a_list_is_a_call_for_each_object(webhook: Webhook, release: str) -> None:
    """The objects of a list are converted one by one as soon as they are stored, and again for a list of a version
    that is asked of etcd; the webhook does not see their resourceVersion."""
    with Server(emulated_version=release) as server:
        define(server, conversion=webhook.conversion())
        for name in "abc":
            assert exchange(server, "POST", V1, widget(name=name, size=1))[0] == 201
        wait_for_cache(server)
        listed = exchange(server, "GET", V2)[1]
        assert [item["spec"] for item in listed["items"]] == [{"width": 1}] * 3
        assert all(item["metadata"]["resourceVersion"] for item in listed["items"])
        version = listed["metadata"]["resourceVersion"]
        exchange(server, "GET", f"{V2}?limit=9&resourceVersion={version}&resourceVersionMatch=Exact")
    names = [[obj["metadata"]["name"] for obj in request["objects"]] for request in webhook.requests]
    assert names == [["a"], ["b"], ["c"]] * (2 if release == "1.32" else 1)
    assert "resourceVersion" not in webhook.requests[0]["objects"][0]["metadata"]
    assert webhook.requests[0]["desiredAPIVersion"] == "example.com/v2"


# What a write asks the webhook: whether it encodes an object of v2 (<) or decodes one of v1 (>), and its width.
# The last decoding of a write that changes something is that of the watch cache.
WRITES: list[tuple[str, str, Any, str]] = [
    ("POST", "", widget("v2", width=1), "<1 >1 >1"),
    ("POST", "", widget("v2", width=2), "<2 >1"),
    ("POST", "?dryRun=All", widget("v2", "other", width=2), "<2 >2"),
    ("PATCH", "/a", {"spec": {"width": 2}}, "<1 <2 >2 >2"),
    ("PATCH", "/a", {"spec": {"width": 2}}, "<2 <2 >2 >2"),
    ("PATCH", "/a?dryRun=All", {"spec": {"width": 3}}, ">2 <3 >3"),
    ("PATCH", "/a", {"spec": {"width": "x"}}, "<2 >2"),
    ("PATCH", "/a", {"metadata": {"resourceVersion": "1"}}, "<2 >2"),
    ("PATCH", "/a/status", {"status": {"a": 1}}, "<2 <2 >2 >2"),
    ("PATCH", "/a/scale", {"spec": {"replicas": 1}}, "<2 <2 >2 >2"),
    ("PATCH", "/missing", {"spec": {"width": 2}}, ""),
    ("DELETE", "/a?dryRun=All", None, ">2 >2"),
    ("DELETE", "/a", {"preconditions": {"uid": "x"}}, ">2"),
    ("DELETE", "/a?propagationPolicy=Foreground", None, ">2 <2 <2 >2 >2"),
    ("DELETE", "/a", None, ">2 <2 <2 >2 >2"),
    ("PATCH", "/a", {"metadata": {"finalizers": None}}, "<2 >2 <2 >2 >2"),
    ("POST", "", widget("v2", width=1), "<1 >1 >1"),
    ("DELETE", "/a", None, ">1 <1 >1 >1"),
]


def test_writes_ask_as_often_as_kube_apiserver(server: Server, webhook: Webhook) -> None:
    """Writes in a version that is not stored encode what the watch cache holds, and the new object, and decode what is
    stored then; what is refused or changes nothing is read again, a dry run reads it first."""
    for method, path, body, expected in WRITES:
        webhook.requests.clear()
        before = server.state.registry.store.revision
        exchange(server, method, f"{V2}{path}", body)
        if server.state.registry.store.revision > before:
            wait_for_cache(server)
        assert (method, path, " ".join(map(_described, webhook.requests))) == (method, path, expected)


def wait_for_cache(server: Server) -> None:
    """Wait until the watch cache has converted what was written last."""
    defined = server.state.serving.custom("example.com", "widgets")
    cache = defined and defined.kinds["v2"].watch_cache
    assert cache is not None
    wait_until(lambda: cache.revision, server.state.registry.store.revision.__le__)


def _described(request: Obj) -> str:
    spec = request["objects"][0]["spec"]
    return f"<{spec['width']}" if request["desiredAPIVersion"] == "example.com/v1" else f">{spec['size']}"


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
    revision = exchange(server, "POST", V1, widget(size=1))[1]["metadata"]["resourceVersion"]
    webhook.convert = convert
    code, status = exchange(server, "GET", f"{V2}/a")
    assert (code, status["code"], status["reason"]) == (500, 500, "InternalError")
    assert f"object not decodable revision={revision}: {message}" in status["message"]
    assert exchange(server, "GET", f"{V1}/a")[1]["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("release", "gate", "corrupt"), [("1.36", {}, False), ("1.36", {UNSAFE: True}, True), ("1.37", {}, True)]
)
def test_an_object_that_is_not_converted(webhook: Webhook, release: str, gate: dict[str, bool], corrupt: bool) -> None:
    """GET of a stored object that its webhook does not convert says that it is corrupt, since 1.37 by default."""
    with Server(emulated_version=release, feature_gates=gate) as server:
        define(server, conversion=webhook.conversion())
        created = exchange(server, "POST", V1, widget(size=1))[1]
        webhook.convert = lambda review: converted(review, result={"status": "Failure", "message": "no"})
        code, body = exchange(server, "GET", f"{V2}/a")
        revision = created["metadata"]["resourceVersion"]
        text = (
            "StorageError: corrupt object, Code: 7, Key: /example.com/widgets/default/a, ResourceVersion: 0, "
            f"AdditionalErrorMsg: object not decodable revision={revision}: {FAILED}no"
        )
        assert (code, body["message"]) == (500, f"Internal error occurred: {text}" if corrupt else f"{FAILED}no")
        assert body.get("reason") == ("InternalError" if corrupt else None)
        assert exchange(server, "GET", f"{V1}/a") == (200, created)


@pytest.mark.parametrize(
    ("release", "gate"), [("1.36", {}), ("1.36", {UNSAFE: True}), ("1.37", {})], ids=["1.36", "1.36 with gate", "1.37"]
)
def test_lists_with_objects_that_are_not_converted(webhook: Webhook, release: str, gate: dict[str, bool]) -> None:
    """An error for a list names all objects that cannot be read, up to the last one that is listed; before 1.37 the
    first one only."""
    with Server(emulated_version=release, feature_gates=gate) as server:
        define(server, conversion=webhook.conversion())
        webhook.convert = lambda review: converted(
            review,
            **{"result": {"status": "Failure", "message": "no"}}
            if {obj["metadata"]["name"] for obj in review["request"]["objects"]} & {"b", "d"}
            else {},
        )
        for name in "abcd":
            exchange(server, "POST", V1, widget(name=name, size=1))
        every, first = exchange(server, "GET", V2)[1], exchange(server, "GET", f"{V2}?limit=2")[1]
        deleted, scale = exchange(server, "DELETE", V2)[1], exchange(server, "GET", f"{V2}/b/scale")[1]
        assert exchange(server, "GET", f"{V2}?limit=1")[0] == 200
    if release == "1.36" and not gate:
        assert [body["message"] for body in (every, first, deleted, scale)] == [f"{FAILED}no"] * 4
        return
    assert scale["message"].startswith("Internal error occurred: StorageError: corrupt object, Code: 7, Key: /example")
    for body, names in ((every, "bd"), (first, "b"), (deleted, "bd")):
        keys = [f"/registry/example.com/widgets/default/{name}" for name in names]
        details = body["details"]
        assert (body["reason"], details["name"], details["kind"]) == ("StorageReadError", "list", "widgets")
        assert [(cause["reason"], cause["field"]) for cause in details["causes"]] == [
            ("UnexpectedServerResponse", key) for key in keys
        ]
        said = f": {details['causes'][0]['message']}" + (" (and 1 more)" if names == "bd" else "")
        text = "failed to read one or more widgets.example.com from the storage"
        assert body["message"] == (text + said if release == "1.37" else text)


@pytest.mark.maintenance
def test_a_list_names_a_hundred_objects(webhook: Webhook) -> None:
    """An error for a list names a hundred objects at most, and says that there are more."""
    with Server() as server:
        define(server, conversion=webhook.conversion())
        webhook.convert = lambda review: converted(review, result={"status": "Failure", "message": "no"})
        for number in range(101):
            exchange(server, "POST", V1, widget(name=f"w{number}", size=1))
        status = exchange(server, "GET", V2)[1]
    assert status["message"].endswith("(and 99 more)")
    assert len(status["details"]["causes"]) == 101
    assert status["details"]["causes"][-1] == {
        "reason": "FieldValueTooMany",
        "message": "too many errors, the list is truncated",
    }


def test_deletion_of_what_is_not_converted(webhook: Webhook) -> None:
    """Since 1.37 an object that cannot be read can be deleted, whatever finalizers it has; another cannot be so."""
    option = "ignoreStoreReadErrorWithClusterBreakingPotential=true"
    with Server(emulated_version="1.37") as server:
        define(server, conversion=webhook.conversion())
        obj = widget(size=1)
        obj["metadata"]["finalizers"] = ["example.com/f"]
        exchange(server, "POST", V1, obj)
        readable = exchange(server, "DELETE", f"{V2}/a?{option}")
        webhook.convert = lambda review: converted(review, result={"status": "Failure", "message": "no"})
        tried = exchange(server, "DELETE", f"{V2}/a?{option}&dryRun=All")
        plain = exchange(server, "DELETE", f"{V2}/a")
        removed = exchange(server, "DELETE", f"{V2}/a?{option}")
        missing = exchange(server, "DELETE", f"{V2}/a?{option}")
        others = exchange(server, "DELETE", f"{V2}/a?{option}&gracePeriodSeconds=0&propagationPolicy=Orphan")
        collection = exchange(server, "DELETE", f"{V2}?{option}")
    assert readable[0] == 409
    assert readable[1]["message"].endswith(
        "StorageError: invalid object, Code: 4, Key: /registry/example.com/widgets/default/a, ResourceVersion: 0, "
        "AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"
    )
    assert plain[0] == 500
    assert tried == removed
    assert removed[0] == 200
    assert removed[1]["details"] == {"name": "a", "kind": "Widget"}
    assert missing[0] == 404
    excluded = [cause["message"].rpartition(": ")[2] for cause in others[1]["details"]["causes"]]
    assert excluded == [f"cannot be set together with .{name}" for name in ("propagationPolicy", "gracePeriodSeconds")]
    assert collection[1]["message"].endswith(
        "is not allowed with DELETECOLLECTION, try again after removing the option"
    )


def test_conversions_are_counted(server: Server, webhook: Webhook) -> None:
    """Each call of a webhook counts with what is wrong with its answer, each conversion with its versions."""
    earlier = conversions(server)
    exchange(server, "POST", V2, widget("v2", width=1))
    conversion = 'crd_conversion_webhook_duration_seconds_count{crd_name="widgets.example.com",from_version="v1"'
    decoded = f'{conversion},succeeded="true",to_version="v2"}}'
    before = wait_until(lambda: conversions(server), lambda counts: counts[decoded] - earlier.get(decoded, 0) == 2)
    answers: list[Callable[[Obj], Any]] = [
        lambda review: [],
        lambda review: converted(review, result={"status": "Failure"}),
        lambda review: converted(review, convertedObjects=[]),
        changing(kind="Other"),
        with_metadata(labels=1),
        converted,
    ]
    for webhook.convert in answers:
        exchange(server, "GET", f"{V2}/a")
    counted = {sample: count - before.get(sample, 0) for sample, count in conversions(server).items()}
    failed = 'conversion_webhook_request_total{failure_type="conversion_webhook_%s_failure",result="failure"}'
    assert {sample: count for sample, count in counted.items() if count} == {
        failed % "call": 1,
        failed % "malformed_response": 1,
        failed % "partial_response": 1,
        failed % "invalid_converted_object": 2,
        'conversion_webhook_request_total{failure_type="",result="success"}': 1,
        f'{conversion},succeeded="false",to_version="v2"}}': 5,
        decoded: 1,
    }


def conversions(server: Server) -> dict[str, int]:
    """Return the numbers of calls of webhooks, and of conversions of definitions, in /metrics."""
    text = send(server, "GET", "/metrics").body.decode()
    counted = "conversion_webhook_request_total|crd_conversion_webhook_duration_seconds_count"
    samples = re.findall(rf"^apiserver_((?:{counted}){{\S+}}) (\d+)$", text, re.MULTILINE)
    return {sample: int(count) for sample, count in samples}


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
