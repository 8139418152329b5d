"""Validation of ResourceSlice: devices of a pool or counters that they share, and the nodes that can use them."""

from __future__ import annotations

from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.resource.common import identifiers, node_operations
from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.kinds.resource.slices import counters, device, nodes
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, invalid, required

_ATTRIBUTE = "k8s.io/kubernetes/pkg/apis/resource.DeviceAttribute"
DEVICES = 128
ADVANCED_DEVICES = 64  # if one of them has taints, lists as attributes, or uses counters

_DEVICES_OR_COUNTERS = "only one of `sharedCounters` or `devices` is allowed"


def validate_spec(spec: Obj, path: Path, rules: ReleaseRules, old: Obj | None = None) -> Errors:
    """Check a spec, and what must not differ from `old`, the spec it replaces (upstream:
    `validateResourceSliceSpec`)."""
    devices, where = spec.get("devices") or (), path.child("devices")
    errors = [
        *identifiers.driver(spec.get("driver", ""), path.child("driver"), rules),
        *_pool(spec.get("pool") or {}, path.child("pool")),
        *(_unchanged(spec, old, path, rules) if old is not None else ()),
        *nodes.of_slice(spec, path, rules),
    ]
    if rules.devices_or_counters and _is_set(spec, "devices") and _is_set(spec, "sharedCounters"):
        errors.append(invalid(path, "", _DEVICES_OR_COUNTERS))
    each_on_its_own = spec.get("perDeviceNodeSelection") is True
    shared = counters.names(spec)
    errors += validate_set(
        devices,
        ADVANCED_DEVICES if rules.limits_advanced_devices and any(map(_is_advanced, devices)) else DEVICES,
        lambda item, here: device.validate(item, here, rules, shared, each_on_its_own),
        lambda item: item.get("name", ""),
        where,
        rules,
        "name",
    )
    errors += counters.shared(spec, path, rules)
    if spec.get("partitionTypeAttribute") is not None:
        errors += _partition_type(spec, path, rules)
    return errors + node_operations.validate(spec.get("skipNodeOperations"), path.child("skipNodeOperations"))


def _partition_type(spec: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check that each device that uses counters has the attribute that tells partitions apart, as a text.

    Upstream: `validatePartitionTypeAttribute`. The form of the name is checked by declared rules.
    """
    name = spec["partitionTypeAttribute"]
    using = [(i, item) for i, item in enumerate(spec.get("devices") or ()) if item.get("consumesCounters")]
    if not using:
        text = "may only be set on a slice which declares devices that consume counters"
        return [invalid(path.child("partitionTypeAttribute"), name, text)]
    if identifiers.fully_qualified(name, path, rules):
        return []
    names = "`partitionTypeAttribute` names this attribute"
    own = name.removeprefix(f"{spec.get('driver', '')}/")
    errors: Errors = []
    for i, item in using:
        attributes, here = item.get("attributes") or {}, path.child("devices").index(i).child("attributes").key(name)
        value = attributes.get(name, attributes.get(own))
        if value is None:
            errors.append(required(here, f"device consumes counters and {names}, so it must be set"))
        elif value.get("string") is None:
            errors.append(invalid(here, Typed(value, _ATTRIBUTE), f"must be a string value because {names}"))
    return errors


def _is_set(spec: Obj, name: str) -> bool:
    """Report whether a list was sent, if only an empty one."""
    return spec.get(name) is not None or name in getattr(spec, "empty", ())


def _is_advanced(item: Obj) -> bool:
    return bool(item.get("taints") or item.get("consumesCounters") or device.has_lists(item))


def _pool(pool: Obj, path: Path) -> Errors:
    errors = identifiers.pool(pool.get("name", ""), path.child("name"))
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.append(invalid(path.child("resourceSliceCount"), count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(path.child("generation"), generation, "must be greater than or equal to zero"))
    return errors


def _unchanged(spec: Obj, old: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the fields that cannot be changed."""
    no_node = "" if rules.flat else None
    pool, old_pool = spec.get("pool") or {}, old.get("pool") or {}
    fields = (
        (path.child("pool", "name"), pool.get("name", ""), old_pool.get("name", "")),
        (path.child("driver"), spec.get("driver", ""), old.get("driver", "")),
        (path.child("nodeName"), spec.get("nodeName", no_node), old.get("nodeName", no_node)),
    )
    return [invalid(where, value, IMMUTABLE) for where, value, before in fields if value != before]
