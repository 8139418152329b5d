"""The objects that every new server holds: namespaces, its service, priority classes, flow control, API services.

They are written as kube-apiserver's post-start hooks write them. RBAC's bootstrap roles are left out, since they would
decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.apiserver.kinds.common import new_object
from understudy.apiserver.kinds.core.namespaces import NAMESPACE_NAME
from understudy.apiserver.kinds.flowcontrol.bootstrap import flow_schemas, priority_levels
from understudy.machinery.types import Obj

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


def initial_objects(now: str, api_services: Iterable[Obj], port: int) -> list[Obj]:
    """Return the objects in the order in which they are created, with status, without uid and managed fields.

    now           RFC 3339, for what has times in its status
    api_services  the specs of the APIServices of what the server serves itself
    port          where the server listens: the target port of the service `kubernetes`
    """
    return [
        *(_api_service(spec, now) for spec in api_services),
        *(_namespace(name) for name in NAMESPACES),
        *priority_levels(),
        *flow_schemas(now),
        *(_priority(name) for name in PRIORITIES),
        _service(port),
        new_object("v1", "ConfigMap", TOKEN_TRACKING, metadata={"namespace": "kube-system"}, data={"since": now[:10]}),
    ]


def _namespace(name: str) -> Obj:
    labels = {"labels": {NAMESPACE_NAME: name}}
    spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
    return new_object("v1", "Namespace", name, metadata=labels, spec=spec, status=status)


def _priority(name: str) -> Obj:
    value, description = PRIORITIES[name]
    fields = {"value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority"}
    return new_object("scheduling.k8s.io/v1", "PriorityClass", name, metadata={"generation": 1}, **fields)


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
    return new_object("v1", "Service", "kubernetes", metadata=metadata, spec=spec, status={"loadBalancer": {}})


def _api_service(spec: Obj, now: str) -> Obj:
    name = f"{spec['version']}.{spec.get('group', '')}"
    condition = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    metadata = {"labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}
    status = {"conditions": [condition]}
    return new_object(
        "apiregistration.k8s.io/v1", "APIService", name, metadata=metadata, spec=dict(spec), status=status
    )
