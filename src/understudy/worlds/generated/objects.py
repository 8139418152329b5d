"""The objects of generated worlds: nodes, slices of devices, classes and templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from understudy.machinery.types import Obj
from understudy.worlds.world import WorldObject

API = "resource.k8s.io/v1"


def node(name: str, labels: Mapping[str, str], cpu: int = 32, memory: str = "128Gi") -> Obj:
    """Return a node with room for 110 pods."""
    resources = {"cpu": str(cpu), "memory": memory, "pods": "110"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    status = {"capacity": resources, "allocatable": resources}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def device_slice(driver: str, node_name: str, number: int, of: int, **content: Any) -> Obj:
    """Return one of the slices of a node's pool, which has devices or shared counters."""
    suffix = f"-{number}" if of > 1 else ""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": of}
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}{suffix}"},
        "spec": {"driver": driver, "nodeName": node_name, "pool": pool, **content},
    }


def device_class(name: str, expression: str) -> Obj:
    """Return a class of the devices for which an expression is true."""
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def template(name: str, request: str, class_name: str) -> Obj:
    """Return a template for claims of one device."""
    exactly = {"deviceClassName": class_name}
    return {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}}},
    }


def device(name: str, attributes: Mapping[str, Any], capacity: Mapping[str, str], **more: Any) -> Obj:
    """Return a device. Attributes are given by their values; a text that ends in "@version" is a version."""
    out: Obj = {"name": name, "attributes": {key: _typed(value) for key, value in attributes.items()}, **more}
    if capacity:
        out["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return out


def _typed(value: Any) -> Obj:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    text, at, _ = str(value).partition("@version")
    return {"version" if at else "string": text}


def uuid_of(*parts: object) -> str:
    """Return the same UUID for the same parts, each time."""
    return str(uuid5(NAMESPACE_DNS, "/".join(map(str, parts))))


def node_names(count: int, prefix: str = "node") -> Sequence[str]:
    """Return names of nodes, counted from 1."""
    return [f"{prefix}-{number}" for number in range(1, count + 1)]


def numbered(objects: Iterable[Obj], world: str) -> Iterable[WorldObject]:
    """Yield objects with a place that names world, kind and name."""
    for obj in objects:
        yield WorldObject(obj, f"world:{world}, {obj['kind']} {obj['metadata']['name']}")
