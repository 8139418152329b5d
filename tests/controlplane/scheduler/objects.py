"""Small objects for tests of the scheduler: only what it reads."""

from __future__ import annotations

from typing import Any

from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.machinery.types import Obj

ROOM = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10"}


def container(**resources: Any) -> Obj:
    """Return a container that requests resources; `restartPolicy` and `ports` are fields of its own."""
    fields: Obj = {name: resources.pop(name) for name in ("restartPolicy", "ports") if name in resources}
    requests = {name.replace("_", "-"): amount for name, amount in resources.items()}
    return {"name": "c", "resources": {"requests": requests}, **fields}


def pod_obj(name: str = "p", *, status: Obj | None = None, metadata: Obj | None = None, **spec: Any) -> Obj:
    """Return a pod in the namespace `default`, whose uid is its name."""
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name, **(metadata or {})},
        "spec": {"containers": [container()], **spec},
        "status": status or {},
    }


def pod(name: str = "p", *, status: Obj | None = None, metadata: Obj | None = None, **spec: Any) -> PodInfo:
    """Return a pod as plugins see it."""
    return PodInfo(pod_obj(name, status=status, metadata=metadata, **spec))


def node_obj(name: str = "n", *, labels: Obj | None = None, allocatable: Obj | None = None, **spec: Any) -> Obj:
    """Return a node with room for ten pods."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": {**ROOM, **(allocatable or {})}},
    }


def node(
    *pods: PodInfo, name: str = "n", labels: Obj | None = None, allocatable: Obj | None = None, **spec: Any
) -> NodeInfo:
    """Return a node with pods on it."""
    info = NodeInfo(node_obj(name, labels=labels, allocatable=allocatable, **spec))
    for each in pods:
        info.add_pod(each)
    return info


def claim(
    name: str = "c", *, status: Obj | None = None, version: int = 1, metadata: Obj | None = None, **spec: Any
) -> Obj:
    """Return a claim in resource.k8s.io/v1 that asks for one device of the class `gpu`."""
    requests = [{"name": "g", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
    about = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**about, **(metadata or {})},
        "spec": {"devices": {"requests": requests, **spec}},
        "status": status or {},
    }


def allocated(device: str, *, on: str = "n") -> Obj:
    """Return the status of a claim that has a device of a node."""
    result = {"request": "g", "driver": "d.example", "pool": on, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}}


def device_class(name: str = "gpu", **spec: Any) -> Obj:
    """Return a device class."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(node_name: str = "n", devices: int = 1, count: int = 1) -> Obj:
    """Return the slice of a node with its devices: `dev-0`, …"""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node_name}"},
        "spec": {
            "nodeName": node_name,
            "driver": "d.example",
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": count},
            "devices": [{"name": f"dev-{i}", "attributes": {"index": {"int": i}}} for i in range(devices)],
        },
    }
