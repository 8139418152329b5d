"""Expressions of CEL that take long are evaluated beside the event loop, within the time of their request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPException

import pytest

from tests.apiserver.server.test_worker import SECONDS, Stop
from tests.http import Response, send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.server.worker import worker
from understudy.apiserver.server.worker.worker import Worker

MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
VICTIMS = "/apis/example.com/v1/victims"
PAIRS = "object.data.all(a, object.data.all(b, a == b || a != b))"
ENDLESS = "object.data.exists_one(d, false)"
for _name in "cba":
    ENDLESS = f"object.data.exists_one({_name}, {ENDLESS})"
DATA = {f"k{number}": "" for number in range(200)}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def put_in_force(server: Server, *validations: str, operation: str = "CREATE") -> None:
    """Create a policy about ConfigMaps, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression} for expression in validations],
    }
    binding = {"policyName": "long", "validationActions": ["Deny"]}
    for resource, fields in (("validatingadmissionpolicies", spec), ("validatingadmissionpolicybindings", binding)):
        path = f"{POLICIES}/{resource}"
        assert send(server, "POST", path, {"metadata": {"name": "long"}, "spec": fields}).status == 201


def create(server: Server, name: str, *, query: str = "", keys: int = 200) -> Response:
    data = {f"k{number}": "" for number in range(keys)}
    return send(server, "POST", MAPS + query, {"metadata": {"name": name}, "data": data})


def define_victims(server: Server) -> None:
    """Create a definition whose objects have a rule over all pairs of their numbers."""
    names = {"plural": "victims", "singular": "victim", "kind": "Victim", "listKind": "VictimList"}
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.values.all(a, self.values.all(b, a == b || a != b))"}],
        "properties": {"values": {"type": "array", "maxItems": 400, "items": {"type": "integer"}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert send(server, "POST", path, {"metadata": {"name": "victims.example.com"}, "spec": spec}).status == 201
    wait_until(lambda: send(server, "GET", VICTIMS).status == 200)


def evaluating() -> list[threading.Thread]:
    """Return the threads in which requests are answered beside the event loop."""
    return [thread for thread in threading.enumerate() if thread.name == "understudy-deep"]


def test_others_are_answered_while_a_policy_takes_long(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that takes long is asked in a thread, and others are answered meanwhile."""
    put_in_force(server, PAIRS)
    stop = Stop(worker._at_any_depth)
    monkeypatch.setattr(worker, "_at_any_depth", stop)
    long = beside.submit(create, server, "long")
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    assert create(server, "short", keys=2).status == 201
    stop.released.set()
    assert long.result(SECONDS).status == 201


def test_others_are_answered_while_a_rule_takes_long(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule of a definition that takes long is evaluated in a thread, and others are answered meanwhile."""
    define_victims(server)
    stop = Stop(worker._at_any_depth)
    monkeypatch.setattr(worker, "_at_any_depth", stop)
    victim = {"apiVersion": "example.com/v1", "kind": "Victim", "metadata": {"name": "a"}, "values": list(range(200))}
    long = beside.submit(send, server, "POST", VICTIMS, victim)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 201


@pytest.mark.parametrize("path", [f"{MAPS}/long", MAPS])
def test_others_are_answered_while_a_deletion_takes_long(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A policy about deletions that takes long, of one object or of all, is asked in a thread."""
    put_in_force(
        server, f"oldObject.metadata.name != 'long' || {PAIRS.replace('object', 'oldObject')}", operation="DELETE"
    )
    for name in ("a", "long"):
        create(server, name)
    stop = Stop(worker._at_any_depth)
    monkeypatch.setattr(worker, "_at_any_depth", stop)
    long = beside.submit(send, server, "DELETE", path)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 200
    assert send(server, "GET", f"{MAPS}/long").status == 404


def test_short_evaluation_needs_no_thread(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies and rules that are evaluated at once are so on the event loop."""

    async def answer(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Worker, "evaluate", answer)
    put_in_force(server, PAIRS, "object.metadata.name != 'other'")
    assert create(server, "short", keys=10).status == 201
    assert create(server, "other", keys=10).status == 422


def test_evaluation_ends_with_its_request(server: Server) -> None:
    """A client that gives its request a second gets 504 after it, nothing is stored, and no thread goes on."""
    put_in_force(server, f"!{ENDLESS}")
    answer = create(server, "endless", query="?timeout=1s")
    assert answer.status == 504
    assert send(server, "GET", f"{MAPS}/endless").status == 404
    wait_until(lambda: not evaluating())


@pytest.mark.parametrize("size", [1, 40_000])
def test_large_object_is_evaluated_beside_others(server: Server, beside: ThreadPoolExecutor, size: int) -> None:
    """An object that a policy looks at for long, however large it is, keeps no other large object waiting."""
    put_in_force(server, f"object.metadata.name != 'endless' || !{ENDLESS}")
    data = {**DATA, "text": "x" * size}
    path = MAPS + "?timeout=2s"
    long = beside.submit(send, server, "POST", path, {"metadata": {"name": "endless"}, "data": data})
    wait_until(evaluating)
    while not long.done():
        large = send(server, "POST", MAPS, {"metadata": {"generateName": "large-"}, "data": {"text": "x" * 40_000}})
        assert large.status == 201
    assert long.result(SECONDS).status == 504


def test_deep_object_is_evaluated_for_long(server: Server) -> None:
    """An object that recurses too deep for the event loop, and that a rule looks at for long, is stored."""
    define_victims(server)
    deep = '{"a":' * 2_000 + "{}" + "}" * 2_000
    victim = '{"apiVersion": "example.com/v1", "kind": "Victim", "metadata": {"name": "a"}'
    body = f'{victim}, "values": {list(range(250))}, "deep": {deep}}}'
    assert send(server, "POST", VICTIMS, body.encode()).status == 201


def test_server_stops_while_an_evaluation_goes_on(beside: ThreadPoolExecutor) -> None:
    """A server that stops does not wait for the end of an evaluation."""
    with ExitStack() as running:
        server = running.enter_context(Server())
        put_in_force(server, f"!{ENDLESS}")
        long = beside.submit(create, server, "endless")
        wait_until(evaluating)
        stopping = running.pop_all()
    beside.submit(stopping.close).result(SECONDS)
    assert not evaluating()
    assert isinstance(long.exception(SECONDS), (OSError, HTTPException))
