"""Objects of allocations: a node, devices, classes and claims in the form of v1."""

from __future__ import annotations

from typing import Any

from tests.releases import NEWEST
from understudy.controlplane.allocator import Allocator
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

DRIVER = "gpu.example.com"
NODE: Obj = {"metadata": {"name": "node", "labels": {"zone": "a"}}}
ANY: Obj = {"metadata": {"name": "any"}, "spec": {}}


def device(name: str, **fields: Any) -> Obj:
    return {"name": name, **fields}


def attributes(**values: int | str) -> dict[str, Obj]:
    return {name: {"int" if isinstance(value, int) else "string": value} for name, value in values.items()}


def slice_(*devices: Obj, name: str = "slice", pool: str = "pool", count: int = 1, **spec: Any) -> Obj:
    place = (
        {} if {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": "node"}
    )
    pool_spec = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": count}
    fields = {"driver": DRIVER, "pool": pool_spec, **place, "devices": list(devices), **spec}
    return {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name}, "spec": fields}


def request(name: str = "r", count: int = 1, expression: str = "", **fields: Any) -> Obj:
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count, **selectors, **fields}
    return {"name": name, "exactly": exactly}


def claim(*requests: Obj, name: str = "claim", **devices: Any) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": metadata,
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def allocated(*names: str, name: str = "other", **fields: Any) -> Obj:
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": device, **fields} for device in names]
    return {**claim(request(), name=name), "status": {"allocation": {"devices": {"results": results}}}}


def allocator(*slices: Obj, in_use: list[Obj] | None = None, release: Version = NEWEST, **gates: bool) -> Allocator:
    on = frozenset(gate for gate, on in Gates.of(release, gates).in_force().items() if on)
    return Allocator(release, on, in_use or [], [ANY], slices)


def devices_of(allocations: list[Obj] | None) -> list[list[str]] | None:
    """Return the names of the devices of each claim, None if the claims do not fit."""
    if allocations is None:
        return None
    return [[result["device"] for result in allocation["devices"]["results"]] for allocation in allocations]
