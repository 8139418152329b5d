"""Expressions of CEL that take long are evaluated beside the event loop, within the time of their request."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPException
from typing import Any

import pytest

from tests.apiserver.server.worker.stop import SECONDS, Stop
from tests.http import Response, send
from tests.waiting import wait_until
from understudy import Server
from understudy.apiserver.server.worker import worker
from understudy.apiserver.server.worker.worker import Worker
from understudy.machinery.util.deep_recursion import call_deeply

MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
VICTIMS = "/apis/example.com/v1/victims"
PAIRS = "object.data.all(a, object.data.all(b, a == b || a != b))"
ENDLESS = "object.data.exists_one(d, false)"
for _name in "cba":
    ENDLESS = f"object.data.exists_one({_name}, {ENDLESS})"
OF_SERVICES = PAIRS.replace("object.data", "object.metadata.annotations")
ALLOTTED = "Timeout: request did not complete within the allotted timeout"
DATA = {f"k{number}": "" for number in range(200)}


def put_in_force(
    server: Server,
    *validations: str,
    operation: str = "CREATE",
    resource: str = "configmaps",
    conditions: tuple[str, ...] = (),
) -> None:
    """Create a policy about ConfigMaps, or another resource, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": f"condition-{n}", "expression": each} for n, each in enumerate(conditions)],
        "validations": [{"expression": expression} for expression in validations],
    }
    binding = {"policyName": "long", "validationActions": ["Deny"]}
    for kinds, fields in (("validatingadmissionpolicies", spec), ("validatingadmissionpolicybindings", binding)):
        path = f"{POLICIES}/{kinds}"
        assert send(server, "POST", path, {"metadata": {"name": "long"}, "spec": fields}).status == 201


def create(server: Server, name: str, *, query: str = "", keys: int = 200) -> Response:
    data = {f"k{number}": "" for number in range(keys)}
    return send(server, "POST", MAPS + query, {"metadata": {"name": name}, "data": data})


def service(name: str, annotations: int, type_: str = "ClusterIP") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {f"k{number}": "" for number in range(annotations)}},
        "spec": {"ports": [{"port": 80}], "type": type_},
    }


def create_service(
    server: Server, name: str, *, query: str = "", annotations: int = 200, type_: str = "ClusterIP"
) -> Response:
    return send(server, "POST", SERVICES + query, service(name, annotations, type_))


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
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
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
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    victim = {"apiVersion": "example.com/v1", "kind": "Victim", "metadata": {"name": "a"}, "values": list(range(200))}
    long = beside.submit(send, server, "POST", VICTIMS, victim)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 201


