"""The requests of a pod, and the text of a condition made of the answers of plugins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.objects import container, pod, pod_obj
from understudy.controlplane.scheduler.framework.pods import Counted, HostPort, PodInfo
from understudy.controlplane.scheduler.framework.status import Diagnosis, Status, unresolvable, unschedulable
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

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


def _state(granted: str = "", has: str = "") -> dict[str, Any]:
    """Return the status of a container, or of a pod as a whole."""
    state: dict[str, Any] = {"name": "c"} | ({"allocatedResources": {"cpu": granted}} if granted else {})
    return state | ({"resources": {"requests": {"cpu": has}}} if has else {})


def _counted(obj: Obj, release: str) -> PodInfo:
    """Return a pod as a release counts it."""
    version = Version.parse(release)
    return PodInfo(obj, Counted.of(version, Gates.of(version)))


INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "reason": "Deferred"}]


@pytest.mark.parametrize(
    ("state", "conditions", "before", "taken"),
    [
        (_state(), (), 2000, 2000),
        (_state("1", "1"), (), 2000, 2000),
        (_state("1", "1"), DEFERRED, 2000, 2000),
        (_state("1", "1"), INFEASIBLE, 1000, 1000),
        (_state("1", "3"), INFEASIBLE, 3000, 3000),
        (_state("3", "1"), (), 3000, 3000),
        (_state("1", "3"), (), 3000, 3000),
        (_state("3"), (), 2000, 3000),
        (_state("1"), INFEASIBLE, 2000, 1000),
        (_state(), INFEASIBLE, 2000, 0),
    ],
)
def test_pods_that_are_resized(state: dict[str, Any], conditions: Any, before: int, taken: int) -> None:
    """The most counts of what a container asks for, was granted and has; what it cannot be granted does not count.

    Before 1.37 a container counts by what it asks for until its status has its resources. A pod that is to be scheduled
    counts by what it asks for.
    """
    status = {"containerStatuses": [state], "conditions": list(conditions)}
    obj = pod_obj(containers=[container(cpu="2")], status=status)
    for release, cpu in (("1.32", 2000), ("1.33", before), ("1.36", before), ("1.37", taken)):
        info = _counted(obj, release)
        assert (info.requests["cpu"], info.taken.get("cpu", 0)) == (2000, cpu), release


@pytest.mark.parametrize(
    ("granted", "has", "taken"), [("", "", 4000), ("1", "5", 5000), ("6", "1", 6000), ("1", "1", 4000)]
)
def test_pods_that_are_resized_as_a_whole(granted: str, has: str, taken: int) -> None:
    """Requests of a pod as a whole are compared with those that it was granted and has, since 1.36 by default."""
    whole = {"requests": {"cpu": "4"}}
    obj = pod_obj(containers=[container(cpu="2")], status=_state(granted, has), resources=whole)
    for release in ("1.35", "1.36", "1.37"):
        assert _counted(obj, release).taken["cpu"] == (4000 if release == "1.35" else taken), release


def test_containers_are_compared_together() -> None:
    """Since 1.37 the sums of all containers are compared: one that grows may take what another gives."""
    first, second = {**container(cpu="3"), "name": "a"}, {**container(cpu="1"), "name": "b"}
    states = [{**_state("2", "2"), "name": "a"}, {**_state("2", "2"), "name": "b"}]
    obj = pod_obj(containers=[first, second], status={"containerStatuses": states})
    for release, taken in (("1.36", 5000), ("1.37", 4000)):
        assert _counted(obj, release).taken["cpu"] == taken


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
