"""Stories about pods for two schedulers: objects that are created, changed and deleted, step by step.

Each step ends when the scheduler has nothing more to do. The stories have few nodes that differ, so that there is one
right answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from understudy.controlplane.client.resources import (
    NODES,
    PODS,
    Resource,
    device_classes,
    resource_claims,
    resource_slices,
)
from understudy.machinery.releases.version import V1_32, V1_33, V1_34, V1_36, Version

Obj = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A request: `create` an object with its status, `patch` an object or its status, or `delete` one."""

    verb: str
    resource: Resource
    name: str
    body: Obj = field(default_factory=dict)
    subresource: str = ""


Step = list[Change]
PRIORITIES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
DRIVER = "dra.example.com"
FIT = {"cpu": "4", "memory": "8Gi", "pods": "10", "ephemeral-storage": "100Gi"}


@dataclass(frozen=True)
class Maker:
    """Makes the objects of a release."""

    release: Version

    @property
    def claims(self) -> Resource:
        """Return the resource of claims."""
        return resource_claims(self.release)

    def node(self, name: str, taints: list[Obj] | None = None, **more: Any) -> list[Change]:
        """Return a node, without the taint that admission gives it."""
        status = {"allocatable": {**FIT, **more.pop("allocatable", {})}}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}}
        body = {"metadata": metadata, "spec": more, "status": status}
        return [
            Change("create", NODES, name, body),
            Change("patch", NODES, name, {"spec": {"taints": taints}}),
        ]

    def slice(self, node: str, devices: int = 1, count: int = 1, **more: Any) -> Change:
        """Return the slice of a node, in the only pool of it. Every device has an attribute `index`."""
        made = [self.device(f"dev-{i}", i) for i in range(devices)]
        pool = {"name": node, "generation": 1, "resourceSliceCount": count}
        spec = {"nodeName": node, "driver": DRIVER, "pool": pool, "devices": made, **more}
        return Change("create", resource_slices(self.release), f"slice-{node}", {"metadata": {}, "spec": spec})

    def device(self, name: str, index: int, **more: Any) -> Obj:
        """Return a device."""
        content = {"attributes": {"index": {"int": index}}, **more}
        return {"name": name, **content} if self.release >= V1_34 else {"name": name, "basic": content}

    def device_class(self, name: str = "gpu", **spec: Any) -> Change:
        """Return a device class."""
        return Change("create", device_classes(self.release), name, {"metadata": {}, "spec": spec})

    def claim(self, name: str, class_name: str = "gpu", metadata: Obj | None = None, **request: Any) -> Change:
        """Return a claim with one request, `g`."""
        exactly = {"deviceClassName": class_name, **request}
        one = {"name": "g", "exactly": exactly} if self.release >= V1_34 else {"name": "g", **exactly}
        return self.claim_of([one], name, metadata)

    def claim_of(self, requests: list[Obj], name: str, metadata: Obj | None = None) -> Change:
        """Return a claim with requests."""
        spec = {"devices": {"requests": requests}}
        return Change("create", self.claims, name, {"metadata": metadata or {}, "spec": spec})

    def pod(
        self, name: str, *claims: str, requests: Obj | None = None, ports: list[Obj] | None = None, **spec: Any
    ) -> Change:
        """Return a pod that uses claims."""
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        limits = {name: amount for name, amount in (requests or {}).items() if "/" in name}
        container = {
            "name": "c",
            "image": "example.com/c",
            "resources": {
                "requests": requests or {},
                "limits": limits,
                "claims": [{"name": claim} for claim in claims],
            },
            "ports": ports or [],
        }
        metadata = spec.pop("metadata", {})
        body = {"containers": [container], "resourceClaims": entries, **spec}
        return Change("create", PODS, name, {"metadata": metadata, "spec": body})

    def one_node(self, devices: int = 1) -> Step:
        """Return a node with devices, and their class."""
        return [*self.node("n1"), self.slice("n1", devices), self.device_class()]


