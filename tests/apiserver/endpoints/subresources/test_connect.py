"""Logs, exec, attach and port-forward of pods: what is refused before a kubelet would be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.common.comparing import Server as Client
from tests.http import MERGE_PATCH, exchange, send
from tests.releases import RELEASES
from understudy import Server
from understudy.machinery.releases.version import V1_34, V1_35, Version

PODS = "/api/v1/namespaces/default/pods"
HOSTLESS = "pod one does not have a host assigned"
CHOOSE = "a container name must be specified for pod two, choose one of: [first a b]"
ADDRESS = {"type": "InternalIP"}
NO_ADDRESS = "no preferred addresses found; known addresses: []"


def pod(name: str, *containers: str, **more: Any) -> Any:
    spec = {"containers": [{"name": container, "image": "i"} for container in containers], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(emulated_version=str(request.param)) as running:
        running.apply(
            pod("one", "a"),
            pod("two", "a", "b", initContainers=[{"name": "first", "image": "i"}]),
            pod("lost", "a", nodeName="nowhere"),
            pod("placed", "a", nodeName="n"),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
        )
        yield running


FORMS = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
OTHER = "application/json;as={};v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("path", "accept", "status", "message"),
    [
        ("none/log", "text/plain", 406, f"only the following media types are accepted: {FORMS}"),
        ("one/log?tailLines=x", "text/plain", 406, f"only the following media types are accepted: {FORMS}"),
        ("one/log", "text/*", 406, f"406: Not Acceptable\n\nAvailable representations: text/plain, {FORMS}"),
        ("one/log", "text/plain, */*", 204, None),
        ("none/log", OTHER.format("PartialObjectMetadata"), 404, 'pods "none" not found'),
        ("one/log", OTHER.format("Table"), 406, f"only the following media types are accepted: {FORMS}"),
        ("one/log", OTHER.format("PartialObjectMetadata"), 500, "object does not implement the Object interfaces"),
        (
            "one/log",
            OTHER.format("PartialObjectMetadataList"),
            406,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*rest.LocationStreamer)",
        ),
        ("one/exec", "text/plain", 400, HOSTLESS),
    ],
)
def test_forms_that_clients_of_logs_accept(
    server: Server, path: str, accept: str, status: int, message: str | None
) -> None:
    """A client must accept a form of objects to get a log; whoever connects may accept anything."""
    answer = send(server, "GET", f"{PODS}/{path}", headers={"Accept": accept})
    assert (answer.status, json.loads(answer.body)["message"] if answer.body else None) == (status, message)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("one/exec?command=ls", 400, HOSTLESS),
        ("one/exec?container=a", 400, HOSTLESS),
        ("one/exec?container=z", 400, "container z is not valid for pod one"),
        ("one/exec?command=ls&dryRun=All", 400, "dryRun is not supported"),
        ("none/portforward?dryRun=", 400, "dryRun is not supported"),
        ("two/exec", 400, CHOOSE),
        ("two/attach", 400, CHOOSE),
        ("two/log", 400, CHOOSE),
        ("two/log?container=z", 400, "container z is not valid for pod two"),
        ("one/portforward", 400, HOSTLESS),
        ("lost/log", 404, 'pods "nowhere" not found'),
        ("lost/portforward", 404, 'pods "nowhere" not found'),
        ("placed/exec", 500, NO_ADDRESS),
        ("none/log", 404, 'pods "none" not found'),
        ("one/log?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("one/log?sinceSeconds=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        (
            "one/log?sinceTime=x",
            400,
            'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
        ),
    ],
)
def test_connect_checks_the_container_first(server: Server, path: str, status: int, message: str) -> None:
    """The container is checked before the node, and the node before its address."""
    code, answer = exchange(server, "GET", f"{PODS}/{path}")
    assert (code, answer["message"]) == (status, message)


@pytest.mark.parametrize("query", ["", "?container=a", "?tailLines=0&sinceSeconds=1", "?sinceTime=", "?follow=maybe"])
def test_log_of_an_unscheduled_pod_is_empty(server: Server, query: str) -> None:
    """The log of a pod without a node is 204 without a body."""
    answer = send(server, "GET", f"{PODS}/one/log{query}")
    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        (
            "tailLines=-1&limitBytes=0&sinceSeconds=0",
            {
                "tailLines": "Invalid value: -1: must be greater than or equal to 0",
                "limitBytes": "Invalid value: 0: must be greater than 0",
                "sinceSeconds": "Invalid value: 0: must be greater than 0",
            },
        ),
        (
            "sinceSeconds=0&sinceTime=2024-01-01T00:00:00Z",
            {"[]": "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"},
        ),
        ("stream=Stdout", {"stream": "Forbidden: may not be specified"}),
    ],
)
def test_log_options_are_validated(server: Server, query: str, causes: dict[str, str]) -> None:
    """The options of a log are validated before the pod is looked up."""
    status, answer = exchange(server, "GET", f"{PODS}/none/log?{query}")
    assert (status, answer["details"]["kind"]) == (422, "PodLogOptions")
    assert {cause["field"]: cause["message"] for cause in answer["details"]["causes"]} == causes


@pytest.fixture(scope="module")
def newest() -> Iterator[Server]:
    with Server() as running:
        running.apply(pod("p", "a"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "p"}})
        yield running


@pytest.mark.parametrize(
    ("ip", "name", "status", "message"),
    [
        ("", "p", 400, "address not allowed"),
        ("127.0.0.1", "p", 400, "address not allowed"),
        ("169.254.1.1", "p", 400, "address not allowed"),
        ("224.0.0.1", "p", 400, "address not allowed"),
        ("10.1.2.3", "p", 301, "/p/proxy/?x=1&y=%20"),
        ("fd00::1", "http:p:80", 301, "/http:p:80/proxy/?x=1&y=%20"),
        ("10.1.2.3", "ftp:p:80", 400, 'invalid {} request "ftp:p:80"'),
        ("10.1.2.3", "a:b:c:d", 400, 'invalid {} request "a:b:c:d"'),
    ],
)
@pytest.mark.parametrize("kind", ["pod", "node"])
def test_proxy_without_a_path_is_redirected(
    newest: Server, kind: str, ip: str, name: str, status: int, message: str
) -> None:
    """GET of a pod's or node's proxy is redirected to its root, if something could have the address.

    Source: kube-apiserver 1.37.
    """
    path = PODS if kind == "pod" else "/api/v1/nodes"
    address: dict[str, Any] = (
        {"podIP": ip, "podIPs": [{"ip": ip}]} if kind == "pod" else {"addresses": [ADDRESS | {"address": ip}]}
    )
    patch = {"status": address if ip else None}
    assert send(newest, "PATCH", f"{path}/p/status", patch, MERGE_PATCH).status == 200
    answer = send(newest, "GET", f"{path}/{name}/proxy?x=1&y=%20")
    if status == 301:
        assert (answer.status, answer.headers["Location"], answer.body) == (301, path + message, b"")
    else:
        said = message.format(kind) if ip or kind == "pod" else NO_ADDRESS
        assert (answer.status, answer.json()["message"]) == (500 if said == NO_ADDRESS else status, said)


@pytest.mark.parametrize("release", [V1_34, V1_35], ids=str)
def test_connections_need_the_right_to_create(release: Version) -> None:
    """From 1.35 on a connection that begins with GET, such as a WebSocket, needs the right for POST as well."""
    kinds = ("exec", "attach", "portforward")
    group = "rbac.authorization.k8s.io"
    with Server(emulated_version=str(release), authorization_mode="RBAC", tls=False) as server:
        server.apply(pod("placed", "a", nodeName="n"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        answers = set()
        for verb, method in (("get", "GET"), ("create", "POST")):
            rule: Any = {"apiGroups": [""], "resources": [f"pods/{kind}" for kind in kinds], "verbs": [verb]}
            common: Any = {"apiVersion": f"{group}/v1", "metadata": {"name": verb}}
            binding: Any = {"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": verb}}
            binding |= {"subjects": [{"apiGroup": group, "kind": "User", "name": verb}]}
            role = {**common, "kind": "ClusterRole", "rules": [rule]}
            server.apply(role, {**common, "kind": "ClusterRoleBinding", **binding})
            with Client(server.url, server.user(verb).token) as client:
                for kind in kinds:
                    answer = json.loads(client.exchange(method, f"{PODS}/placed/{kind}").body)
                    answers.add((verb, answer["code"], answer["message"]))
    refusal = (403, 'pods "placed" is forbidden: ') if release == V1_35 else (500, NO_ADDRESS)
    assert answers == {("get", *refusal), ("create", 500, NO_ADDRESS)}
