"""Logs, commands and ports of pods, where no kubelet is: what is wrong with a request is told first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import exchange, send
from tests.releases import RELEASES
from understudy import Server

PODS = "/api/v1/namespaces/default/pods"
HOSTLESS = "pod one does not have a host assigned"
CHOOSE = "a container name must be specified for pod two, choose one of: [first a b]"
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


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("one/exec?command=ls", 400, HOSTLESS),
        ("one/exec?container=a", 400, HOSTLESS),
        ("one/exec?container=z", 400, "container z is not valid for pod one"),
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
def test_refused(server: Server, path: str, status: int, message: str) -> None:
    """The container comes before the node, and the node before the kubelet."""
    code, answer = exchange(server, "GET", f"{PODS}/{path}")
    assert (code, answer["message"]) == (status, message)


@pytest.mark.parametrize("query", ["", "?container=a", "?tailLines=0&sinceSeconds=1", "?sinceTime=", "?follow=maybe"])
def test_log_of_a_pod_without_a_node(server: Server, query: str) -> None:
    """There is nothing to read."""
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
def test_parameters_of_logs(server: Server, query: str, causes: dict[str, str]) -> None:
    """They are looked at before the pod."""
    status, answer = exchange(server, "GET", f"{PODS}/none/log?{query}")
    assert (status, answer["details"]["kind"]) == (422, "PodLogOptions")
    assert {cause["field"]: cause["message"] for cause in answer["details"]["causes"]} == causes
