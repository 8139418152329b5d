"""Stories about devices that use cpu, memory and huge pages of their node, for two schedulers.

They need the feature gates DRANodeAllocatableResources, GenericWorkload and DRAWorkloadResourceClaims, and are told as
those of `scheduler_stories`.
"""

from __future__ import annotations

from typing import Any

from scripts.compare.cases.group_stories import group, member
from scripts.compare.cases.scheduler_stories import DRIVER, Change, Maker, Obj, Step, Story, device_condition
from understudy.controlplane.client.resources import NODES, PODS, resource_claims, resource_slices

CPUS = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
HOST_MEMORY = {"memory": {"overhead": {"perPod": "1Gi", "perContainer": "512Mi"}}}


def node(m: Maker, name: str = "n1", **allocatable: str) -> list[Change]:
    """Return a node whose kubelet knows of such devices. It has 4 CPUs and 8 GiB of memory."""
    create, patch = m.node(name, allocatable={key.replace("_", "-"): value for key, value in allocatable.items()})
    create.body["status"]["declaredFeatures"] = ["DRANodeAllocatableResources"]
    return [create, patch]


def devices(m: Maker, *uses: Obj, pool: str = "n1", **more: Any) -> Change:
    """Return the slice of a node with one device for each of `uses`: what it uses of the node."""
    made = m.slice(pool)
    made.body["spec"]["devices"] = [
        m.device(f"dev-{i}", i, nodeAllocatableResources=used, **more) for i, used in enumerate(uses)
    ]
    return made


def container(name: str, *claims: str, requests: Obj | None = None, limits: Obj | None = None, **more: Any) -> Obj:
    """Return a container that uses claims."""
    resources = {"claims": [{"name": claim} for claim in claims], "requests": requests or {}, "limits": limits or {}}
    return {"name": name, "image": "example.com/c", "resources": resources, **more}


def host_memory(m: Maker) -> list[Step]:
    """A device needs memory of the host for its pod, and for each container that uses it."""
    both = [container("a", "c", requests={"memory": "2Gi"}), container("b", "c"), container("none")]
    return [
        [*node(m), devices(m, HOST_MEMORY, HOST_MEMORY), m.device_class()],
        [m.claim("c"), m.pod("p", "c", containers=both, initContainers=[container("i", "c")])],
        [m.pod("large", requests={"memory": "4Gi"})],
        [m.claim("d"), m.pod("second", "d", requests={"memory": "3Gi"})],
        [Change("delete", PODS, "p")],
    ]


def cores(m: Maker) -> list[Step]:
    """Devices are sets of cores: those of one pod are not there for others."""
    return [
        [*node(m), devices(m, CPUS, CPUS), m.device_class()],
        [m.claim("both", count=2), m.pod("p", "both", requests={"cpu": "10m"})],
        [m.claim("c"), m.pod("q", "c", requests={"cpu": "1"}), m.pod("plain", requests={"cpu": "3"})],
        [Change("delete", PODS, "q"), m.pod("small", requests={"cpu": "1500m"})],
        [Change("patch", NODES, "n1", {"status": {"allocatable": {"cpu": "8"}}}, "status")],
    ]


def part_of_capacity(m: Maker) -> list[Step]:
    """A device gives away its capacity in parts; each stands for so much memory, and for some cpu."""
    capacity = {
        "memory": {"value": "6Gi", "requestPolicy": {"default": "1Gi"}},
        "cores": {"value": "8", "requestPolicy": {"default": "1"}},
        "unasked": {"value": "1"},
    }
    uses = {
        "memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1"}},
        "cpu": {
            "mapping": {"capacityKey": "cores", "capacityMultiplier": "0.25"},
            "overhead": {"perPod": "100m", "perContainer": "0"},
        },
    }

    def claim(name: str, **asked: str) -> Change:
        return m.claim(name, capacity={"requests": asked}) if asked else m.claim(name)

    return [
        [*node(m), devices(m, uses, capacity=capacity, allowMultipleAllocations=True), m.device_class()],
        [claim("default"), m.pod("default", "default", requests={"memory": "1Gi"})],
        [claim("more", memory="3Gi", cores="3"), m.pod("more", "more", requests={"memory": "1Gi"})],
        [claim("most", memory="2Gi"), m.pod("most", "most", requests={"memory": "1Gi"})],
    ]