def test_others_are_answered_while_many_expressions_are_compiled(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expressions of a policy that has many are compiled in a thread, and others are answered meanwhile."""
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    long = beside.submit(put_in_force, server, *[f"object.data.size() < {number}" for number in range(300, 340)])
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    long.result(SECONDS)
    assert create(server, "short", keys=2).status == 201


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
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    long = beside.submit(send, server, "DELETE", path)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 200
    assert send(server, "GET", f"{MAPS}/long").status == 404


def test_others_are_answered_while_a_service_is_looked_at_for_long(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy about Services that takes long is asked in a thread, while the Service holds one address."""
    put_in_force(server, OF_SERVICES, resource="services")
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    long = beside.submit(create_service, server, "long")
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    assert create_service(server, "short", annotations=2).status == 201
    stop.released.set()
    spec = long.result(SECONDS).json()["spec"]
    addresses = send(server, "GET", ADDRESSES).json()["items"]
    held = [each["metadata"]["name"] for each in addresses if each["spec"]["parentRef"]["name"] == "long"]
    assert held == spec["clusterIPs"]


@pytest.mark.parametrize("version", ["1.32", "1.36"], ids=["a bitmap of addresses", "objects for addresses"])
def test_services_that_wait_share_no_port(
    beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A Service that a policy looks at for long has its node port and address already; one that is refused gives them
    back."""
    with Server(emulated_version=version) as server:
        put_in_force(server, f"({OF_SERVICES}) && object.metadata.name != 'refused'", resource="services")
        for name in ("refused", "long"):
            stop = Stop(call_deeply)
            monkeypatch.setattr(worker, "call_deeply", stop)
            long = beside.submit(create_service, server, name, type_="NodePort")
            assert stop.reached.wait(SECONDS)
            short = create_service(server, f"beside-{name}", annotations=2, type_="NodePort").json()["spec"]
            stop.released.set()
            answer = long.result(SECONDS)
            assert answer.status == (422 if name == "refused" else 201)
        spec = answer.json()["spec"]
    assert (spec["clusterIP"], spec["ports"][0]["nodePort"]) == ("10.0.0.17", 30086)
    assert (short["clusterIP"], short["ports"][0]["nodePort"]) == ("10.0.0.19", 30088)


def test_service_without_time_releases_its_address(server: Server) -> None:
    """A Service that a policy looks at for longer than its client waits is not stored, and nor are its addresses."""
    put_in_force(server, f"!{ENDLESS.replace('object.data', 'object.metadata.annotations')}", resource="services")
    assert create_service(server, "endless", query="?timeout=1s").json()["message"] == ALLOTTED
    assert send(server, "GET", f"{SERVICES}/endless").status == 404
    wait_until(lambda: not evaluating())
    owners = [each["spec"]["parentRef"]["name"] for each in send(server, "GET", ADDRESSES).json()["items"]]
    assert "endless" not in owners


def test_deep_service_lets_the_loop_go_on_while_it_is_looked_at(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop stands still for a Service that recurses too deep for it, but not while a policy looks at it."""
    put_in_force(server, OF_SERVICES, resource="services")
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    monkeypatch.setattr(worker, "BRIEFLY", 1000)
    body = json.dumps(service("deep", 200))
    deep = f'{body[:-1]}, "deep": {"[" * 5000}{"]" * 5000}}}'
    long = beside.submit(send, server, "POST", SERVICES, deep.encode())
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 201


@pytest.mark.parametrize("of_webhook", [False, True])
def test_others_are_answered_while_conditions_of_deletions_take_long(
    server: Server, beside: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, of_webhook: bool
) -> None:
    """Match conditions about the deletion of all objects, of a policy or a webhook, are evaluated in a thread."""
    condition = f"oldObject.metadata.name == 'long' && !{PAIRS.replace('object', 'oldObject')}"
    if of_webhook:
        conditions = [{"name": "long", "expression": condition}]

        @server.webhook("configmaps", operations=["DELETE"], matchConditions=conditions)
        def never(request: Any) -> bool:
            return False

    else:
        put_in_force(server, "false", operation="DELETE", conditions=(condition,))
    for name in ("a", "long"):
        create(server, name)
    stop = Stop(call_deeply)
    monkeypatch.setattr(worker, "call_deeply", stop)
    long = beside.submit(send, server, "DELETE", MAPS)
    assert stop.reached.wait(SECONDS)
    assert send(server, "GET", "/healthz").body == b"ok"
    stop.released.set()
    assert long.result(SECONDS).status == 200
    assert send(server, "GET", f"{MAPS}/long").status == 404


@pytest.mark.parametrize("size", [1, 40_000])
def test_mutating_webhook_is_asked_once(server: Server, size: int) -> None:
    """A webhook is asked once about a request that a policy looks at for long afterwards."""
    asked: list[str] = []

    @server.webhook("configmaps", mutating=True)
    def noted(request: Any) -> None:
        asked.append(request["uid"])

    put_in_force(server, PAIRS)
    data = {**DATA, "text": "x" * size}
    assert send(server, "POST", MAPS, {"metadata": {"name": "long"}, "data": data}).status == 201
    assert len(asked) == 1


def test_mutating_webhook_is_asked_once_about_a_custom_resource(server: Server) -> None:
    """A webhook is asked once about an object that a rule of its definition looks at for long afterwards."""
    define_victims(server)
    asked: list[str] = []

    @server.webhook("victims.example.com", mutating=True)
    def noted(request: Any) -> None:
        asked.append(request["uid"])

    victim = {"apiVersion": "example.com/v1", "kind": "Victim", "metadata": {"name": "a"}, "values": list(range(200))}
    assert send(server, "POST", VICTIMS, victim).status == 201
    victim = {**send(server, "GET", f"{VICTIMS}/a").json(), "values": list(range(201))}
    assert send(server, "PUT", f"{VICTIMS}/a", victim).status == 200
    assert len(asked) == 2


def test_short_evaluation_needs_no_thread(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies and rules that are evaluated at once are so on the event loop."""

    async def answer(*_: object) -> None:
        raise AssertionError

    put_in_force(server, PAIRS, "object.metadata.name != 'other'")  # in a thread, if it is the first of this process
    monkeypatch.setattr(Worker, "evaluate", answer)
    assert create(server, "short", keys=10).status == 201
    assert create(server, "other", keys=10).status == 422


def test_evaluation_ends_with_its_request(server: Server) -> None:
    """A client that gives its request a second gets 504 after it, nothing is stored, and no thread goes on."""
    put_in_force(server, f"!{ENDLESS}")
    answer = create(server, "endless", query="?timeout=1s")
    assert (answer.status, answer.json()["message"]) == (504, ALLOTTED)
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
