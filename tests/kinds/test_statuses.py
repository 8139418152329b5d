"""A status is written through its subresource only: requests to the object's own endpoint keep the stored one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

MERGE = "application/merge-patch+json"
POD: Obj = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ONCE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
WORKLOAD = {"selector": {"matchLabels": {"a": "b"}}, "template": POD}
TARGET = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
CLAIM = {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}
RULE = {"apiGroups": ["zz"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["zz"]}
LEVEL = {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}
CONDITION = {
    "type": "Suspended",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}
CONDITIONS = {"conditions": [CONDITION]}

# (group-version, resource, namespaced, spec, status); all but the kinds whose status a controller of ours writes.
KINDS: list[tuple[str, str, bool, dict[str, Any], dict[str, Any]]] = [
    ("v1", "namespaces", False, {}, CONDITIONS),
    ("v1", "nodes", False, {}, {**CONDITIONS, "capacity": {"cpu": "1"}}),
    (
        "v1",
        "persistentvolumeclaims",
        True,
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        {"phase": "Bound", "capacity": {"storage": "1Gi"}, **CONDITIONS},
    ),
    (
        "v1",
        "persistentvolumes",
        False,
        {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
        {"phase": "Available", "message": "m"},
    ),
    ("v1", "pods", True, POD["spec"], {"phase": "Running", "podIP": "10.0.0.1", **CONDITIONS}),
    ("v1", "replicationcontrollers", True, {"selector": {"a": "b"}, "template": POD}, {"replicas": 1, **CONDITIONS}),
    ("v1", "resourcequotas", True, {"hard": {"pods": "9"}}, {"hard": {"pods": "9"}, "used": {"pods": "3"}}),
    ("v1", "services", True, {"ports": [{"port": 80}]}, CONDITIONS),
    ("v1", "services", True, {"type": "NodePort", "ports": [{"port": 80}]}, CONDITIONS),
    ("v1", "services", True, {"type": "ExternalName", "externalName": "a.b"}, CONDITIONS),
    (
        "v1",
        "services",
        True,
        {"type": "LoadBalancer", "ports": [{"port": 80}]},
        {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}, **CONDITIONS},
    ),
    ("apps/v1", "daemonsets", True, WORKLOAD, {"desiredNumberScheduled": 3, **CONDITIONS}),
    ("apps/v1", "deployments", True, WORKLOAD, {"replicas": 2, **CONDITIONS}),
    ("apps/v1", "replicasets", True, WORKLOAD, {"replicas": 2, **CONDITIONS}),
    ("apps/v1", "statefulsets", True, {**WORKLOAD, "serviceName": "s"}, {"replicas": 2, **CONDITIONS}),
    (
        "autoscaling/v1",
        "horizontalpodautoscalers",
        True,
        {"maxReplicas": 3, "scaleTargetRef": TARGET},
        {"currentReplicas": 1, "desiredReplicas": 2},
    ),
    (
        "autoscaling/v2",
        "horizontalpodautoscalers",
        True,
        {"maxReplicas": 3, "scaleTargetRef": TARGET},
        {"currentReplicas": 1, "desiredReplicas": 2, **CONDITIONS},
    ),
    (
        "batch/v1",
        "cronjobs",
        True,
        {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONCE}}},
        {"lastScheduleTime": "2024-01-01T00:00:00Z", "active": [{"name": "x"}]},
    ),
    ("batch/v1", "jobs", True, {"template": ONCE}, {"active": 1, "startTime": "2024-01-01T00:00:00Z"}),
    (
        "networking.k8s.io/v1",
        "ingresses",
        True,
        {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
        {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    ),
    ("policy/v1", "poddisruptionbudgets", True, {"selector": {}}, {"currentHealthy": 1, **CONDITIONS}),
    (
        "storage.k8s.io/v1",
        "volumeattachments",
        False,
        {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        {"attached": True},
    ),
    (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        False,
        {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [RULE]}},
        {"observedGeneration": 1, **CONDITIONS},
    ),
    ("resource.k8s.io/v1beta1", "resourceclaims", True, CLAIM, {"allocation": {}}),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        False,
        {"type": "Limited", "limited": LEVEL},
        CONDITIONS,
    ),
]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.mark.parametrize(
    ("version", "resource", "namespaced", "spec", "status"), KINDS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_own_endpoint_keeps_the_status(
    server: Server, version: str, resource: str, namespaced: bool, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    """PUT, PATCH and apply of the object change nothing in its status, whether they send none, an empty or another."""

    def ask(method: str, target: str, body: Any, form: str = "application/json") -> dict[str, Any]:
        answer = send(server, method, target, body, form)
        assert answer.status in (200, 201), answer.body
        return dict(answer.json())

    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    collection = f"{root}/namespaces/default/{resource}" if namespaced else f"{root}/{resource}"
    path = f"{collection}/x"
    created = ask("POST", collection, {"metadata": {"name": "x"}, "spec": spec})
    stored = ask("PATCH", f"{path}/status", {"status": status}, MERGE)
    assert stored["status"] != created["status"]
    bodies: list[dict[str, Any]] = [{}, {"status": None}, {"status": {}}, {"status": {"conditions": None}}]
    for attempt, sent in enumerate(bodies):
        replacement = {key: value for key, value in ask("GET", path, None).items() if key != "status"}
        replacement["metadata"]["labels"] = {"attempt": str(attempt)}
        assert ask("PUT", path, {**replacement, **sent})["status"] == stored["status"]
        assert ask("PATCH", path, sent, MERGE)["status"] == stored["status"]
    apply = {"apiVersion": version, "kind": stored["kind"], "metadata": {"name": "x", "labels": {"applied": "x"}}}
    applied = ask("PATCH", f"{path}?fieldManager=m", apply, "application/apply-patch+yaml")
    assert applied["status"] == stored["status"]