def not_shared(m: Maker) -> list[Step]:
    """A claim with a device that stands for cores is for one pod; another one gets it when that is gone."""
    freed = {"status": {"reservedFor": None}}
    return [
        [*node(m), devices(m, CPUS), m.device_class()],
        [m.claim("c"), m.pod("p", "c")],
        [m.pod("q", "c")],
        [Change("delete", PODS, "p"), Change("patch", m.claims, "c", freed, "status")],
    ]


def shared(m: Maker) -> list[Step]:
    """A claim with a device that only needs memory is shared: each pod has the need."""
    return [
        [*node(m), devices(m, HOST_MEMORY), m.device_class()],
        [m.claim("c"), m.pod("p", "c", requests={"memory": "2Gi"})],
        [m.pod("q", "c", requests={"memory": "2Gi"})],
        [m.pod("r", "c", requests={"memory": "1Gi"})],
    ]


def pod_level(m: Maker) -> list[Step]:
    """Requests and limits of pods as a whole have to leave room for what devices use.

    Each pod has one that is too small: of several kube-scheduler names any.
    """
    uses = {**HOST_MEMORY, "cpu": {"overhead": {"perPod": "500m"}}, "hugepages-2Mi": {"overhead": {"perPod": "4Mi"}}}
    pages = {"hugepages-2Mi": "4Mi", "memory": "1Gi", "cpu": "1"}
    small = {"hugepages-2Mi": "4Mi", "memory": "4Gi", "cpu": "2"}
    enough = {"hugepages-2Mi": "8Mi", "memory": "4Gi", "cpu": "2"}

    def pod(name: str, whole: Obj, of_container: Obj) -> list[Change]:
        return [m.claim(name), m.pod(name, name, containers=[container("c", name, **of_container)], resources=whole)]

    one = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    return [
        [*node(m, hugepages_2Mi="64Mi"), devices(m, *[uses] * 6), m.device_class()],
        pod("request", {"requests": {"memory": "2Gi"}}, one),
        pod("limit", {"requests": {"memory": "3Gi"}, "limits": {"memory": "2Gi"}} | {"requests": {"cpu": "1"}}, one),
        pod("pages", {"requests": small, "limits": small}, {"requests": pages, "limits": pages}),
        pod("fits", {"requests": enough, "limits": enough}, {"requests": pages, "limits": pages}),
        [m.pod("rest", requests={"memory": "5Gi"})],
        [m.pod("less", requests={"memory": "4Gi", "cpu": "2"})],
    ]


def grown_node(m: Maker) -> list[Step]:
    """A node is too small for a pod with its devices, and grows."""
    larger = {"status": {"allocatable": {"cpu": "6"}}}
    return [
        [*node(m), devices(m, CPUS), m.device_class()],
        [m.claim("c"), m.pod("p", "c", requests={"cpu": "3"})],
        [Change("patch", NODES, "n1", larger, "status")],
    ]


def unknown_amount(m: Maker) -> list[Step]:
    """A device stands for a part of its capacity, which it does not give away in parts."""
    uses = {"memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1"}}}
    capacity = {"memory": {"value": "6Gi"}}
    return [
        [*node(m), devices(m, uses, capacity=capacity), m.device_class()],
        [m.claim("c"), m.pod("p", "c")],
    ]


def lost_device(m: Maker) -> list[Step]:
    """One of the devices of a claim is not in its slice any more."""
    return [
        [*node(m), devices(m, HOST_MEMORY, HOST_MEMORY), m.device_class()],
        [m.claim("c", count=2), m.pod("p", "c")],
        [Change("delete", resource_slices(m.release), "slice-n1")],
        [devices(m, HOST_MEMORY)],
        [m.pod("q", "c")],
    ]


