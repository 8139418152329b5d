"""Extended resources that devices provide: the claim that the scheduler makes for them."""

from __future__ import annotations

import pytest

from tests.controlplane.scheduler.objects import container, device_class, node, pod
from tests.controlplane.scheduler.test_cycle import Cluster
from understudy.controlplane.scheduler.cycle import Failure, Placement
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind
from understudy.controlplane.scheduler.framework.plugin import CycleState
from understudy.controlplane.scheduler.plugins.dynamicresources import dynamic_resources
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import (
    demand_of,
    is_claim_of,
    new_claim,
)
from understudy.controlplane.scheduler.plugins.node_resources import Fit
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, V1_36
from understudy.machinery.types import Obj

WIDGET, GADGET = "example.com/widget", "example.com/gadget"


def using(name: str, *, restart: str = "", **amounts: str) -> Obj:
    """Return a container that uses extended resources."""
    requests = {"widget": WIDGET, "gadget": GADGET}
    fields = {"restartPolicy": restart} if restart else {}
    return {**container(**{requests.get(key, key): amount for key, amount in amounts.items()}), "name": name, **fields}


def summary(containers: list[Obj], init: list[Obj]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the count of each request, and the requests of each container."""
    demand = demand_of(
        pod(containers=containers, initContainers=init), [GADGET, WIDGET], lambda name: f"class of {name}"
    )
    counts = {request["name"]: request["exactly"]["count"] for request in demand.requests}
    used: dict[str, list[str]] = {}
    for mapping in demand.mappings:
        used.setdefault(mapping["containerName"], []).append(mapping["requestName"])
    return counts, used


J = using("j", widget="5")
A, B = using("a", cpu="1", widget="2"), using("b", gadget="1", widget="1")


@pytest.mark.parametrize(
    ("containers", "init", "counts", "used"),
    [
        ([A], [], {"container-0-request-1": 2}, {"a": ["container-0-request-1"]}),
        ([A, B], [], {"container-0-request-1": 2, "container-1-request-0": 1, "container-1-request-1": 1},
         {"a": ["container-0-request-1"], "b": ["container-1-request-0", "container-1-request-1"]}),
        ([A], [using("i", widget="1")], {"container-1-request-1": 2},
         {"a": ["container-1-request-1"], "i": ["container-1-request-1"]}),
        ([A], [using("i", widget="5")], {"container-0-request-0": 3, "container-1-request-1": 2},
         {"a": ["container-1-request-1"], "i": ["container-1-request-1", "container-0-request-0"]}),
        ([A], [using("i", widget="4"), J], {"container-1-request-0": 3, "container-2-request-1": 2},
         {"a": ["container-2-request-1"], "i": ["container-2-request-1", "container-1-request-0"],
          "j": ["container-2-request-1", "container-1-request-0"]}),
        ([A], [using("s", widget="1", restart="Always"), using("i", widget="3")],
         {"container-0-request-0": 1, "container-1-request-0": 1, "container-2-request-1": 2},
         {"s": ["container-0-request-0"], "a": ["container-2-request-1"],
          "i": ["container-2-request-1", "container-1-request-0"]}),
        ([using("a", cpu="1")], [], {}, {}),
    ],
    ids=["one", "two", "init reuses", "init lacks", "inits share", "sidecar keeps its own", "none"],
)  # fmt: skip
def test_requests_of_containers(
    containers: list[Obj], init: list[Obj], counts: dict[str, int], used: dict[str, list[str]]
) -> None:
    """Requests are named by the places of container and resource; init containers use the devices of later ones."""
    assert summary(containers, init) == (counts, used)


def provider(name: str, since: str, resource: str = WIDGET) -> Obj:
    obj = device_class(name, extendedResourceName=resource)
    return {**obj, "metadata": {"name": name, "creationTimestamp": since}}


def test_newest_class_provides_a_resource() -> None:
    """The newest of several classes provides a resource, then the first by name; a class is its own resource, too."""
    devices = Devices(V1_36, Gates.of(V1_36))
    for name, since in (("a", "2025-01-01T00:00:00Z"), ("z", "2025-01-02T00:00:00Z"), ("y", "2025-01-02T00:00:00Z")):
        devices.put_class(provider(name, since))
    assert devices.class_of(WIDGET) == "y"
    assert devices.class_of("deviceclass.resource.kubernetes.io/a") == "a"
    assert devices.class_of("deviceclass.resource.kubernetes.io/none") is None
    assert devices.class_of(GADGET) is None
    assert devices.class_of("cpu") is None


def test_gate_decides() -> None:
    """Without DRAExtendedResource no class provides anything."""
    devices = Devices(V1_34, Gates.of(V1_34))
    devices.put_class(provider("a", "2025-01-01T00:00:00Z"))
    assert devices.class_of(WIDGET) is None


def cluster() -> Cluster:
    """Return a cluster of one node with two devices, which provide widgets."""
    made = Cluster(devices=2, classes=())
    made.devices.put_class(provider("gpu", "2025-01-01T00:00:00Z"))
    return made


def test_pod_gets_devices_for_a_resource() -> None:
    """The claim in memory gets devices of the node, and others do not get them."""
    it = cluster()
    placement = it.scheduler.schedule(pod("p", containers=[using("a", widget="2")]))
    assert isinstance(placement, Placement)
    (allocation,) = placement.state.data[dynamic_resources.NAME].allocations.values()
    assert [result["device"] for result in allocation["devices"]["results"]] == ["dev-0", "dev-1"]
    failure = it.scheduler.schedule(pod("q", containers=[using("a", widget="1")]))
    assert isinstance(failure, Failure)
    assert failure.message.startswith("0/1 nodes are available: 1 cannot allocate all claims. still not schedulable")
    it.scheduler.give_back(placement)
    assert it.place(pod("q", containers=[using("a", widget="1")])) == "n"


def test_node_that_has_a_resource_itself_needs_no_devices() -> None:
    """A resource that a device plugin offers on the node is taken before devices."""
    it = cluster()
    it.cache.set_node(node(name="n", allocatable={WIDGET: "1"}).obj)
    placement = it.scheduler.schedule(pod("p", containers=[using("a", widget="1")]))
    assert isinstance(placement, Placement)
    assert placement.state.data[dynamic_resources.NAME].allocations == {}


def test_claim_that_was_left_is_deleted() -> None:
    """A claim of an attempt that failed after it was written is not used again."""
    it = cluster()
    info = pod("p", containers=[using("a", widget="1")])
    made = new_claim(info)
    left = {**made, "metadata": {**made["metadata"], "name": "p-extended-resources-x", "resourceVersion": "1"}}
    assert is_claim_of(left, info)
    assert not is_claim_of(left, pod("q"))
    it.claims.put(left)
    failure = it.failure(info)
    text = "1 cannot schedule extended resource claim. deletion of ResourceClaim completed"
    assert failure.message.startswith(f"0/1 nodes are available: {text}")
    assert failure.state.data[dynamic_resources.NAME].delete == left


def test_room_is_not_asked_for_what_devices_provide() -> None:
    """A new class may help a pod that requests its resource."""
    fit = Fit(V1_36, lambda name: "gpu" if name == WIDGET else None)
    info = pod(containers=[using("a", widget="1")])
    assert fit.filter(CycleState(), info, node()) is None
    assert fit.filter(CycleState(), info, node(allocatable={WIDGET: "0"})) is None
    status = fit.filter(CycleState(), pod(containers=[using("a", widget="2")]), node(allocatable={WIDGET: "1"}))
    assert status is not None
    assert status.message == f"Insufficient {WIDGET}"
    event = ClusterEvent(Kind.CLASS, Action.ADD, None, device_class())
    assert fit.is_schedulable_after(info, event)
    assert not fit.is_schedulable_after(pod(containers=[using("a", gadget="1")]), event)
