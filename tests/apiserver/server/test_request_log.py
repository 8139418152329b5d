"""The last requests of a server, as a failed test shows them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from multidict import CIMultiDict

from tests.controlplane.test_components import SCHEDULER, install
from tests.http import send
from tests.releases import NEWEST
from tests.waiting import PATIENCE
from understudy import Fault, Server, StatusError
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.requestinfo import request_info
from understudy.apiserver.server.filters.request_log.log import RequestLog
from understudy.apiserver.server.filters.request_log.requests import Requests
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES
from understudy.controlplane.components import ComponentContext
from understudy.machinery.options import Query

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def last(server: Server, count: int = 10) -> list[str]:
    """Return the lines without the spaces between the columns."""
    return [" ".join(line.split()) for line in server.request_log.lines(count)]


@pytest.mark.apiserver(authorization_mode="RBAC", tls=False)
def test_line_has_verb_path_user_status_and_message(apiserver: Server) -> None:
    """A line has verb, path, user, status and the message of an error; requests of the server itself have none."""
    with pytest.raises(StatusError):
        apiserver.user("ann").get("configmaps", "a")
    send(apiserver, "GET", "/api/v1/nodes?labelSelector=a")
    send(apiserver, "GET", "/api/v1/nodes", headers={"Authorization": "Bearer wrong"})
    refused = 'cannot get resource "configmaps" in API group "" in the namespace "default"'
    anonymous = 'User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope'
    path = "/api/v1/namespaces/default/configmaps/a"
    assert last(apiserver) == [
        f'get {path} ann 403 configmaps "a" is forbidden: User "ann" {refused}',
        f"list /api/v1/nodes?labelSelector=a system:anonymous 403 nodes is forbidden: {anonymous}",
        "list /api/v1/nodes (unknown) 401 Unauthorized",
    ]


def test_methods_of_the_fixture_are_requests(apiserver: Server) -> None:
    """Requests by the server's methods are logged like others."""
    apiserver.apply(CONFIG_MAP)
    assert [line.split()[0] for line in last(apiserver)] == ["patch"]
    send(apiserver, "GET", "/version")
    assert last(apiserver, 1) == ["get /version system:admin 200"]


