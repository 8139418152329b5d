"""Devices that use resources of their node, in memory, with kube-scheduler's numbers and words.

`python -m scripts.compare schedulers --about node-allocatable` tells the same stories to kube-scheduler.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.scheduler.cluster import Cluster
from tests.controlplane.scheduler.objects import allocated, claim, node_obj, pod, pod_obj, resource_slice
from understudy.controlplane.scheduler.cycle import Failure, Placement
from understudy.controlplane.scheduler.framework.events import Action, Kind, Trigger
from understudy.controlplane.scheduler.framework.pods import Counted, PodInfo
from understudy.controlplane.scheduler.plugins.dynamicresources.dynamic_resources import TRIGGERS
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, V1_36, V1_37
from understudy.machinery.types import Obj

COUNTED = Counted(pod_level=True, claims=True)
CORES = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
HOST_MEMORY = {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "512Mi"}}}
SHARED_PART = {"memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "0.5"}}}


def container(name: str = "a", *claims: str, limits: Obj | None = None, **requests: str) -> Obj:
    """Return a container that uses claims."""
    resources = {"claims": [{"name": claim} for claim in claims], "requests": requests, "limits": limits or {}}
    return {"name": name, "resources": resources}


def user(name: str, *claims: str, **spec: Any) -> PodInfo:
    """Return a pod that uses claims, by default in one container."""
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return PodInfo(
        pod_obj(name, **{"containers": [container("a", *claims)], "resourceClaims": entries, **spec}), COUNTED
    )


def cluster(*uses: Obj, **more: Any) -> Cluster:
    """Return a node with 4 CPUs and 8 GiB of memory, and a device for each of `uses`."""
    made = Cluster()
    made.cache.set_node(node_obj(allocatable={"hugepages-2Mi": "64Mi"}))
    slice_ = resource_slice()
    slice_["spec"]["devices"] = [
        {"name": f"dev-{i}", "nodeAllocatableResources": used, **more} for i, used in enumerate(uses)
    ]
    made.devices.put_slice(slice_)
    for name in ("c", "d"):
        made.claims.put(claim(name))
    return made


def placed(outcome: Placement | Failure) -> list[Obj]:
    """Return the statuses of the claims of a pod that gets a node."""
    assert isinstance(outcome, Placement), outcome
    statuses: list[Obj] = outcome.state.pod_status.get("nodeAllocatableResourceClaimStatuses", [])
    return statuses


def refused(outcome: Placement | Failure) -> str:
    """Return the reason that a pod gets no node."""
    assert isinstance(outcome, Failure)
    return outcome.message.removeprefix("0/1 nodes are available: ").partition(" preemption: ")[0]


def test_overhead_counts_for_the_pod_and_for_each_container() -> None:
    """Init containers count as well, and containers that do not use the claim do not."""
    it = cluster(HOST_MEMORY, HOST_MEMORY)
    containers = [container("a", "c", memory="2Gi"), container("b", "c"), container("none")]
    statuses = placed(
        it.scheduler.schedule(user("p", "c", containers=containers, initContainers=[container("i", "c")]))
    )
    overhead = [{"name": "memory", "perPod": "1Gi", "perContainer": "512Mi"}]
    assert statuses == [{"resourceClaimName": "c", "containers": ["i", "a", "b"], "overhead": overhead}]
    assert it.cache.nodes["n"].requested == {"memory": (2048 + 1024 + 3 * 512) * 2**20}
    assert refused(it.scheduler.schedule(user("q", "d", containers=[container("a", "d", memory="3Gi")]))) == (
        "1 Insufficient memory."
    )
    assert placed(it.scheduler.schedule(user("r", "d", containers=[container("a", "d", memory="2Gi")])))


def test_devices_that_are_cores() -> None:
    """The cores of all devices of a claim are one amount, which is taken from the node."""
    it = cluster(CORES, CORES)
    both = claim("both")
    both["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    it.claims.put(both)
    too_much = user("p", "both", containers=[container("a", "both", cpu="10m")])
    assert refused(it.scheduler.schedule(too_much)) == "1 Insufficient cpu."
    first = it.scheduler.schedule(user("p", "both"))
    mapping = [{"name": "cpu", "quantity": "4"}]
    assert placed(first) == [{"resourceClaimName": "both", "containers": ["a"], "mapping": mapping}]
    assert it.cache.nodes["n"].requested == {"cpu": 4000}
    assert refused(it.scheduler.schedule(user("q", containers=[container("a", cpu="1m")]))) == "1 Insufficient cpu."
    assert isinstance(first, Placement)
    it.scheduler.give_back(first)
    assert it.cache.nodes["n"].requested == {"cpu": 0}


@pytest.mark.parametrize(
    ("uses", "consumed", "amount"),
    [
        (SHARED_PART, {"memory": "3Gi"}, "1536Mi"),
        (SHARED_PART, {"memory": "1"}, "500m"),
        ({"cpu": {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}}}, {"cores": "3"}, "3"),
        (SHARED_PART, {"other": "3Gi"}, None),
    ],
)
def test_parts_of_a_capacity(uses: Obj, consumed: Obj, amount: str | None) -> None:
    """The part of a capacity that a claim consumes is multiplied; without that capacity the device uses nothing."""
    it = cluster(uses)
    status = allocated("dev-0")
    status["allocation"]["devices"]["results"][0]["consumedCapacity"] = consumed
    it.claims.put(claim("c", status=status, version=2))
    statuses = placed(it.scheduler.schedule(user("p", "c")))
    assert [each["quantity"] for status in statuses for each in status["mapping"]] == ([amount] if amount else [])


def test_unknown_part_of_a_capacity() -> None:
    """A device that is not given away in parts cannot stand for a part of its capacity."""
    it = cluster(SHARED_PART)
    assert refused(it.scheduler.schedule(user("p", "c"))) == (
        'running "DynamicResources" filter plugin: claim default/c, device dev-0: ConsumedCapacity is nil, but '
        "Capacity key 'memory' is set in NodeAllocatableResources for resource memory"
    )


def test_lost_device() -> None:
    """A claim has a device that uses the node, and one that is not there any more."""
    it = cluster(HOST_MEMORY)
    status = allocated("dev-0")
    results = status["allocation"]["devices"]["results"]
    results.append({**results[0], "device": "gone"})
    it.claims.put(claim("c", status=status, version=2))
    assert refused(it.scheduler.schedule(user("p", "c"))) == (
        'running "DynamicResources" filter plugin: claim default/c, device gone, driver d.example: '
        "device gone not found in pool n for driver d.example"
    )


@pytest.mark.parametrize("per_device", [True, False])
def test_devices_of_other_nodes(per_device: bool) -> None:
    """A device that is not for the node uses nothing of it, be it the slice or the device that says its node."""
    it = cluster()
    it.claims.put(claim("c", status=allocated("dev-0"), version=2))
    for place, uses in (("elsewhere", False), ("n", True)):
        slice_ = resource_slice(place)
        slice_["metadata"]["name"], slice_["spec"]["pool"]["name"] = "s", "n"
        slice_["spec"]["devices"] = [{"name": "dev-0", "nodeAllocatableResources": CORES}]
        if per_device:
            slice_["spec"]["perDeviceNodeSelection"] = True
            slice_["spec"]["devices"][0]["nodeName"] = slice_["spec"].pop("nodeName")
        it.devices.put_slice(slice_)
        it.devices.remove_slice(resource_slice())
        assert bool(placed(it.scheduler.schedule(user(f"on-{place}", "c")))) is uses


@pytest.mark.parametrize(
    ("uses", "said"),
    [
        (CORES, "1 node allocatable resource claim c has a mapped device and cannot be shared across pods."),
        (HOST_MEMORY, None),
    ],
)
def test_only_claims_without_cores_are_shared(uses: Obj, said: str | None) -> None:
    """A device that stands for resources is for one pod; need of resources counts for each pod of a claim."""
    it = cluster(uses)
    reserved = [{"resource": "pods", "name": "first", "uid": "first"}]
    it.claims.put(claim("c", status={**allocated("dev-0"), "reservedFor": reserved}, version=2))
    second = it.scheduler.schedule(user("second", "c"))
    assert (refused(second) if said else isinstance(second, Placement)) == (said or True)
    assert placed(it.scheduler.schedule(user("first", "c")))


def test_pods_of_a_gang_do_not_share_cores() -> None:
    """The second pod finds the claim in the hands of the first."""
    it = cluster(CORES)
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    metadata = {"namespace": "default", "name": "g", "uid": "g", "resourceVersion": "1"}
    members = [user(name, "c", schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    outcome = it.schedule({"metadata": metadata, "spec": policy}, *members)
    said = "1 node allocatable resource claim c has a mapped device and cannot be shared across pods."
    assert refused(outcome.failures[1]) == said
    assert it.cache.nodes["n"].requested == {"cpu": 0}


USES = {**HOST_MEMORY, "cpu": {"overhead": {"perPod": "500m"}}, "hugepages-2Mi": {"overhead": {"perPod": "4Mi"}}}
PAGES = {"hugepages-2Mi": "4Mi", "memory": "1Gi", "cpu": "1"}
ENOUGH = {"hugepages-2Mi": "8Mi", "memory": "4Gi", "cpu": "2"}


@pytest.mark.parametrize(
    ("whole", "of_container", "said"),
    [
        (
            {"requests": {"memory": "2Gi"}},
            {"memory": "1Gi"},
            "1 pod level request for memory is insufficient to cover the aggregated container and node-allocatable DRA "
            "requests.",
        ),
        (
            {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
            {"memory": "1Gi"},
            "1 pod level limit for memory is insufficient to cover the limit and DRA overhead for container a.",
        ),
        (
            {"limits": PAGES},
            PAGES,
            "1 pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and "
            "node-allocatable DRA limits.",
        ),
        ({"requests": ENOUGH, "limits": ENOUGH}, PAGES, None),
    ],
)
def test_pods_with_resources_as_a_whole(whole: Obj, of_container: Obj, said: str | None) -> None:
    """These have to cover what devices use, and count instead of it."""
    it = cluster(USES)
    containers = [container("a", "c", limits=of_container, **of_container)]
    outcome = it.scheduler.schedule(user("p", "c", containers=containers, resources=whole))
    if said:
        assert refused(outcome) == said
    else:
        assert placed(outcome)
        assert it.cache.nodes["n"].requested == {"cpu": 2000, "memory": 4 * 2**30, "hugepages-2Mi": 8 * 2**20}


def test_overhead_of_huge_pages_and_too_small_nodes() -> None:
    """All that is lacking is said; a node that would be too small without any pod is left alone by preemption."""
    it = cluster({"hugepages-2Mi": {"overhead": {"perPod": "65Mi"}}, "cpu": {"overhead": {"perPod": "5"}}})
    outcome = it.scheduler.schedule(user("p", "c"))
    assert refused(outcome) == "1 Insufficient cpu, 1 Insufficient hugepages-2Mi."
    assert isinstance(outcome, Failure)
    assert "1 Preemption is not helpful for scheduling" in outcome.message


def test_gate_and_release() -> None:
    """The use of devices counts with the gate in 1.37; 1.36 has other fields for it."""
    gate = {"DRANodeAllocatableResources": True}
    counts = [Counted.of(version, Gates.of(version, on)).claims for version, on in ((V1_37, gate), (V1_37, {}))]
    assert [*counts, Counted.of(V1_36, Gates.of(V1_36, gate)).claims] == [True, False, False]
    status = [{"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "1"}]}]
    assert pod(status={"nodeAllocatableResourceClaimStatuses": status}).taken == {}


def test_larger_node_helps_a_pod_with_claims() -> None:
    """From 1.34 on a pod that DynamicResources has turned down is tried again when a node gets larger."""
    grown = Trigger(Kind.NODE, Action.UPDATE_ALLOCATABLE)
    assert [grown in TRIGGERS[version] for version in (V1_33, V1_34, V1_37)] == [False, True, True]
