"""The ResourceQuota plugin: what objects are charged for, and what quotas refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import MERGE_PATCH, send
from tests.releases import NEWEST
from understudy import Server
from understudy.admission.chain import Operation, Point
from understudy.admission.plugins.resource_quota.charge import Request, charges
from understudy.admission.plugins.resource_quota.usage import usage_of
from understudy.kinds.context import Context
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, V1_36, V1_37, Version
from understudy.machinery.types import Obj

CTX = Context(NEWEST, Gates.of(NEWEST), "v1")


def make_quota(hard: Obj, used: Obj | None = None, name: str = "q", **spec: Any) -> Obj:
    """Return a quota with a status; nothing of it is used by default."""
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": status}


def request(resource: str, obj: Obj, old: Obj | None = None, ctx: Context = CTX, *, subresource: str = "") -> Request:
    group, _, plural = resource.rpartition("/")
    usage = usage_of(group, plural)
    assert usage is not None
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return Request(Point(operation, group, plural, subresource), usage, {"metadata": {"name": "a"}, **obj}, old, ctx)


def charged(
    resource: str, obj: Obj, *quotas: Obj, old: Obj | None = None, ctx: Context = CTX, subresource: str = ""
) -> Any:
    """Return the usage that quotas have after a request, by name, or the reason why they refuse it."""
    try:
        return charges(quotas, request(resource, obj, old, ctx, subresource=subresource))
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2]


def pod(*containers: Obj, qos: str = "Burstable", **spec: Any) -> Obj:
    items = [{"name": f"c{i}", "resources": resources} for i, resources in enumerate(containers)]
    return {"spec": {"containers": items, **spec}, "status": {"qosClass": qos}}


ONE = {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}, "limits": {"cpu": "2"}}
PAGES = {"requests": {"hugepages-2Mi": "4Mi"}}
BALANCER = {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]}}
STORAGE = {"spec": {"resources": {"requests": {"storage": "1500m"}}, "storageClassName": "gold"}}
GOLD = "gold.storageclass.storage.k8s.io"
DEVICES = {
    "spec": {
        "devices": {
            "requests": [
                {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
                {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
                {"name": "c", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
                {
                    "name": "d",
                    "firstAvailable": [
                        {"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                        {"name": "t", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
                        {"name": "u", "deviceClassName": "tpu", "allocationMode": "ExactCount", "count": 1},
                    ],
                },
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("resource", "obj", "used"),
    [
        ("configmaps", {}, {"configmaps": "1", "count/configmaps": "1"}),
        ("apps/deployments", {}, {"count/deployments.apps": "1"}),
        (
            "pods",
            pod(ONE, ONE),
            {"pods": "1", "count/pods": "1", "cpu": "2", "requests.memory": "2Gi", "limits.cpu": "4"},
        ),
        ("pods", pod(ONE, overhead={"cpu": "250m"}), {"requests.cpu": "1250m", "limits.cpu": "2250m"}),
        ("pods", pod(ONE), {"requests.example.com/gpu": "2"}),
        ("pods", pod(PAGES), {"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}),
        ("services", {"spec": {"type": "NodePort", "ports": [{}, {}]}}, {"services": "1", "services.nodeports": "2"}),
        ("services", BALANCER, {"services.loadbalancers": "1", "services.nodeports": "2"}),
        (
            "services",
            {"spec": {**BALANCER["spec"], "allocateLoadBalancerNodePorts": False}},
            {"services.nodeports": "1"},
        ),
        ("persistentvolumeclaims", STORAGE, {"persistentvolumeclaims": "1", "requests.storage": "2"}),
        ("persistentvolumeclaims", STORAGE, {f"{GOLD}/persistentvolumeclaims": "1", f"{GOLD}/requests.storage": "2"}),
        ("resource.k8s.io/resourceclaims", DEVICES, {"count/resourceclaims.resource.k8s.io": "1"}),
        (
            "resource.k8s.io/resourceclaims",
            DEVICES,
            {
                "gpu.deviceclass.resource.k8s.io/devices": "7",
                "nic.deviceclass.resource.k8s.io/devices": "32",
                "tpu.deviceclass.resource.k8s.io/devices": "1",
            },
        ),
    ],
)
def test_usage_of_kind(resource: str, obj: Obj, used: Obj) -> None:
    """Each kind is counted by its own resources."""
    hard = dict.fromkeys(used, "100Gi")
    assert charged(resource, obj, make_quota(hard)) == {"q": dict(sorted(used.items()))}


def test_uncounted_kind_is_not_charged() -> None:
    """Events are never counted, and an object is not charged by a quota without a resource for it."""
    assert usage_of("", "events") is None
    assert charged("secrets", {}, make_quota({"configmaps": "0"})) == {}


@pytest.mark.parametrize(
    ("quota", "text"),
    [
        (
            make_quota({"configmaps": "2"}, {"configmaps": "2"}),
            "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2",
        ),
        (
            make_quota({"configmaps": "2", "count/configmaps": "2"}, {"configmaps": "0"}),
            "status unknown for quota: q, resources: configmaps,count/configmaps",
        ),
    ],
)
def test_quota_refuses_object(quota: Obj, text: str) -> None:
    """A quota refuses what exceeds it, and everything as long as its usage is not known."""
    assert charged("configmaps", {}, quota) == text


def test_all_exceeded_resources_are_reported() -> None:
    """The error lists each exceeded resource as requested, used and limited, and no others."""
    hard = {"cpu": "1500m", "requests.memory": "1Gi", "pods": "9"}
    quota = make_quota(hard, {"cpu": "1", "requests.memory": "512Mi", "pods": "0"})
    assert charged("pods", pod(ONE), quota) == (
        "exceeded quota: q, requested: cpu=1,requests.memory=1Gi, used: cpu=1,requests.memory=512Mi, "
        "limited: cpu=1500m,requests.memory=1Gi"
    )


def test_quota_without_status_limits_nothing() -> None:
    """A quota with an empty status, as there is without a controller, limits nothing."""
    assert charged("pods", pod(ONE), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}, "status": {}}) == {}


def test_containers_must_state_limited_resources() -> None:
    """Each container must state the cpu and memory that a quota limits; other resources may be missing."""
    quota = make_quota({"limits.memory": "9Gi", "cpu": "9", "requests.ephemeral-storage": "9Gi"})
    text = "failed quota: q: must specify cpu for: c1; limits.memory for: c0,c1"
    assert charged("pods", pod(ONE, {}), quota) == text


@pytest.mark.parametrize(("release", "on", "used"), [(V1_36, True, "8Mi"), (V1_34, False, "4Mi"), (V1_32, True, "4Mi")])
def test_huge_pages_of_the_whole_pod_count(release: Version, on: bool, used: str) -> None:
    """Since 1.33 the huge pages that a pod sets as a whole count instead of those of its containers."""
    ctx = Context(release, Gates.of(release, {"PodLevelResources": on}), "v1")
    obj = pod(PAGES, resources={"requests": {"hugepages-2Mi": "8Mi"}})
    assert charged("pods", obj, make_quota({"hugepages-2Mi": "9Mi"}), ctx=ctx) == {"q": {"hugepages-2Mi": used}}


def test_pod_with_huge_pages_as_a_whole_need_not_state_more() -> None:
    """The containers of a pod that sets any amount as a whole need not state what a quota limits."""
    obj = pod({}, resources={"limits": {"hugepages-2Mi": "8Mi"}})
    assert charged("pods", obj, make_quota({"cpu": "9"})) == {}


def cpus(requests: str, limits: str) -> Obj:
    return {"requests": {"cpu": requests}, "limits": {"cpu": limits}}


def granted(name: str, requests: str, limits: str, allocated: str) -> Obj:
    """Return the status of a container that runs with other resources than it asks for."""
    return {"name": name, "resources": cpus(requests, limits), "allocatedResources": {"cpu": allocated}}


def resized(obj: Obj, *statuses: Obj, inits: tuple[Obj, ...] = (), reason: str = "Deferred") -> Obj:
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    of_containers = {"containerStatuses": list(statuses), "initContainerStatuses": list(inits)}
    return {**obj, "status": {**obj["status"], **of_containers, "conditions": [condition]}}


POD_OF_ONE = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": cpus("1", "2")}]},
}
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
SIDECAR: Obj = {"initContainers": [{"name": "s", "resources": cpus("1", "2"), "restartPolicy": "Always"}]}
INIT: Obj = {"initContainers": [{"name": "s", "resources": cpus("1", "2")}]}


@pytest.mark.parametrize(
    ("obj", "releases"),
    [
        (resized(pod(cpus("1", "2"))), {V1_37: "1/2", V1_36: "1/2"}),
        (resized(pod(cpus("1", "2")), granted("c0", "2", "4", "2")), {V1_37: "2/4", V1_36: "2/4", V1_32: "1/2"}),
        (resized(pod(cpus("1", "2")), granted("c0", "500m", "1", "1250m")), {V1_37: "1250m/2", V1_36: "1250m/2"}),
        (
            resized(pod(cpus("1", "2"), cpus("1", "2")), granted("c0", "3", "4", "1"), granted("c1", "250m", "1", "2")),
            {V1_37: "3250m/5", V1_36: "5/6"},
        ),
        (
            resized(pod(cpus("1", "2")), granted("c0", "500m", "1", "750m"), reason="Infeasible"),
            {V1_37: "750m/1", V1_36: "750m/1"},
        ),
        (
            resized(pod(cpus("1", "2"), **SIDECAR), inits=(granted("s", "3", "5", "2"),)),
            {V1_37: "4/7", V1_36: "4/7"},
        ),
        (resized(pod(cpus("1", "2"), **INIT), inits=(granted("s", "3", "5", "2"),)), {V1_37: "3/5", V1_36: "1/2"}),
        (
            resized(pod(cpus("1", "2"), resources=cpus("3", "3")), granted("c0", "4", "4", "4")),
            {V1_37: "3/3", V1_36: "3/3"},
        ),
    ],
)
def test_resources_that_a_pod_has_count(obj: Obj, releases: dict[Version, str]) -> None:
    """While pods can be resized, the most of what containers ask for, were allocated and run with counts."""
    hard = {"requests.cpu": "9", "limits.cpu": "9"}
    for release, expected in releases.items():
        ctx = Context(release, Gates.of(release), "v1")
        used = charged("pods", obj, make_quota(hard), ctx=ctx)["q"]
        assert f"{used['requests.cpu']}/{used['limits.cpu']}" == expected, release


@pytest.mark.parametrize(
    ("spec", "obj", "counted"),
    [
        ({"scopes": ["BestEffort"]}, pod({}, qos="BestEffort"), True),
        ({"scopes": ["NotBestEffort"]}, pod({}, qos="BestEffort"), False),
        ({"scopes": ["Terminating"]}, pod({}, activeDeadlineSeconds=1), True),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, pod({}), True),
        ({"scopes": ["NotTerminating", "BestEffort"]}, pod({}), False),
        ({"scopes": ["PriorityClass"]}, pod({}), False),
        ({"scopes": ["PriorityClass"]}, pod({}, priorityClassName="high"), True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, pod({}), False),
        ({"selector": ("In", ["high"])}, pod({}, priorityClassName="high"), True),
        ({"selector": ("In", ["high"])}, pod({}), False),
        ({"selector": ("NotIn", ["high"])}, pod({}, priorityClassName="high"), False),
        ({"selector": ("NotIn", ["high"])}, pod({}), True),
        ({"selector": ("Exists", [])}, pod({}), False),
        ({"selector": ("DoesNotExist", [])}, pod({}), True),
    ],
)
def test_pod_is_counted_if_in_all_scopes(spec: Obj, obj: Obj, counted: bool) -> None:
    """A quota with scopes counts the pods that are in all of them."""
    if "selector" in spec:
        operator, values = spec["selector"]
        term = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec = {"scopeSelector": {"matchExpressions": [term]}}
    assert charged("pods", obj, make_quota({"pods": "5"}, **spec)) == ({"q": {"pods": "1"}} if counted else {})


@pytest.mark.parametrize("term", [{"namespaces": ["x"]}, {"namespaceSelector": {}}])
def test_cross_namespace_affinity_scope(term: Obj) -> None:
    """Pods with affinity to other namespaces are in the scope CrossNamespacePodAffinity."""
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", **term}]}}
    quota = make_quota({"pods": "5"}, scopes=["CrossNamespacePodAffinity"])
    assert charged("pods", pod({}, affinity=affinity), quota) == {"q": {"pods": "1"}}


def test_invalid_scope_selector_is_an_internal_error() -> None:
    """An invalid class in a scope selector fails every pod with 500, and no other objects."""
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "a b"]}
    quota = make_quota({}, scopeSelector={"matchExpressions": [term]})
    with pytest.raises(StatusError) as error:
        charges([quota], request("pods", pod({})))
    assert error.value.code == 500
    assert error.value.message.startswith(
        "error matching scopes of quota q, err: error on matching scope {PriorityClass In [high a b]}: failed to parse "
        'and convert selector: values[1][PriorityClass]: Invalid value: "a b": a valid label must be'
    )
    assert charged("configmaps", {}, quota) == {}


def test_scoped_quota_counts_only_pods() -> None:
    """A quota with scopes counts no objects but pods."""
    assert charged("configmaps", {}, make_quota({"configmaps": "0"}, scopes=["NotTerminating"])) == {}


def test_update_is_charged_for_the_increase() -> None:
    """An update is charged for what it adds, and gets nothing back for what it removes."""
    small, large = ({"spec": {"type": "NodePort", "ports": [{}] * ports}} for ports in (1, 3))
    quota = make_quota({"services.nodeports": "2", "services": "1"}, {"services.nodeports": "1", "services": "1"})
    assert charged("services", large, quota, old=small) == (
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
    )
    assert charged("services", small, quota, old=large) == {}


def test_resize_is_charged(apiserver: Server) -> None:
    """A resize charges a quota for what it adds, or is refused; a change of labels charges nothing."""
    path, hard = "/api/v1/namespaces/default", {"requests.cpu": "3"}
    assert send(apiserver, "POST", f"{path}/pods", POD_OF_ONE).status == 201
    send(apiserver, "POST", f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    status = {"hard": hard, "used": {"requests.cpu": "1"}}
    assert send(apiserver, "PATCH", f"{path}/resourcequotas/q/status", {"status": status}, MERGE_PATCH).status == 200
    answers = []
    for subresource, requests, limits in (("", "1", "2"), ("/resize", "2", "2"), ("/resize", "4", "4")):
        containers = [{"name": "c", "resources": cpus(requests, limits)}]
        patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
        answer = send(apiserver, "PATCH", f"{path}/pods/p{subresource}", patch, STRATEGIC_PATCH)
        used = send(apiserver, "GET", f"{path}/resourcequotas/q").json()["status"]["used"]["requests.cpu"]
        answers.append((answer.status, used))
    assert answers == [(200, "1"), (200, "2"), (403, "2")]


def test_pod_that_comes_into_a_scope_is_charged_there() -> None:
    """A deadline moves a pod to the quotas of the scope Terminating, which charge all of it; others charge nothing."""
    quotas = [
        make_quota({"cpu": "5"}, {"cpu": "1"}, scope, scopes=[scope]) for scope in ("Terminating", "NotTerminating")
    ]
    moved, old = pod(ONE, activeDeadlineSeconds=5), pod(ONE)
    assert charged("pods", moved, *quotas, make_quota({"cpu": "5"}), old=old) == {"Terminating": {"cpu": "2"}}
    before_1_33 = Context(V1_32, Gates.of(V1_32), "v1")
    assert charged("pods", moved, *quotas, old=old, ctx=before_1_33) == {}


def test_scope_of_attributes_classes() -> None:
    """A volume claim is in the scope of each class of attributes that it asks for, has or gets."""
    silver = {"status": {"currentVolumeAttributesClassName": "silver"}}
    old = {"metadata": {"name": "a"}, "spec": {**STORAGE["spec"], "volumeAttributesClassName": "gold"}}
    quotas = [
        make_quota({"persistentvolumeclaims": "5"}, name=operator, scopeSelector={"matchExpressions": [term]})
        for operator, values in (("In", ["silver"]), ("NotIn", ["gold", "silver"]), ("Exists", []))
        for term in [{"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}]
    ]
    one = {"persistentvolumeclaims": "1"}
    assert charged("persistentvolumeclaims", old, *quotas) == {"Exists": one}
    assert charged("persistentvolumeclaims", {**old, **silver}, *quotas, old=old, subresource="status") == {"In": one}
    assert charged("persistentvolumeclaims", STORAGE, *quotas) == {"NotIn": one}


def test_status_may_exceed_a_quota() -> None:
    """The status of a volume claim is charged even if it is more than a quota allows."""
    quota = make_quota({"requests.storage": "2Gi"}, {"requests.storage": "1Gi"})
    old = {"metadata": {"name": "a"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    grown = {**old, "status": {"allocatedResources": {"storage": "3Gi"}}}
    assert charged("persistentvolumeclaims", grown, quota, old=old, subresource="status") == {
        "q": {"requests.storage": "3Gi"}
    }


@pytest.mark.parametrize(
    ("before", "increase", "after"), [("500Mi", "12Mi", "512Mi"), ("500Mi", "1e9", "1524288k"), ("0", "1e9", "1e9")]
)
def test_sum_keeps_suffix_format(before: str, increase: str, after: str) -> None:
    """A sum has the kind of suffix that the old amount had; zero has none, so the sum takes that of the other."""
    claim = {"spec": {"resources": {"requests": {"storage": increase}}}}
    quota = make_quota({"requests.storage": "9Gi"}, {"requests.storage": before})
    assert charged("persistentvolumeclaims", claim, quota) == {"q": {"requests.storage": after}}


def test_all_quotas_must_accept() -> None:
    """If one quota refuses an object, none is charged; a quota that does not count it is left unchanged."""
    roomy, other = make_quota({"configmaps": "5"}, name="a"), make_quota({"secrets": "0"}, name="c")
    assert charged("configmaps", {}, roomy, make_quota({"configmaps": "1"}, name="b"), other) == {
        "a": {"configmaps": "1"},
        "b": {"configmaps": "1"},
    }
    assert charged("configmaps", {}, roomy, make_quota({"configmaps": "0"}, name="b")).startswith("exceeded quota: b,")


CLASS = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
IMPLICIT, EXPLICIT = "requests.deviceclass.resource.kubernetes.io/gpu", "requests.example.com/gpu"
POD = {"metadata": {"name": "p", "uid": "u"}, **pod({"requests": {"example.com/gpu": "2"}}), "status": {}}


def storing(release: Version, *objects: Obj, gate: bool = True) -> Context:
    """Return the context of a server that holds a device class, and objects of the kinds that `resources` names."""
    by_resource: dict[str, list[Obj]] = {"deviceclasses": [CLASS], "pods": [], "resourceclaims": []}
    for obj in objects:
        by_resource["resourceclaims" if "devices" in obj["spec"] else "pods"].append(obj)
    gates = Gates.of(release, {"DRAExtendedResource": gate})
    return Context(
        release,
        gates,
        "v1",
        lookup=lambda _, resource, __, name: next(
            (obj for obj in by_resource[resource] if obj["metadata"]["name"] == name), None
        ),
        listing=lambda _, resource, __: by_resource[resource],
    )


def device_claim(name: str = "c", second: int = 0, *, uid: str = "u", count: int = 3) -> Obj:
    """Return a claim that the scheduler made for the extended resources of the pod `p`."""
    metadata = {
        "name": name,
        "creationTimestamp": f"2026-01-01T00:00:0{second}Z",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}],
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    return {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}


def with_claim_status(name: str) -> Obj:
    return {**POD, "status": {"extendedResourceClaimStatus": {"resourceClaimName": name}}}


@pytest.mark.parametrize(
    ("ctx", "used"),
    [
        (storing(V1_36), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_35), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_35, gate=False), None),
        (storing(V1_34), None),
        (storing(V1_36, POD), {IMPLICIT: "3", EXPLICIT: "1"}),
        (storing(V1_36, {**POD, "status": {"phase": "Failed"}}), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_36, {**POD, "metadata": {"name": "p", "uid": "v"}}), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_36, with_claim_status("c")), {IMPLICIT: "3", EXPLICIT: "1"}),
        (storing(V1_36, with_claim_status("d")), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_36, POD, device_claim("b")), {IMPLICIT: "3", EXPLICIT: "3"}),
        (storing(V1_36, POD, device_claim("b", uid="v")), {IMPLICIT: "3", EXPLICIT: "1"}),
        (storing(V1_36, POD, device_claim("b", 1)), {IMPLICIT: "3", EXPLICIT: "1"}),
        (storing(V1_36, POD, device_claim("d")), {IMPLICIT: "3", EXPLICIT: "1"}),
        (storing(V1_35, POD, device_claim("b")), {IMPLICIT: "3", EXPLICIT: "1"}),
    ],
)
def test_claim_counts_as_extended_resource(ctx: Context, used: Obj | None) -> None:
    """Since 1.35 claims count as requests for extended resources, less what the pod is charged that they are for.

    Since 1.36 that is the oldest claim for the pod only.
    """
    quota = make_quota({IMPLICIT: "9", EXPLICIT: "9"})
    assert charged("resource.k8s.io/resourceclaims", device_claim(), quota, ctx=ctx) == ({"q": used} if used else {})


def test_extended_resource_of_no_class_is_not_counted() -> None:
    """A claim does not concern a quota of extended resources that no device class provides."""
    quota = make_quota({"requests.example.com/a": "1", "requests.deviceclass.resource.kubernetes.io/a": "1"}, {})
    assert charged("resource.k8s.io/resourceclaims", device_claim(), quota, ctx=storing(V1_36)) == {}


@pytest.mark.parametrize(("release", "used"), [(V1_35, {"q": {IMPLICIT: "2"}}), (V1_34, {})])
def test_pod_counts_requests_of_device_class(release: Version, used: Obj) -> None:
    """Since 1.35 pods count the devices that they request by the name of a class."""
    obj = pod({"requests": {"deviceclass.resource.kubernetes.io/gpu": "2"}})
    assert charged("pods", obj, make_quota({IMPLICIT: "9"}), ctx=storing(release)) == used
