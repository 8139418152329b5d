"""The flow schemas and priority levels that every new server has (upstream: `apis/flowcontrol/bootstrap`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.apiserver.kinds.common import new_object
from understudy.machinery.types import Obj

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
    """Return a Subject from `group:NAME`, `user:NAME` or `account:NAMESPACE/NAME`."""
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


# {flow schema: (priority level, precedence, flow distinguisher, subjects, rules)}
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


def priority_levels() -> Iterable[Obj]:
    """Yield the PriorityLevelConfigurations, complete but for uid and managed fields."""
    kind, metadata = "PriorityLevelConfiguration", {"generation": 1, "annotations": _AUTO}
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    yield new_object(_FLOW, kind, "exempt", metadata=metadata, spec={"type": "Exempt", "exempt": exempt}, status={})
    for name, (shares, lendable, queues) in _LEVELS.items():
        response: Obj = {"type": "Reject"}
        if queues:
            queuing = {"queues": queues[0], "handSize": queues[1], "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        yield new_object(_FLOW, kind, name, metadata=metadata, spec={"type": "Limited", "limited": limited}, status={})


def flow_schemas(now: str) -> Iterable[Obj]:
    """Yield the FlowSchemas, complete but for uid and managed fields; their condition is of `now` (RFC 3339)."""
    for name, (level, precedence, method, subjects, rules) in _FLOWS.items():
        spec: Obj = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if method:
            spec["distinguisherMethod"] = {"type": method}
        spec["rules"] = [{"subjects": subjects, **rules}]
        message = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": now,
            "reason": "Found",
            "message": message,
        }
        metadata = {"generation": 1, "annotations": _AUTO}
        yield new_object(_FLOW, "FlowSchema", name, metadata=metadata, spec=spec, status={"conditions": [condition]})
