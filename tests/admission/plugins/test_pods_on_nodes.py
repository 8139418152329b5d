"""Plugins that look at the node of a pod, as 1.36 answered: labels of its zone, and resizes that it cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import Response, send
from understudy import Server
from understudy.machinery.types import Obj

PODS = "/api/v1/namespaces/default/pods"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
MINE = {ZONE: "mine"}
OF_NODE = {ZONE: "z", REGION: "r"}
SIZE = {"cpu": "2", "memory": "2Gi"}

pytestmark = pytest.mark.apiserver(emulated_version="1.36")


@pytest.fixture(autouse=True)
def nodes(apiserver: Server) -> Iterator[None]:
    """Create a node of Linux with a zone, `linux`, and one of Windows."""
    for name, labels in (
        ("linux", {**OF_NODE, "kubernetes.io/os": "linux"}),
        ("windows", {"kubernetes.io/os": "windows"}),
    ):
        status = {"capacity": SIZE, "allocatable": SIZE}
        node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "status": status}
        created(send(apiserver, "POST", "/api/v1/nodes", node))
    yield
    for pod in send(apiserver, "GET", PODS).json()["items"]:
        send(apiserver, "DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
    for name in ("linux", "windows"):
        send(apiserver, "DELETE", f"/api/v1/nodes/{name}")


def created(response: Response) -> Any:
    assert response.status == 201, response.body
    return response.json()


def pod(apiserver: Server, node: str = "") -> Any:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    spec: Obj = {"containers": containers, "initContainers": [{"name": "s", "image": "s"}]}
    spec["initContainers"][0]["resources"] = {"requests": {"cpu": "1"}}
    spec |= {"automountServiceAccountToken": False, "nodeName": node}
    metadata = {"name": "p", "labels": MINE}
    return created(
        send(apiserver, "POST", PODS, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec})
    )


@pytest.mark.parametrize(("node", "labels"), [("linux", OF_NODE), ("windows", MINE), ("gone", MINE), ("", MINE)])
def test_pod_has_labels_of_zone_of_its_node(apiserver: Server, node: str, labels: Obj) -> None:
    """A new pod gets the zone and the region of its node, if the node has them."""
    assert pod(apiserver, node)["metadata"]["labels"] == labels


@pytest.mark.apiserver(emulated_version="1.36", feature_gates={"PodTopologyLabelsAdmission": False})
def test_pod_keeps_labels_without_gate(apiserver: Server) -> None:
    """Without the gate a pod has no labels of its node."""
    assert pod(apiserver, "linux")["metadata"]["labels"] == MINE


def test_pod_gets_labels_of_zone_when_it_is_bound(apiserver: Server) -> None:
    """A pod that is bound gets the zone and the region of its node."""
    pod(apiserver)
    binding = {"kind": "Binding", "apiVersion": "v1", "metadata": {"name": "p"}}
    created(send(apiserver, "POST", f"{PODS}/p/binding", {**binding, "target": {"kind": "Node", "name": "linux"}}))
    assert send(apiserver, "GET", f"{PODS}/p").json()["metadata"]["labels"] == OF_NODE


CAPACITY = (
    "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; "
    "memory, requested: 3221225472, allocatable: 2147483648"
)
FEATURE = 'pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node "linux"'
SYSTEM = 'pod resize is only supported on linux nodes, node "windows" is "windows"'


@pytest.mark.parametrize(
    ("node", "kind", "requests", "why", "causes"),
    [
        ("linux", "containers", {"cpu": "1500m"}, "", None),
        ("linux", "containers", {"cpu": "3", "memory": "3Gi"}, CAPACITY, [{"reason": "NodeCapacity"}]),
        ("linux", "initContainers", {"cpu": "1500m"}, FEATURE, None),
        ("windows", "containers", {"cpu": "1"}, "", None),
        ("windows", "containers", {"cpu": "1500m"}, SYSTEM, [{"reason": "UnsupportedPlatform"}]),
        ("gone", "containers", {"cpu": "1500m"}, 'node "gone" not found', None),
        ("", "containers", {"cpu": "9"}, "", None),
    ],
)
def test_resize_is_refused_that_node_cannot_do(
    apiserver: Server, node: str, kind: str, requests: Obj, why: str, causes: list[Obj] | None
) -> None:
    """A pod is resized only on a known node of Linux that is large enough and has the features for it."""
    changed = pod(apiserver, node)
    changed["spec"][kind][0]["resources"]["requests"] |= requests
    response = send(apiserver, "PUT", f"{PODS}/p/resize?dryRun=All", changed)
    answer = response.json()
    if not why:
        assert response.status == 200, answer
        assert answer["spec"][kind][0]["resources"]["requests"].items() >= requests.items()
    else:
        assert (response.status, answer["message"]) == (403, f'pods "p" is forbidden: {why}')
        assert answer["details"].get("causes") == causes