def chosen_nodes(m: Maker) -> list[Step]:
    """Each device says which nodes it is for; a claim with devices of one node is asked for on another one."""
    selector = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}
        ]
    }
    made = devices(m, CPUS, CPUS, pool="both")
    del made.body["spec"]["nodeName"]
    made.body["spec"]["perDeviceNodeSelection"] = True
    for device, place in zip(
        made.body["spec"]["devices"], ({"nodeName": "n1"}, {"nodeSelector": selector}), strict=True
    ):
        device.update(place)
    return [
        [*node(m), *node(m, "n2"), made, m.device_class()],
        [m.claim("c"), m.pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"}, requests={"cpu": "1"})],
        [m.pod("q", "c", nodeSelector={"kubernetes.io/hostname": "n1"})],
        [m.claim("d"), m.pod("r", "d", requests={"cpu": "3"})],
    ]


def cleared_status(m: Maker) -> list[Step]:
    """A device cannot be attached: what it would have used is removed from the status of the pod."""
    needed: Obj = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/failed"]}
    gone = {"metadata": {"finalizers": None}}
    return [
        [*node(m), devices(m, HOST_MEMORY, **needed), m.device_class()],
        [m.claim("c"), m.pod("p", "c")],
        [Change("delete", resource_slices(m.release), "slice-n1"), device_condition(m, "failed")],
        [Change("patch", m.claims, "c", gone), m.pod("other", requests={"memory": "7Gi"})],
    ]


def group_with_cores(m: Maker) -> list[Step]:
    """The pods of a gang cannot share a claim that stands for cores; two claims are enough for two pods."""
    return [
        [*node(m), devices(m, CPUS, CPUS), m.device_class()],
        [m.claim("c"), m.claim("d"), group(m, 2), member(m, "a", "c", requests={"cpu": "1"})],
        [member(m, "b", "d", requests={"cpu": "1"})],
        node(m, "n2"),
        [Change("delete", PODS, "b"), member(m, "e", requests={"cpu": "1"})],
    ]


def group_that_shares(m: Maker) -> list[Step]:
    """Two pods of a gang have the same claim, which stands for cores."""
    return [
        [*node(m), devices(m, CPUS, CPUS), m.device_class()],
        [m.claim("c"), group(m, 2, "c"), member(m, "a", "c")],
        [member(m, "b", "c")],
    ]


def resource_of_class(m: Maker) -> list[Step]:
    """A class provides an extended resource by devices that need memory of the host."""
    name = "example.com/widget"
    return [
        [*node(m), devices(m, HOST_MEMORY), m.device_class(extendedResourceName=name)],
        [m.pod("p", requests={name: "1"})],
    ]


def used_twice(m: Maker) -> list[Step]:
    """A claim has two requests, and a container uses them one by one."""
    requests = [{"name": each, "exactly": {"deviceClassName": "gpu"}} for each in ("g", "h")]
    used = container("c")
    used["resources"]["claims"] = [{"name": "c", "request": "g"}, {"name": "c", "request": "h"}]
    return [
        [*node(m), devices(m, HOST_MEMORY, CPUS), m.device_class()],
        [m.claim_of(requests, "c"), m.pod("p", "c", containers=[used])],
    ]


def allocated_before(m: Maker) -> list[Step]:
    """A claim has a device already, which nobody has reserved."""
    result = {"request": "g", "driver": DRIVER, "pool": "n1", "device": "dev-0"}
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    return [
        [*node(m), *node(m, "n2"), devices(m, CPUS), m.device_class()],
        [
            m.claim("c", metadata={"finalizers": ["resource.kubernetes.io/delete-protection"]}),
            Change("patch", resource_claims(m.release), "c", {"status": {"allocation": allocation}}, "status"),
        ],
        [m.pod("p", "c", requests={"cpu": "1"})],
        [m.pod("q", requests={"cpu": "2"}, nodeSelector={"kubernetes.io/hostname": "n1"})],
    ]


STORIES: list[Story] = [
    *(host_memory, cores, part_of_capacity, not_shared, shared, pod_level, grown_node, unknown_amount, lost_device),
    *(chosen_nodes, cleared_status, group_with_cores, group_that_shares, resource_of_class, used_twice),
    allocated_before,
]
