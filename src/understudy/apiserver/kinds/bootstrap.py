"""What a new server holds before the first request: namespaces, its own service, classes, flow control, API services.

Written as the real server's start-up hooks write it. RBAC's bootstrap roles are left out: nothing here is decided by
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.apiserver.kinds.core import NAMESPACE_NAME
from understudy.apiserver.types import Obj

NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")
PRIORITIES = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}

# When the server began to track which legacy tokens are used; the controller manager reads it.
TOKEN_TRACKING = "kube-apiserver-legacy-service-account-token-tracking"

_FLOW = "flowcontrol.apiserver.k8s.io/v1"
_AUTO = {"apf.kubernetes.io/autoupdate-spec": "true"}

# {priority level: (shares, lendable percent, (queues, hand size))}; without queues requests are refused.
_LEVELS: dict[str, tuple[int, int, tuple[int, int] | None]] = {
    "system": (30, 33, (64, 6)),
    "node-high": (40, 25, (64, 6)),
    "leader-election": (10, 0, (16, 4)),
    "workload-high": (40, 50, (128, 6)),
    "workload-low": (100, 90, (128, 6)),
    "global-default": (20, 50, (128, 6)),
    "catch-all": (5, 0, None),
}


def _subject(text: str) -> Obj:
    """group:NAME, user:NAME or account:NAMESPACE/NAME."""
    kind, _, name = text.partition(":")
    if kind == "account":
        namespace, _, name = name.partition("/")
        return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}
    return {"kind": kind.capitalize(), kind: {"name": name}}


def _subjects(*texts: str) -> list[Obj]:
    return [_subject(text) for text in texts]


def _paths(verb: str, *urls: str) -> list[Obj]:
    return [{"verbs": [verb], "nonResourceURLs": list(urls)}]


def _on(verbs: str, group: str, *resources: str, **more: Any) -> Obj:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": list(resources), **more, "namespaces": ["*"]}


_EVERYBODY = _subjects("group:system:unauthenticated", "group:system:authenticated")
_MANAGER, _SCHEDULER = "user:system:kube-controller-manager", "user:system:kube-scheduler"
_SYSTEM = "account:kube-system/*"
_ANYTHING = {"resourceRules": [_on("*", "*", "*", clusterScope=True)], "nonResourceRules": _paths("*", "*")}
_WRITE = "get create update"
_LEASES = "coordination.k8s.io"

# {flow schema: (priority level, precedence, what tells flows apart, subjects, rules)}
_FLOWS: dict[str, tuple[str, int, str, list[Obj], Obj]] = {
    "exempt": ("exempt", 1, "", _subjects("group:system:masters"), _ANYTHING),
    "probes": ("exempt", 2, "", _EVERYBODY, {"nonResourceRules": _paths("get", "/healthz", "/readyz", "/livez")}),
    "system-leader-election": (
        "leader-election",
        100,
        "ByUser",
        _subjects(_MANAGER, _SCHEDULER, _SYSTEM),
        {"resourceRules": [_on(_WRITE, _LEASES, "leases")]},
    ),
    "endpoint-controller": (
        "workload-high",
        150,
        "ByUser",
        _subjects(
            _MANAGER,
            "account:kube-system/endpoint-controller",
            "account:kube-system/endpointslicemirroring-controller",
        ),
        {"resourceRules": [_on(_WRITE, "", "endpoints")]},
    ),
    "workload-leader-election": (
        "leader-election",
        200,
        "ByUser",
        _subjects(_SYSTEM),
        {"resourceRules": [_on(_WRITE, "", "endpoints", "configmaps"), _on(_WRITE, _LEASES, "leases")]},
    ),
    "system-node-high": (
        "node-high",
        400,
        "ByUser",
        _subjects("group:system:nodes"),
        {"resourceRules": [_on("*", "", "nodes", "nodes/status", clusterScope=True), _on("*", _LEASES, "leases")]},
    ),
    "system-nodes": ("system", 500, "ByUser", _subjects("group:system:nodes"), _ANYTHING),
    "kube-controller-manager": ("workload-high", 800, "ByNamespace", _subjects(_MANAGER), _ANYTHING),
    "kube-scheduler": ("workload-high", 800, "ByNamespace", _subjects(_SCHEDULER), _ANYTHING),
    "kube-system-service-accounts": ("workload-high", 900, "ByNamespace", _subjects(_SYSTEM), _ANYTHING),
    "service-accounts": ("workload-low", 9000, "ByUser", _subjects("group:system:serviceaccounts"), _ANYTHING),
    "global-default": ("global-default", 9900, "ByUser", _EVERYBODY, _ANYTHING),
    "catch-all": ("catch-all", 10000, "ByUser", _EVERYBODY, _ANYTHING),
}

# {group: (groupPriorityMinimum, {version: versionPriority})}; a version that is not named has 15.
_GROUPS: dict[str, tuple[int, dict[str, int]]] = {
    "": (18000, {"v1": 1}),
    "admissionregistration.k8s.io": (16700, {}),
    "apiextensions.k8s.io": (16700, {}),
    "apps": (17800, {}),
    "authentication.k8s.io": (17700, {}),
    "authorization.k8s.io": (17600, {}),
    "autoscaling": (17500, {"v2": 30}),
    "batch": (17400, {}),
    "certificates.k8s.io": (17300, {}),
    "coordination.k8s.io": (16500, {}),
    "discovery.k8s.io": (16200, {}),
    "events.k8s.io": (17750, {}),
    "flowcontrol.apiserver.k8s.io": (16100, {"v1": 21, "v1beta3": 18}),
    "networking.k8s.io": (17200, {}),
    "node.k8s.io": (16300, {}),
    "policy": (17100, {}),
    "rbac.authorization.k8s.io": (17000, {}),
    "resource.k8s.io": (16200, {"v1alpha3": 1, "v1beta1": 9}),
    "scheduling.k8s.io": (16600, {}),
    "storage.k8s.io": (16800, {}),
}
_RESOURCE_1_31 = (15900, {"v1alpha3": 9})


def initial_objects(
    release: str, now: str, group_versions: Iterable[tuple[str, str]] = (), port: int = 443
) -> list[Obj]:
    """Complete objects, with status, without uid and managed fields, in the order in which they are created.

    now             RFC 3339, for what has times in its status
    group_versions  those served: each has an APIService (but apiregistration.k8s.io itself)
    port            where the server listens: the target port of the service `kubernetes`
    """
    return [
        *(_api_service(release, group, version, now) for group, version in group_versions if group in _GROUPS),
        *(_namespace(name) for name in NAMESPACES),
        *levels(),
        *flows(now),
        *(_priority(name) for name in PRIORITIES),
        _service(port),
        _object("v1", "ConfigMap", TOKEN_TRACKING, metadata={"namespace": "kube-system"}, data={"since": now[:10]}),
    ]


def _object(api_version: str, kind: str, name: str, *, metadata: Obj | None = None, **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **fields}


def _namespace(name: str) -> Obj:
    labels = {"labels": {NAMESPACE_NAME: name}}
    spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
    return _object("v1", "Namespace", name, metadata=labels, spec=spec, status=status)


def _priority(name: str) -> Obj:
    value, description = PRIORITIES[name]
    fields = {"value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority"}
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, metadata={"generation": 1}, **fields)


def _service(port: int) -> Obj:
    spec = {
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    metadata = {"namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}}
    return _object("v1", "Service", "kubernetes", metadata=metadata, spec=spec, status={"loadBalancer": {}})


def levels() -> Iterable[Obj]:
    kind, metadata = "PriorityLevelConfiguration", {"generation": 1, "annotations": _AUTO}
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield _object(_FLOW, kind, "exempt", metadata=metadata, spec={"type": "Exempt", "exempt": exempt}, status={})
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: Obj = {"type": "Reject"}
        if queues:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        yield _object(_FLOW, kind, name, metadata=metadata, spec={"type": "Limited", "limited": limited}, status={})


def flows(now: str) -> Iterable[Obj]:
    for name, (level, precedence, method, subjects, rules) in _FLOWS.items():
        spec: Obj = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if method:
            spec["distinguisherMethod"] = {"type": method}
        spec["rules"] = [{"subjects": subjects, **rules}]
        found = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": now,
            "reason": "Found",
            "message": found,
        }
        metadata = {"generation": 1, "annotations": _AUTO}
        yield _object(_FLOW, "FlowSchema", name, metadata=metadata, spec=spec, status={"conditions": [condition]})


def _api_service(release: str, group: str, version: str, now: str) -> Obj:
    minimum, priorities = _RESOURCE_1_31 if (release, group) == ("1.31", "resource.k8s.io") else _GROUPS[group]
    spec: Obj = {"group": group} if group else {}
    spec |= {"version": version, "groupPriorityMinimum": minimum, "versionPriority": priorities.get(version, 15)}
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    metadata = {"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}
    status = {"conditions": [condition]}
    return _object(
        "apiregistration.k8s.io/v1", "APIService", f"{version}.{group}", metadata=metadata, spec=spec, status=status
    )