def no_device(m: Maker) -> list[Step]:
    """Two pods want the only device; the second gets it when the first is gone and its claim is free."""
    freed = {"status": {"allocation": None, "reservedFor": None}}
    return [
        m.one_node(),
        [m.claim("first"), m.pod("first", "first")],
        [m.claim("second"), m.pod("second", "second")],
        [Change("delete", PODS, "first"), Change("patch", m.claims, "first", freed, "status")],
    ]


def no_class(m: Maker) -> list[Step]:
    """The class of a claim comes late."""
    return [
        [*m.node("n1"), m.slice("n1")],
        [m.claim("c"), m.pod("p", "c")],
        [m.device_class()],
    ]


def elsewhere(m: Maker) -> list[Step]:
    """A claim has a device of one node; a second pod that uses it has to go to another node."""
    return [
        [*m.node("n1"), *m.node("n2"), m.slice("n1"), m.device_class()],
        [m.claim("c"), m.pod("p", "c")],
        [m.pod("q", "c", nodeSelector={"kubernetes.io/hostname": "n2"})],
        [m.pod("r", "c")],
    ]


def idle_elsewhere(m: Maker) -> list[Step]:
    """A claim that nobody uses has a device of a full node: it is freed, and gets a device of another node."""
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    result = {"request": "g", "driver": DRIVER, "pool": "n1", "device": "dev-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": selector}
    finalizers = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    return [
        [*m.node("n1"), *m.node("n2"), m.slice("n1"), m.slice("n2"), m.device_class()],
        [m.claim("c"), Change("patch", m.claims, "c", finalizers)],
        [Change("patch", m.claims, "c", {"status": {"allocation": allocation}}, "status")],
        [m.pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"})],
    ]


def cpu(m: Maker) -> list[Step]:
    """A pod is too large for a node; another one is too large for what is left; several things are missing."""
    return [
        m.one_node(2),
        [m.claim("c"), m.pod("p", "c", requests={"cpu": "5"})],
        [m.pod("half", requests={"cpu": "3", "memory": "6Gi"})],
        [m.pod("other", requests={"cpu": "2", "memory": "4Gi"})],
        [
            m.pod(
                "odd",
                requests={"cpu": "9", "example.com/widget": "1"},
            )
        ],
        [Change("delete", PODS, "half")],
    ]


def init_containers(m: Maker) -> list[Step]:
    """The largest need of init containers, sidecars and containers counts, and the overhead."""
    big = {"name": "i", "image": "example.com/i", "resources": {"requests": {"cpu": "4500m"}}}
    side = {"name": "s", "image": "example.com/s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    return [
        m.node("n1"),
        [m.pod("init", initContainers=[big])],
        [m.pod("sidecar", initContainers=[side], requests={"cpu": "2500m"})],
        [m.pod("fits", initContainers=[side], requests={"cpu": "2"})],
    ]


def selector_error(m: Maker) -> list[Step]:
    """The selector of a claim ends with an error."""
    expression = f"device.attributes['{DRIVER}'].missing == 1"
    return [m.one_node(), [m.claim("c", selectors=[{"cel": {"expression": expression}}]), m.pod("p", "c")]]


def incomplete_pool(m: Maker) -> list[Step]:
    """A slice of a pool is missing, and a claim asks for all devices."""
    return [
        [*m.node("n1"), m.slice("n1", count=2), m.device_class()],
        [m.claim("c", allocationMode="All"), m.pod("p", "c")],
    ]


def many_consumers(m: Maker) -> list[Step]:
    """A claim is reserved for as many pods as can be."""
    most = 256 if m.release >= V1_32 else 32
    users = [{"resource": "pods", "name": f"u{i}", "uid": f"uid-{i}"} for i in range(most - 1)]
    return [
        m.one_node(),
        [m.claim("c"), m.pod("p", "c")],
        [Change("reserve", m.claims, "c", {"users": users})],
        [m.pod("q", "c")],
    ]


def missing_claim(m: Maker) -> list[Step]:
    """The claim of a pod comes late, and one is being deleted."""
    held = {"finalizers": ["example.com/held"]}
    return [
        m.one_node(2),
        [m.pod("p", "c"), m.claim("going", metadata=held)],
        [Change("delete", m.claims, "going")],
        [m.pod("q", "going")],
        [m.claim("c")],
        [Change("patch", m.claims, "going", {"metadata": {"finalizers": None}})],
    ]


def template(m: Maker) -> list[Step]:
    """The claim of a pod is made from a template: it is there late, and the status names it later still."""
    entry = {"name": "x", "resourceClaimTemplateName": "t"}
    named = {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "p-x-made"}]}}
    return [
        m.one_node(),
        [m.pod("p", resourceClaims=[entry])],
        [Change("create-owned", m.claims, "p-x-made", {"owner": "p", **m.claim("").body})],
        [Change("patch", PODS, "p", named, "status")],
    ]


