"""Resource lists are rounded up to thousandths in every kind that has one, as kube-apiserver 1.32.5 does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.http import send
from understudy import Server
from understudy.machinery.types import Obj

SENT = {"cpu": "1.0001", "memory": "100000001n", "ephemeral-storage": "1001e-4"}
KEPT = {"cpu": "1001m", "memory": "101m", "ephemeral-storage": "101e-3"}
SENT_STORAGE, KEPT_STORAGE = {"storage": "1001e-4"}, {"storage": "101e-3"}
CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"


def claim_spec(amounts: dict[str, str]) -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": amounts, "limits": amounts}}


def template(amounts: dict[str, str], storage: dict[str, str], **spec: Any) -> dict[str, Any]:
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec(storage)}}}
    containers = [{"name": "c", "image": "i", "resources": {"limits": amounts}}]
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, "volumes": [volume], **spec}}


def container_status(name: str, amounts: dict[str, str]) -> list[dict[str, Any]]:
    image = {"name": name, "image": "i", "imageID": "x", "ready": True, "restartCount": 0}
    return [{**image, "allocatedResources": amounts, "resources": {"limits": amounts, "requests": amounts}}]


def bodies(amounts: dict[str, str], storage: dict[str, str]) -> dict[str, Any]:
    """Return the objects to create, by path, with these amounts in all resource lists."""
    selector, pods = {"matchLabels": {"a": "b"}}, template(amounts, storage)
    once = template(amounts, storage, restartPolicy="Never")
    claim = {"metadata": {"name": "w"}, "spec": claim_spec(storage), "status": {"capacity": storage}}
    names = ("max", "min", "default", "defaultRequest")
    volume = {"capacity": storage, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    return {
        f"{CORE}/limitranges": {"spec": {"limits": [{"type": "Container", **dict.fromkeys(names, amounts)}]}},
        f"{CORE}/resourcequotas": {"spec": {"hard": amounts}},
        "/api/v1/nodes": {"status": {"capacity": amounts, "allocatable": amounts}},
        "/api/v1/persistentvolumes": {"spec": volume},
        f"{CORE}/persistentvolumeclaims": {"spec": claim_spec(storage)},
        f"{CORE}/pods": pods,
        f"{CORE}/podtemplates": {"template": pods},
        f"{CORE}/replicationcontrollers": {"spec": {"selector": {"a": "b"}, "template": pods}},
        f"{APPS}/deployments": {"spec": {"selector": selector, "template": pods}},
        f"{APPS}/replicasets": {"spec": {"selector": selector, "template": pods}},
        f"{APPS}/daemonsets": {"spec": {"selector": selector, "template": pods}},
        f"{APPS}/statefulsets": {
            "spec": {"selector": selector, "serviceName": "s", "template": pods, "volumeClaimTemplates": [claim]}
        },
        f"{BATCH}/jobs": {"spec": {"template": once}},
        f"{BATCH}/cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}},
    }


SENT_BODIES, KEPT_BODIES = bodies(SENT, SENT_STORAGE), bodies(KEPT, KEPT_STORAGE)
STATUSES: dict[str, Callable[[Obj, Obj], Obj]] = {
    f"{CORE}/resourcequotas/x": lambda amounts, storage: {"hard": amounts, "used": amounts},
    "/api/v1/nodes/x": lambda amounts, storage: {"capacity": amounts, "allocatable": amounts},
    f"{CORE}/persistentvolumeclaims/x": lambda amounts, storage: {
        "phase": "Bound",
        "capacity": storage,
        "allocatedResources": storage,
    },
    f"{CORE}/pods/x": lambda amounts, storage: {"containerStatuses": container_status("c", amounts)},
}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def answer(server: Server, method: str, path: str, body: Any, form: str = "application/json") -> dict[str, Any]:
    reply = send(server, method, path, body, form)
    assert reply.status in (200, 201), reply.body
    return dict(reply.json())


def assert_within(expected: Any, value: Any, path: str = "") -> None:
    """Check that every field of `expected` is in `value`, which may have more."""
    if isinstance(expected, dict):
        for key, item in expected.items():
            assert_within(item, value[key], f"{path}.{key}")
    elif isinstance(expected, list):
        for index, item in enumerate(expected):
            assert_within(item, value[index], f"{path}[{index}]")
    else:
        assert value == expected, path


@pytest.mark.parametrize("path", SENT_BODIES)
def test_new_objects_round_resource_lists_up(server: Server, path: str) -> None:
    """The quantities of a new object are rounded up to thousandths in every resource list."""
    created = answer(
        server, "POST", f"{path}?dryRun=All", {**SENT_BODIES[path], "metadata": {"name": "x", "labels": {"a": "b"}}}
    )
    expected = {key: value for key, value in KEPT_BODIES[path].items() if key != "metadata"}
    assert_within(expected, created)


@pytest.mark.parametrize("path", STATUSES)
def test_statuses_round_resource_lists_up(server: Server, path: str) -> None:
    """The quantities of a status are rounded up to thousandths in every resource list."""
    collection = path.removesuffix("/x")
    answer(server, "POST", collection, {**SENT_BODIES[collection], "metadata": {"name": "x"}})
    patch = {"status": STATUSES[path](SENT, SENT_STORAGE)}
    changed = answer(server, "PATCH", f"{path}/status", patch, "application/merge-patch+json")
    assert_within(STATUSES[path](KEPT, KEPT_STORAGE), changed["status"])


def test_runtime_class_keeps_its_overhead_and_pods_round_it_up(server: Server) -> None:
    """A RuntimeClass keeps its overhead as sent; a pod that takes it over has it rounded up."""
    runtime_class = {"metadata": {"name": "r"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1.0001"}}}
    created = answer(server, "POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
    assert created["overhead"] == {"podFixed": {"cpu": "1000100u"}}
    pod = {
        "metadata": {"name": "x"},
        "spec": {"runtimeClassName": "r", "containers": [{"name": "c", "image": "i"}]},
    }
    assert answer(server, "POST", f"{CORE}/pods?dryRun=All", pod)["spec"]["overhead"] == {"cpu": "1001m"}
