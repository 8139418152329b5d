"""Watches, caches and controllers of custom resources that a webhook converts, while it does and while it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.apiserver.extensions.conversion_webhook import (
    FAILED,
    V1,
    V2,
    Webhook,
    converted,
    define,
    versions,
    widget,
)
from tests.apiserver.extensions.test_custom_resources import DEFINITIONS, wait_for
from tests.http import exchange, send, watch
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.controllers import watch_caches
from understudy.apiserver.endpoints.handlers.watch import EventSource
from understudy.apiserver.storage import turns
from understudy.machinery.types import Obj

pytestmark = pytest.mark.maintenance  # they take long, and CI runs them once


def test_watches(server: Server) -> None:
    """The events of a watch come in their order, in the version of the watch."""
    exchange(server, "POST", V1, widget(size=1))
    with watch(server, V2) as events:
        for size in (2, 3):
            exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": size}})
        exchange(server, "DELETE", f"{V1}/a")
        seen = [(event["type"], event["object"]["spec"]["width"]) for event in (next(events) for _ in range(4))]
    assert seen == [("ADDED", 1), ("MODIFIED", 2), ("MODIFIED", 3), ("DELETED", 3)]


FAILING: Callable[[Obj], Obj] = lambda review: converted(review, result={"status": "Failure"})  # noqa: E731


def test_an_object_that_leaves_the_selection(server: Server, webhook: Webhook) -> None:
    """A watch with a selector goes on when an object leaves its selection: it shows it as it was, at the new version.

    The webhook is not asked about that; every form of the watch shows it.
    """
    tables, partial = (f"application/json;as={kind};v=v1;g=meta.k8s.io" for kind in ("Table", "PartialObjectMetadata"))
    with ExitStack() as watches:

        def watched(query: str, accept: str | None = None) -> Iterator[Any]:
            return watches.enter_context(watch(server, V2, query, accept=accept))

        red, label = "&fieldSelector=spec.color%3Dred", "&labelSelector=color%3Dred"
        streams = [watched(red), watched(label), watched(red, tables), watched(red, partial)]
        labels = {"labels": {"color": "red"}}
        exchange(server, "POST", V1, {**widget(size=1, color="red"), "metadata": {"name": "a", **labels}})
        blue = {"metadata": {"labels": {"color": "blue"}}, "spec": {"color": "blue", "width": 2}}
        left = exchange(server, "PATCH", f"{V2}/a", blue)[1]["metadata"]["resourceVersion"]
        exchange(server, "PATCH", f"{V1}/a", {"spec": {"color": "red"}, "metadata": labels})
        exchange(server, "DELETE", f"{V1}/a")
        seen = [[next(events) for _ in range(4)] for events in streams]
    assert [[event["type"] for event in events] for events in seen] == [["ADDED", "DELETED", "ADDED", "DELETED"]] * 4
    for events in seen[:2]:
        assert [event["object"]["spec"]["width"] for event in events] == [1, 1, 2, 2]
        assert events[1]["object"]["metadata"]["resourceVersion"] == left
    assert [event["object"]["rows"][0]["cells"] for event in seen[2]] == [["a", 1], ["a", 1], ["a", 2], ["a", 2]]
    assert [event["object"]["metadata"]["name"] for event in seen[3]] == ["a"] * 4


def test_a_watch_goes_on_after_a_failure(server: Server, webhook: Webhook) -> None:
    """A webhook that fails for a while only delays events; what is read from the watch cache is older meanwhile."""
    created = exchange(server, "POST", V1, widget(size=1))[1]["metadata"]["resourceVersion"]
    with watch(server, V2) as events, watch(server, V2, f"&resourceVersion={created}") as newer:
        assert next(events)["type"] == "ADDED"
        webhook.convert = FAILING
        exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": 2}})
        asked = len(webhook.requests)
        wait_until(lambda: len(webhook.requests), lambda number: number > asked + 3)  # it is asked again
        code, body = exchange(server, "GET", V2)
        assert (code, body["reason"]) == (500, "StorageReadError")
        assert body["message"].endswith(f"{FAILED}response.result.status was 'Failure', not 'Success'")
        code, body = exchange(server, "GET", f"{V2}?resourceVersion=0")
        assert (code, [item["spec"] for item in body["items"]]) == (200, [{"width": 1}])
        with watch(server, V2, "&resourceVersion=0") as older, watch(server, V2) as failed:
            assert next(older)["object"]["spec"] == {"width": 1}
            error = next(failed)
            assert (error["type"], error["object"]["code"]) == ("ERROR", 504)
            assert error["object"]["message"].startswith("Timeout: Too large resource version: ")
            webhook.convert = converted
            spec = [next(stream)["object"]["spec"] for stream in (events, newer, older)]
    assert spec == [{"width": 2}] * 3


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("1.32", ""),
        ("1.36", f": failed to list example.com/v2, Kind=Widget: {FAILED}response.result.status was '', not 'Success'"),
    ],
)
def test_a_failure_that_lasts(webhook: Webhook, monkeypatch: pytest.MonkeyPatch, release: str, why: str) -> None:
    """Watches end when a webhook has failed for too long, and others are told to come back later."""
    monkeypatch.setattr(watch_caches, "GIVEN_UP", 0.0)
    with Server(emulated_version=release) as server:
        define(server, conversion=webhook.conversion())
        exchange(server, "POST", V1, widget(size=1))
        with watch(server, V2) as events:
            assert next(events)["type"] == "ADDED"
            webhook.convert = lambda review: converted(review, result={})
            exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": 2}})
            assert list(events) == []
        for query in ("", "?resourceVersion=0", "?watch=1"):
            answer = send(server, "GET", f"{V2}{query}")
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            assert answer.json()["message"] == f"storage is (re)initializing{why}"
        assert exchange(server, "GET", f"{V2}?limit=1")[0] == 500  # not from the cache
        assert exchange(server, "GET", V1)[1]["items"][0]["spec"] == {"size": 2}
        webhook.convert = converted
        listed = wait_for(server, V2, lambda code, body: code == 200)
        assert listed["items"][0]["spec"] == {"width": 2}


def test_a_watch_ends_in_time(webhook: Webhook) -> None:
    """A watch ends when its time is up, or when its server stops, whatever a webhook does that does not answer."""
    silent = threading.Event()
    with ExitStack() as watches:
        with Server() as server:
            define(server, conversion=webhook.conversion())
            exchange(server, "POST", V1, widget(size=1))
            with watch(server, V2, "&timeoutSeconds=1") as events:
                assert next(events)["type"] == "ADDED"
                webhook.convert = lambda review: silent.wait(60) and None
                exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": 2}})
                assert list(events) == []
            events = watches.enter_context(watch(server, V2, "&resourceVersion=0"))
            assert next(events)["object"]["spec"] == {"width": 1}
        assert list(events) == []
    silent.set()


def test_initial_events_and_writes_at_once(server: Server) -> None:
    """No event is lost that is written while a watch begins, whose bookmark says up to where it has begun."""
    query = "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"
    done = threading.Event()

    def write() -> None:
        size = 1
        while not done.is_set():
            size += 1
            exchange(server, "PATCH", f"{V1}/a", {"spec": {"size": size}})

    exchange(server, "POST", V1, widget(size=1))
    writing = threading.Thread(target=write)
    writing.start()
    for _ in range(5):
        with watch(server, V2, query) as events:
            seen = [next(events) for _ in range(5)]
        widths = [event["object"]["spec"]["width"] for event in seen if event["type"] != "BOOKMARK"]
        assert widths == list(range(widths[0], widths[0] + 4))
    done.set()
    writing.join()


def test_deletions_ask_the_webhook(server: Server, webhook: Webhook) -> None:
    """An object that cannot be converted is not deleted in another version than the stored one."""
    for name in "ab":
        exchange(server, "POST", V1, widget(name=name, size=1))
    webhook.convert = FAILING
    text = f"{FAILED}response.result.status was 'Failure', not 'Success'"
    messages = [exchange(server, "DELETE", path)[1]["message"] for path in (f"{V2}/a", V2)]
    assert messages[0].startswith("Internal error occurred: StorageError: corrupt object, ")
    assert messages[0].endswith(text)
    assert messages[1].startswith("failed to read one or more widgets.example.com from the storage: ")
    assert messages[1].endswith(f"{text} (and 1 more)")
    other = (
        "conversion webhook for example.com/v2, Kind=Widget failed: response.result.status was 'Failure', not 'Success'"
    )
    to_v1: Callable[[Obj], Obj] = lambda review: (  # noqa: E731
        FAILING(review) if review["request"]["desiredAPIVersion"].endswith("v1") else converted(review)
    )
    webhook.convert = to_v1
    assert [exchange(server, "DELETE", path)[1]["message"] for path in (f"{V2}/a", V2)] == [other, other]
    assert len(exchange(server, "GET", V1)[1]["items"]) == 2
    assert exchange(server, "DELETE", f"{V1}/a")[0] == 200
    webhook.convert = converted
    assert [item["spec"] for item in exchange(server, "DELETE", V2)[1]["items"]] == [{"width": 1}]


def test_a_version_that_does_not_come(server: Server) -> None:
    """A request that waits for a webhook may wait for a version of the store as well."""
    server.state.registry.wait_seconds = 0
    for method in ("GET", "DELETE"):
        code, body = exchange(server, method, f"{V2}?resourceVersion=99999999")
        assert (code, body["message"].partition(",")[0]) == (504, "Timeout: Too large resource version: 99999999")


def test_parameters_of_policies(server: Server, webhook: Webhook) -> None:
    """Policies read parameters in another version than the stored one, also if the webhook fails by then.

    Requests that have to wait for that are not disturbed by other writes.
    """
    exchange(server, "POST", V1, widget(name="limit", size=3))
    server.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "limit"},
            "spec": {
                "paramKind": {"apiVersion": "example.com/v2", "kind": "Widget"},
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
                    ]
                },
                "validations": [{"expression": "object == null || int(object.data.size) <= params.spec.width"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "limit"},
            "spec": {
                "policyName": "limit",
                "paramRef": {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"},
                "validationActions": ["Deny"],
            },
        },
    )
    config_maps = "/api/v1/namespaces/default/configmaps"

    @server.webhook("configmaps", mutating=True)
    async def write(request: Obj) -> None:
        import asyncio

        await asyncio.to_thread(exchange, server, "PATCH", f"{V1}/limit", {"spec": {"replicas": 1}})

    def create(size: int) -> int:
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x"}, "data": {"size": str(size)}}
        return exchange(server, "POST", config_maps, obj)[0]

    assert [create(size) for size in (1, 5, 2, 6, 3)] == [201, 422, 201, 422, 201]
    assert exchange(server, "DELETE", config_maps)[0] == 200
    wait_for(server, f"{V2}?resourceVersion=0", lambda code, body: body["items"][0]["spec"].get("replicas") == 1)
    webhook.convert = FAILING
    assert [create(size) for size in (1, 5)] == [201, 422]


@pytest.mark.apiserver(controllers=["namespace", "garbage-collector"])
def test_controllers_go_on_after_a_failure(server: Server, webhook: Webhook) -> None:
    """A namespace and the dependents of an owner go as soon as the webhook converts again; its condition says why."""
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
    inside = V1.replace("default", "going")
    for name in "ab":
        exchange(server, "POST", inside, widget(name=name, size=1))
    owner = server.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})[0]["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    exchange(server, "POST", V1, {**widget(size=1), "metadata": {"name": "a", "ownerReferences": [reference]}})
    webhook.convert = FAILING
    server.delete("namespace", "going")
    server.delete("configmap", "owner")
    path = "/api/v1/namespaces/going"
    body = wait_for(server, path, lambda code, body: "conditions" in body["status"])
    true = {c["type"]: c["message"] for c in body["status"]["conditions"] if c["status"] == "True"}
    why = f"{FAILED}response.result.status was 'Failure', not 'Success'"
    assert list(true) == ["NamespaceDeletionContentFailure"]
    message = true["NamespaceDeletionContentFailure"]
    assert message.startswith(
        "Failed to delete all resource types, 1 remaining: Internal error occurred: StorageError: "
    )
    assert message.endswith(why)
    webhook.convert = converted
    wait_for(server, path, lambda code, body: code == 404)
    wait_for(server, V1, lambda code, body: not body["items"])


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
    assert terminating["message"].startswith(
        "could not list instances: storage is (re)initializing: failed to list <unspecified>: failed to read one or "
        "more widgets.example.com from the storage: StorageError: corrupt object, "
    )
    webhook.convert = converted
    wait_for(server, path, lambda code, body: code == 404)


@pytest.mark.parametrize("is_dropped", [False, True], ids=["kept", "dropped"])
def test_initial_events_are_sent_in_turns(
    server: Server, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    """A watch sends a few objects that are converted already in each turn; those that were dropped meanwhile are
    converted once more."""
    names = [f"c{number}" for number in range(6)]
    for name in names:
        exchange(server, "POST", V1, widget(name=name, size=1))
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(turns, "FIRST", 0.0)
    taken, take = [], EventSource.take

    def noted(self: EventSource) -> list[bytes]:
        frames = take(self)
        taken.append(len(frames))
        for entry in self._initial if is_dropped else ():
            entry.cache.clear()
        return frames

    monkeypatch.setattr(EventSource, "take", noted)
    with watch(server, V2, "&resourceVersion=0") as events:
        assert [next(events)["object"]["metadata"]["name"] for _ in names] == names
    assert max(taken) <= 2