def taints(m: Maker) -> list[Step]:
    """Nodes have taints, with and without values; one goes."""
    red, blue = {"key": "red", "value": "v", "effect": "NoSchedule"}, {"key": "blue", "effect": "NoExecute"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    return [
        [*m.node("n1", [soft, red]), *m.node("n2", [blue]), *m.node("n3", unschedulable=True)],
        [m.pod("p")],
        [m.pod("q", tolerations=[{"key": "red", "value": "other"}, {"key": "blue", "operator": "Exists"}])],
        [m.pod("r", tolerations=[{"key": "red", "value": "v", "operator": "Equal"}])],
        [Change("patch", NODES, "n2", {"spec": {"taints": [{"key": "green", "effect": "NoSchedule"}]}})],
        [Change("patch", NODES, "n3", {"spec": {"unschedulable": None}})],
    ]


def selectors(m: Maker) -> list[Step]:
    """Pods choose nodes by labels and by name."""

    def required(*terms: Obj) -> Obj:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}

    def named(*names: str) -> Obj:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]} for n in names]}

    newer = {"matchExpressions": [{"key": "age", "operator": "Lt", "values": ["3"]}]}
    return [
        [*m.node("n1", labels={"zone": "a", "age": "5"}), *m.node("n2", labels={"zone": "b", "age": "2"})],
        [m.pod("none", nodeSelector={"zone": "c"})],
        [m.pod("b", nodeSelector={"zone": "b"})],
        [m.pod("new", affinity=required(newer))],
        [m.pod("named", affinity=required(named("n1")))],
        [m.pod("big", affinity=required(named("n1")), requests={"cpu": "9"})],
        [m.pod("gone", affinity=required(named("n9")))],
        [m.pod("conflict", affinity=required(named("n1", "n2")))],
        [m.pod("empty", affinity=required({}))],
        [Change("patch", NODES, "n1", {"metadata": {"labels": {"zone": "c"}}})],
    ]


def several_nodes(m: Maker) -> list[Step]:
    """Every node has another reason."""
    red = {"key": "red", "value": "v", "effect": "NoSchedule"}
    return [
        [
            *m.node("n1", [red]),
            *m.node("n2", allocatable={"cpu": "1"}),
            *m.node("n3"),
            *m.node("n4"),
            *m.node("n5", allocatable={"pods": "0"}),
            m.slice("n1"),
            m.slice("n2"),
            m.slice("n4"),
            m.device_class(),
        ],
        [m.claim("c", count=2), m.pod("p", "c", requests={"cpu": "2"})],
        [
            Change("create", PRIORITIES, "polite", {"metadata": {}, "value": 7, "preemptionPolicy": "Never"}),
            m.pod("never", "c", requests={"cpu": "2"}, priorityClassName="polite"),
        ],
    ]


def ports(m: Maker) -> list[Step]:
    """Two pods want the same port of a node."""
    taken = [{"containerPort": 80, "hostPort": 8080}]
    local = [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}]
    udp = [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]
    return [
        m.node("n1"),
        [m.pod("p", ports=taken)],
        [m.pod("q", ports=local)],
        [m.pod("r", ports=udp)],
        [Change("delete", PODS, "p")],
    ]


