"""Resources of nodes that devices stand for, or need (KEP-5517): cpu, memory, huge pages."""

from __future__ import annotations

from understudy.kinds.core.pods.containers.resources import HUGE_PAGES, is_native
from understudy.machinery.quantity import parse
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, not_found, required


def mappings(device: Obj, path: Path) -> Errors:
    """Check which resources of its node a device of 1.36 uses (upstream: `validateNodeAllocatableResourceMappings`).

    A mapping always has a multiplier, by default.
    """
    errors: Errors = []
    for name, mapping in (device.get("nodeAllocatableResourceMappings") or {}).items():
        here = path.key(name)
        if not is_native(name):
            errors.append(invalid(here, name, "must be a node allocatable resource name"))
        errors += _positive(mapping, "allocationMultiplier", here)
        errors += _capacity_key(mapping.get("capacityKey"), device, here.child("capacityKey"))
    return errors


def resources(device: Obj, path: Path) -> Errors:
    """Check which resources of its node a device uses, since 1.37 (upstream: `validateNodeAllocatableResources`).

    That a mapping has one of its two forms is checked by declared rules.
    """
    errors: Errors = []
    for name, used in (device.get("nodeAllocatableResources") or {}).items():
        here = path.key(name)
        if name not in ("cpu", "memory") and not name.startswith(HUGE_PAGES):
            errors.append(invalid(here, name, "must be a node allocatable resource name"))
        mapping, overhead = used.get("mapping"), used.get("overhead")
        if mapping is None and overhead is None:
            errors.append(required(here, "at least one of mapping or overhead must be set"))
        errors += [] if mapping is None else _mapping(mapping, device, here.child("mapping"))
        errors += [] if overhead is None else _overhead(overhead, here.child("overhead"))
    return errors


def _mapping(mapping: Obj, device: Obj, path: Path) -> Errors:
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    errors = _capacity_key(key, device, path.child("capacityKey"))
    if key is not None and multiplier is None:
        errors.append(
            required(path.child("capacityMultiplier"), "capacityMultiplier is required when capacityKey is set")
        )
    elif key is not None:
        errors += _positive(mapping, "capacityMultiplier", path)
    if mapping.get("deviceMultiplier") is not None:
        errors += _positive(mapping, "deviceMultiplier", path)
    if multiplier is not None and key is None:
        errors.append(required(path.child("capacityKey"), "capacityKey is required when capacityMultiplier is set"))
    return errors


def _overhead(overhead: Obj, path: Path) -> Errors:
    amounts = {name: overhead[name] for name in ("perPod", "perContainer") if overhead.get(name) is not None}
    if not amounts:
        return [invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        invalid(path.child(name), str(parse(amount)), "must be non-negative")
        for name, amount in amounts.items()
        if parse(amount) < 0
    ]


def _capacity_key(key: str | None, device: Obj, path: Path) -> Errors:
    if key == "":
        return [invalid(path, "", "capacityKey must not be an empty string")]
    return [not_found(path, key)] if key is not None and key not in (device.get("capacity") or {}) else []


def _positive(mapping: Obj, name: str, path: Path) -> Errors:
    amount = parse(mapping[name])
    return [invalid(path.child(name), str(amount), "must be positive")] if amount <= 0 else []
