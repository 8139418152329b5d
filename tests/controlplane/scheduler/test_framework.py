"""The requests of a pod, and the text of a condition made of the answers of plugins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.objects import container, pod, pod_obj
from understudy.controlplane.scheduler.framework.pods import Counted, HostPort, PodInfo
from understudy.controlplane.scheduler.framework.status import Diagnosis, Status, unresolvable, unschedulable

CPU = unschedulable("Insufficient cpu")
CORDON = unresolvable("node(s) were unschedulable")


@pytest.mark.parametrize(
    ("diagnosis", "text"),
    [
        (Diagnosis({"a": CPU, "b": CORDON, "c": CORDON}), "1 Insufficient cpu, 2 node(s) were unschedulable."),
        (Diagnosis({"a": unschedulable("Too many pods", "Insufficient cpu"), "b": CPU, "c": CPU}),
         "1 Too many pods, 3 Insufficient cpu."),
        (Diagnosis({"a": CPU}, absent=CORDON), "1 Insufficient cpu, 2 node(s) were unschedulable."),
        (Diagnosis({}, absent=CORDON, pre_filter="no claim", post_filter="nothing helps"), "no claim. nothing helps"),
        (Diagnosis({"a": CPU, "b": CPU, "c": CPU}, post_filter="nothing helps"), "3 Insufficient cpu. nothing helps"),
    ],
)  # fmt: skip
def test_reasons_are_counted_and_sorted_as_texts(diagnosis: Diagnosis, text: str) -> None:
    """Each reason is counted over all nodes, those included of which nothing is known; the words of plugins follow."""
    assert diagnosis.message(3) == f"0/3 nodes are available: {text}"


def test_many_nodes_are_sorted_by_their_first_digit() -> None:
    """Counts are sorted as texts, so that 10 comes before 2, as kube-scheduler does it."""
    nodes: dict[str, Status] = {f"m{i}": CORDON for i in range(2)} | {f"n{i}": CPU for i in range(10)}
    expected = "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable."
    assert Diagnosis(nodes).message(12) == expected


SIDECAR = container(cpu="2", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [container(cpu="500m", memory="1Ki"), container(cpu="1")]}, {"cpu": 1500, "memory": 1024}),
        ({"initContainers": [container(cpu="3"), container(cpu="2")]}, {"cpu": 3000}),
        ({"initContainers": [SIDECAR], "containers": [container(cpu="1")]}, {"cpu": 3000}),
        ({"initContainers": [SIDECAR, container(cpu="2")], "containers": [container(cpu="1")]}, {"cpu": 4000}),
        ({"initContainers": [container(cpu="2"), SIDECAR], "containers": [container(cpu="1")]}, {"cpu": 3000}),
        ({"overhead": {"cpu": "100m"}, "containers": [container(cpu="1")]}, {"cpu": 1100}),
        ({"containers": [container(cpu="0", memory="1")]}, {"memory": 1}),
        ({"containers": [container(**{"example.com/gpu": "2"})]}, {"example.com/gpu": 2}),
    ],
)  # fmt: skip
def test_requests_of_pods(spec: dict[str, Any], requests: dict[str, int]) -> None:
    """Containers and sidecars are added, an init container counts with the sidecars before it, the larger need wins."""
    assert pod(**spec).requests == requests


@pytest.mark.parametrize(("pod_level", "cpu"), [(True, 2000), (False, 500)])
def test_requests_of_the_pod_as_a_whole_replace_those_of_containers(pod_level: bool, cpu: int) -> None:
    """With PodLevelResources, requests of the pod count instead of the sum of its containers."""
    obj = pod_obj(containers=[container(cpu="500m")], resources={"requests": {"cpu": "2", "example.com/gpu": "1"}})
    assert PodInfo(obj, Counted(pod_level=pod_level)).requests == {"cpu": cpu}


@pytest.mark.parametrize(
    ("other", "conflict"),
    [
        (HostPort("0.0.0.0", "TCP", 80), True),
        (HostPort("127.0.0.1", "TCP", 80), True),
        (HostPort("127.0.0.1", "UDP", 80), False),
        (HostPort("127.0.0.1", "TCP", 81), False),
    ],
)
def test_every_address_includes_each_address(other: HostPort, conflict: bool) -> None:
    """A port on all addresses conflicts with the same port on any of them."""
    assert HostPort("0.0.0.0", "TCP", 80).conflicts_with(other) is conflict
    assert other.conflicts_with(HostPort("0.0.0.0", "TCP", 80)) is conflict
    assert not HostPort("10.0.0.1", "TCP", 80).conflicts_with(HostPort("127.0.0.1", "TCP", 80))