def gates(m: Maker) -> list[Step]:
    """A pod waits for its gates."""
    return [
        m.node("n1"),
        [m.pod("p", schedulingGates=[{"name": "example.com/a"}])],
        [Change("patch", PODS, "p", {"spec": {"schedulingGates": []}})],
    ]


def no_nodes(m: Maker) -> list[Step]:
    """Create a pod while there is no node, then a node."""
    return [[m.pod("p")], m.node("n1")]


def shared(m: Maker) -> list[Step]:
    """Two pods use one claim."""
    return [m.one_node(), [m.claim("c"), m.pod("p", "c")], [m.pod("q", "c")]]


def two_claims(m: Maker) -> list[Step]:
    """A pod has two claims, for which there are not enough devices until a slice grows."""
    more = m.slice("n1", 2).body["spec"]["devices"]
    return [
        m.one_node(),
        [m.claim("a"), m.claim("b"), m.pod("p", "a", "b")],
        [Change("patch", resource_slices(m.release), "slice-n1", {"spec": {"devices": more}})],
    ]


def changed_class(m: Maker) -> list[Step]:
    """No device is of a class, until its selector changes."""
    none = [{"cel": {"expression": "device.driver == 'other'"}}]
    return [
        [*m.node("n1"), m.slice("n1"), m.device_class(selectors=none)],
        [m.claim("c"), m.pod("p", "c")],
        [Change("patch", device_classes(m.release), "gpu", {"spec": {"selectors": None}})],
    ]


def replaced_claim(m: Maker) -> list[Step]:
    """A claim asks for too much; it is deleted, and there is another one of its name."""
    return [
        m.one_node(),
        [m.claim("c", count=2), m.pod("p", "c")],
        [Change("delete", m.claims, "c")],
        [m.claim("c")],
    ]


