"""ResourceQuota: what objects are charged for, and what quotas refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.admission.context import Context
from understudy.admission.plugins.resource_quota.charge import Request, charges
from understudy.admission.plugins.resource_quota.usage import usage_of
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates

Obj = dict[str, Any]
CTX = Context(NEWEST, Gates.of(NEWEST), "v1")


def quota(hard: Obj, used: Obj | None = None, name: str = "q", **spec: Any) -> Obj:
    """A quota of which nothing is used unless it says so."""
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": status}


def request(resource: str, obj: Obj, old: Obj | None = None) -> Request:
    group, _, plural = resource.rpartition("/")
    usage = usage_of(group, plural)
    assert usage is not None
    return Request(group, plural, usage, {"metadata": {"name": "a"}, **obj}, old, CTX)


def asked(resource: str, obj: Obj, *quotas: Obj, old: Obj | None = None) -> Any:
    """What the quotas say is used then, by name; or why they refuse."""
    try:
        return charges(quotas, request(resource, obj, old))
    except StatusError as error:
        return error.message.partition(" is forbidden: ")[2]


def pod(*containers: Obj, qos: str = "Burstable", **spec: Any) -> Obj:
    listed = [{"name": f"c{i}", "resources": resources} for i, resources in enumerate(containers)]
    return {"spec": {"containers": listed, **spec}, "status": {"qosClass": qos}}


ONE = {"requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}, "limits": {"cpu": "2"}}
PAGES = {"requests": {"hugepages-2Mi": "4Mi"}}
BALANCER = {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}]}}
STORAGE = {"spec": {"resources": {"requests": {"storage": "1500m"}}, "storageClassName": "gold"}}
GOLD = "gold.storageclass.storage.k8s.io"
DEVICES = {
    "spec": {
        "devices": {
            "requests": [
                {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                {"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                {"name": "c", "deviceClassName": "nic", "allocationMode": "All"},
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
            {"gpu.deviceclass.resource.k8s.io/devices": "3", "nic.deviceclass.resource.k8s.io/devices": "32"},
        ),
    ],
)
def test_what_objects_use(resource: str, obj: Obj, used: Obj) -> None:
    """Each kind is counted by its own resources."""
    hard = dict.fromkeys(used, "100Gi")
    assert asked(resource, obj, quota(hard)) == {"q": dict(sorted(used.items()))}


def test_what_nobody_counts() -> None:
    """Events are in no quota; nor is what a quota has no resource for."""
    assert usage_of("", "events") is None
    assert asked("secrets", {}, quota({"configmaps": "0"})) == {}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            quota({"configmaps": "2"}, {"configmaps": "2"}),
            "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2",
        ),
        (
            quota({"configmaps": "2", "count/configmaps": "2"}, {"configmaps": "0"}),
            "status unknown for quota: q, resources: configmaps,count/configmaps",
        ),
    ],
)
def test_refusals(found: Obj, text: str) -> None:
    """A quota refuses what does not fit, and everything while nobody has counted what is used."""
    assert asked("configmaps", {}, found) == text


def test_all_that_is_exceeded_is_told() -> None:
    """Each resource with the amounts that were asked for, used and allowed; those that fit are not shown."""
    hard = {"cpu": "1500m", "requests.memory": "1Gi", "pods": "9"}
    found = quota(hard, {"cpu": "1", "requests.memory": "512Mi", "pods": "0"})
    assert asked("pods", pod(ONE), found) == (
        "exceeded quota: q, requested: cpu=1,requests.memory=1Gi, used: cpu=1,requests.memory=512Mi, "
        "limited: cpu=1500m,requests.memory=1Gi"
    )


def test_a_status_that_says_nothing_limits_nothing() -> None:
    """Without a controller a quota's status is empty."""
    assert asked("pods", pod(ONE), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}, "status": {}}) == {}


def test_containers_have_to_ask() -> None:
    """Each container has to state cpu and memory where a quota has them; nothing else is needed."""
    found = quota({"limits.memory": "9Gi", "cpu": "9", "requests.ephemeral-storage": "9Gi"})
    text = "failed quota: q: must specify cpu for: c1; limits.memory for: c0,c1"
    assert asked("pods", pod(ONE, {}), found) == text


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
def test_scopes(spec: Obj, obj: Obj, counted: bool) -> None:
    """A quota with scopes counts the pods that are in all of them."""
    if "selector" in spec:
        operator, values = spec["selector"]
        term = {"scopeName": "PriorityClass", "operator": operator, "values": values}
        spec = {"scopeSelector": {"matchExpressions": [term]}}
    assert asked("pods", obj, quota({"pods": "5"}, **spec)) == ({"q": {"pods": "1"}} if counted else {})


@pytest.mark.parametrize("term", [{"namespaces": ["x"]}, {"namespaceSelector": {}}])
def test_pods_that_look_at_other_namespaces(term: Obj) -> None:
    """CrossNamespacePodAffinity is a scope of its own."""
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", **term}]}}
    found = quota({"pods": "5"}, scopes=["CrossNamespacePodAffinity"])
    assert asked("pods", pod({}, affinity=affinity), found) == {"q": {"pods": "1"}}


def test_scopes_that_make_no_sense() -> None:
    """A class that cannot be one is found out when a pod comes, whatever the quota limits; nothing else minds."""
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "a b"]}
    found = quota({}, scopeSelector={"matchExpressions": [term]})
    with pytest.raises(StatusError) as error:
        charges([found], request("pods", pod({})))
    assert error.value.code == 500
    assert error.value.message.startswith(
        "error matching scopes of quota q, err: error on matching scope {PriorityClass In [high a b]}: failed to parse "
        'and convert selector: values[1][PriorityClass]: Invalid value: "a b": a valid label must be'
    )
    assert asked("configmaps", {}, found) == {}


def test_only_pods_are_in_scopes() -> None:
    """A quota with scopes counts nothing else."""
    assert asked("configmaps", {}, quota({"configmaps": "0"}, scopes=["NotTerminating"])) == {}


def test_updates_are_charged_for_what_is_more() -> None:
    """What grows is charged for the difference, what shrinks gets nothing back."""
    small, large = ({"spec": {"type": "NodePort", "ports": [{}] * ports}} for ports in (1, 3))
    found = quota({"services.nodeports": "2", "services": "1"}, {"services.nodeports": "1", "services": "1"})
    assert asked("services", large, found, old=small) == (
        "exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
    )
    assert asked("services", small, found, old=large) == {}


@pytest.mark.parametrize(
    ("before", "more", "after"), [("500Mi", "12Mi", "512Mi"), ("500Mi", "1e9", "1524288k"), ("0", "1e9", "1e9")]
)
def test_amounts_are_written_as_they_are_read(before: str, more: str, after: str) -> None:
    """A sum has the suffixes of what was there; what has none in them is written as any other number."""
    claim = {"spec": {"resources": {"requests": {"storage": more}}}}
    found = quota({"requests.storage": "9Gi"}, {"requests.storage": before})
    assert asked("persistentvolumeclaims", claim, found) == {"q": {"requests.storage": after}}


def test_every_quota_has_to_agree() -> None:
    """If one refuses none is charged; those that do not count the object are left alone."""
    roomy, other = quota({"configmaps": "5"}, name="a"), quota({"secrets": "0"}, name="c")
    assert asked("configmaps", {}, roomy, quota({"configmaps": "1"}, name="b"), other) == {
        "a": {"configmaps": "1"},
        "b": {"configmaps": "1"},
    }
    assert asked("configmaps", {}, roomy, quota({"configmaps": "0"}, name="b")).startswith("exceeded quota: b,")