def test_components_are_shown_if_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers of the server ask much: only what they are refused is kept."""
    done = threading.Event()

    async def component(context: ComponentContext) -> None:
        async with APIClient(context.connection(SCHEDULER), "scheduler") as client:
            await client.list(NODES)
            try:
                await client.get(NODES, "absent")
            except StatusError:
                done.set()
            await asyncio.Event().wait()

    install(monkeypatch, component)
    with Server(controllers=["example"]) as server:
        assert done.wait(PATIENCE)
        shown = [line for line in last(server, 1000) if "nodes" in line]
    assert len(shown) == 1
    assert shown[0].endswith('404 nodes "absent" not found')


POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "no-b"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ]
        },
        "validations": [{"expression": "object.metadata.name != 'by-policy'"}],
    },
}
BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "no-b"},
    "spec": {"policyName": "no-b", "validationActions": ["Deny"]},
}


@pytest.mark.apiserver(authorization_mode="RBAC", tls=False)
def test_refusals_name_who_has_refused(apiserver: Server) -> None:
    """A request that was refused says by what: one case for each that can refuse."""

    @apiserver.webhook("configmaps", name="hook")
    def refuses(request: dict[str, Any]) -> bool:
        return bool(request["name"] != "by-webhook")

    @apiserver.webhook("secrets", name="changing", mutating=True)
    def refuses_secrets(request: dict[str, Any]) -> bool:
        return False

    role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
    role["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    apiserver.apply(POLICY)
    apiserver.apply(BINDING)
    apiserver.allow("ann", "create", "roles.rbac.authorization.k8s.io")
    apiserver.request_log.clear()
    ann = apiserver.user("ann")
    admin, path = apiserver.user("bob", groups=["system:masters"]), "/api/v1/namespaces/default/configmaps"
    for make in (
        lambda: ann.list("pods"),
        lambda: ann.create(role),
        lambda: admin.create({**CONFIG_MAP, "metadata": {"name": "Not_A_Name"}}),
        lambda: admin.create({**CONFIG_MAP, "metadata": {"name": "by-webhook"}}),
        lambda: admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        lambda: admin.create({**CONFIG_MAP, "metadata": {"name": "by-policy"}}),
        lambda: admin.create({**CONFIG_MAP, "metadata": {"name": "a", "namespace": "absent"}}),
        lambda: admin.get("configmaps", "absent"),
    ):
        with pytest.raises(StatusError):
            make()
    send(apiserver, "GET", path, headers={"Authorization": "Bearer wrong"})
    with apiserver.faults.add(Fault.server_error(), resource="configmaps"):
        send(apiserver, "GET", path, headers={"Authorization": f"Bearer {admin.token}"})
    assert [(each.status, each.refused_by) for each in apiserver.requests] == [
        (403, "authorization"),
        (403, "RBAC"),
        (422, "validation"),
        (400, "webhook hook.understudy.test"),
        (400, "webhook changing.understudy.test"),
        (422, "policy no-b"),
        (404, "admission plugin NamespaceLifecycle"),
        (404, ""),
        (401, "authentication"),
        (500, "fault"),
    ]


async def test_nothing_is_kept_of_a_server_that_no_test_uses() -> None:
    """A server that is started in an event loop, as `understudy serve` does it, keeps no requests."""
    server = Server()
    await server.start()
    await asyncio.to_thread(send, server, "GET", "/version")
    assert server.requests == []
    await server.stop()


def request(agent: str = "a", body: bytes = b"") -> Request:
    """Return a request for the version of the server."""
    made = Request("GET", "/version", CIMultiDict({"User-Agent": agent}), body, Query(""), NEWEST)
    made.info = request_info("GET", "/version", made.query)
    return made


def test_the_last_requests_are_kept() -> None:
    """The oldest requests are forgotten when there are too many, or their bodies and errors take too many bytes."""
    log = RequestLog(kept=3, kept_bytes=120)
    for number in range(5):
        log.note(request(str(number)), Response(200, b"x" * 200), 0.5)
    assert [each.user_agent for each in log.requests()] == ["2", "3", "4"]
    log.note(request("5", b"x" * 40), Response(500, b"x" * 40), 0.5)
    log.note(request("6", b"x" * 30), Response(200), 0.5)
    assert [each.user_agent for each in log.requests()] == ["6"]
    log.clear()
    log.note(request("7", b"x" * 100), Response(200), 0.5)
    assert [each.user_agent for each in log.requests()] == ["7"]
    log.note(request("8" * 100), Response(200), 0.5)
    assert [each.user_agent for each in log.requests()] == ["8" * 100]


def test_requests_are_shown_to_tests(apiserver: Server) -> None:
    """A request has its parts, its user and its program, its body, and what became of it."""
    apiserver.create(CONFIG_MAP)
    send(apiserver, "GET", "/api/v1/namespaces/default/configmaps/b?pretty=1", headers={"User-Agent": "program/1"})
    create, get = apiserver.requests
    assert (create.verb, create.group, create.version, create.resource) == ("create", "", "v1", "configmaps")
    assert (create.user, create.user_agent, create.status) == ("system:apiserver", "understudy", 201)
    assert create.json()["metadata"]["name"] == "a"
    assert 0 < create.seconds < PATIENCE
    assert (get.namespace, get.name, get.query, get.user_agent) == ("default", "b", {"pretty": "1"}, "program/1")
    path = "/api/v1/namespaces/default/configmaps/b?pretty=1"
    assert (repr(get), get.message) == (f"<get {path} system:admin 404 {get.message}>", 'configmaps "b" not found')
    with pytest.raises(ValueError, match="Expecting value"):
        get.json()
    apiserver.reset()
    assert apiserver.requests == []


def test_message_of_an_error_in_protobuf(apiserver: Server) -> None:
    """The message of an error is known whatever the client accepts; that of an error in plain text as well."""
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    send(apiserver, "GET", "/api/v1/namespaces/default/configmaps/b", headers=accept)
    send(apiserver, "GET", "/absent", headers=accept)
    assert [each.message for each in apiserver.requests] == ['configmaps "b" not found', "404 page not found"]


def test_requests_are_chosen(apiserver: Server) -> None:
    """Requests are chosen by verb, kind and fields; kinds have the names that `get` knows, and a typo is an error."""
    path = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"
    apiserver.apply("claim")
    apiserver.patch("resourceclaims", "gpu", {"metadata": {"labels": {"a": "b"}}})
    apiserver.patch("resourceclaims", "gpu", {"metadata": {"labels": {"a": "c"}}}, subresource="status")
    apiserver.get("resourceclaims.v1beta1.resource.k8s.io", "gpu")
    send(apiserver, "GET", path.format("v1"))
    send(apiserver, "GET", "/version")
    apiserver.delete_collection("configmaps")
    with pytest.raises(StatusError):
        apiserver.delete("configmaps", "absent")
    requests = apiserver.requests
    assert len(requests.patches("ResourceClaim")) == 3
    assert [each.subresource for each in requests.patches("resourceclaims", name="gpu")[1:]] == ["", "status"]
    assert len(requests.patches("resourceclaims", subresource="status", user="system:apiserver")) == 1
    assert len(requests.gets("resourceclaims")) == len(requests.gets("resourceclaims.v1beta1.resource.k8s.io")) == 1
    assert requests.gets("resourceclaims.v1.resource.k8s.io") == requests.creates() == requests.updates() == []
    assert len(requests.lists()) == len(requests.lists("resourceclaims")) == 1
    assert [each.status for each in requests.deletes("cm")] == [200, 404]
    assert requests.deletes(status=404)[0].message == 'configmaps "absent" not found'
    assert [each.path for each in requests.where("get") if not each.resource] == ["/version"]
    assert isinstance(requests[1:], Requests)
    assert requests[-1].verb == "delete"
    with pytest.raises(StatusError, match="resourceclaim"):
        requests.patches("resourceclaimz")
    misspelt: Any = {"sub_resource": "status"}
    with pytest.raises(TypeError, match="not chosen by 'sub_resource'; did you mean 'subresource'"):
        requests.creates(**misspelt)  # there are none, so that nothing else would tell