def labelled_node(m: Maker) -> list[Step]:
    """Devices are for nodes with a label, which a node gets late; a claim without a node has its devices still."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}
    racked = m.slice("n1", 2, nodeSelector=selector)
    del racked.body["spec"]["nodeName"]
    return [
        [*m.node("n1"), racked, m.device_class()],
        [m.claim("c"), m.pod("p", "c")],
        [Change("patch", NODES, "n1", {"metadata": {"labels": {"rack": "r1"}}})],
        [Change("delete", NODES, "n1"), m.claim("d"), m.pod("q", "d")],
        [*m.node("n2"), *m.node("n3", labels={"rack": "r1"})],
        [m.pod("r", "c")],
    ]


def deleted_pod(m: Maker) -> list[Step]:
    """A pod that waits is deleted, slowly; a device comes when nobody waits for it any more."""
    return [
        m.one_node(0),
        [m.claim("c"), m.pod("slow", "c", metadata={"finalizers": ["example.com/held"]})],
        [Change("delete", PODS, "slow")],
        [Change("patch", resource_slices(m.release), "slice-n1", {"spec": {"devices": [m.device("dev-0", 0)]}})],
        [Change("patch", PODS, "slow", {"metadata": {"finalizers": None}})],
        [m.pod("q", "c")],
    ]


def other_scheduler(m: Maker) -> list[Step]:
    """A pod asks for another scheduler."""
    return [m.node("n1"), [m.pod("p", schedulerName="other")]]


def alternatives(m: Maker) -> list[Step]:
    """A request has alternatives, the classes of which are missing at first."""
    parts = [
        {"name": "big", "deviceClassName": "big", "allocationMode": "ExactCount", "count": 1},
        {"name": "any", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
    ]
    none = [{"cel": {"expression": "device.driver == 'other'"}}]
    return [
        m.one_node(),
        [m.claim_of([{"name": "g", "firstAvailable": parts}], "c"), m.pod("p", "c")],
        [m.device_class("big", selectors=none)],
    ]


def tainted_device(m: Maker) -> list[Step]:
    """The only device has a taint, which goes."""
    taint = {"key": "example.com/broken", "effect": "NoSchedule", "timeAdded": "2025-01-01T00:00:00Z"}
    fixed = [m.device("dev-0", 0)]
    broken = m.slice("n1")
    broken.body["spec"]["devices"] = [m.device("dev-0", 0, taints=[taint])]
    return [
        [
            *m.node("n1"),
            broken,
            m.device_class(),
        ],
        [m.claim("c"), m.pod("p", "c")],
        [Change("patch", resource_slices(m.release), "slice-n1", {"spec": {"devices": fixed}})],
    ]


def slow_device(m: Maker) -> list[Change]:
    """Return a node with a device that has to be attached, and its class."""
    needed = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/failed"]}
    slow = m.slice("n1")
    slow.body["spec"]["devices"] = [m.device("dev-0", 0, **needed)]
    return [*m.node("n1"), slow, m.device_class()]


def device_condition(m: Maker, name: str) -> Change:
    """Return the change by which the device of the claim `c` gets a condition."""
    since = "2025-01-01T00:00:00Z"
    condition = {
        "type": f"example.com/{name}",
        "status": "True",
        "reason": "Tested",
        "message": "as the story has it",
        "lastTransitionTime": since,
    }
    device = {"driver": DRIVER, "pool": "n1", "device": "dev-0", "conditions": [condition]}
    return Change("patch", m.claims, "c", {"status": {"devices": [device]}}, "status")


def attached_device(m: Maker) -> list[Step]:
    """A device has to be attached before the pod is bound."""
    return [slow_device(m), [m.claim("c"), m.pod("p", "c")], [device_condition(m, "attached")]]


def unattachable_device(m: Maker) -> list[Step]:
    """A device cannot be attached the first time: it is given back, and chosen again."""
    return [
        slow_device(m),
        [m.claim("c"), m.pod("p", "c")],
        [device_condition(m, "failed")],
        [device_condition(m, "attached")],
    ]


def extended_resources(m: Maker) -> list[Step]:
    """Devices provide a resource that pods request; a node that has the resource itself provides it without devices."""
    name, implicit = "example.com/widget", "deviceclass.resource.kubernetes.io/gpu"

    def container(letter: str, count: int, **more: Any) -> Obj:
        amounts = {"cpu": "10m", name: str(count)}
        return {"name": letter, "image": "example.com/i", "resources": {"requests": amounts, "limits": amounts}, **more}

    init = [container("i", 3), container("s", 1, restartPolicy="Always"), container("j", 2)]
    only = {"kubernetes.io/hostname": "n2"}
    return [
        [*m.node("n1"), m.slice("n1", 6)],
        [m.pod("late", requests={name: "1"})],
        [m.device_class(extendedResourceName=name)],
        [m.pod("implicit", requests={implicit: "2"})],
        [m.pod("init", initContainers=init, requests={name: "1"})],
        [m.pod("many", requests={name: "5"})],
        [Change("delete", PODS, "many")],
        [*m.node("n2", allocatable={name: "1"}), m.pod("own", requests={name: "1"}, nodeSelector=only)],
    ]


def declared_features(m: Maker) -> list[Step]:
    """A pod needs a feature of the kubelet, which a node declares late."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    container = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    declared = {"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}}
    return [
        [*m.node("n1"), *m.node("n2", allocatable={"cpu": "0"})],
        [m.pod("p", containers=[container], restartPolicy="Never"), m.pod("plain")],
        [Change("patch", NODES, "n1", declared, "status")],
    ]


Story = Callable[[Maker], list[Step]]
STORIES: dict[Version, list[Story]] = {
    V1_33: [
        *(no_device, no_class, elsewhere, idle_elsewhere, cpu, init_containers, selector_error, incomplete_pool),
        *(many_consumers, missing_claim, template, taints, selectors, several_nodes, ports, gates, no_nodes),
        *(shared, two_claims, changed_class, replaced_claim, labelled_node, deleted_pod, other_scheduler),
    ],
    V1_34: [alternatives],
    V1_36: [tainted_device, attached_device, unattachable_device, extended_resources, declared_features],
}


def stories_of(version: Version) -> list[Story]:
    """Return the stories that can be told of a release."""
    return [story for since, stories in STORIES.items() if version >= since or since == V1_33 for story in stories]
