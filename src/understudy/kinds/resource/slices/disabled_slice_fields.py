"""Fields of ResourceSlices and ResourcePoolStatusRequests behind feature gates.

They are dropped while the gate is off, kept if the stored object uses them.
"""

from __future__ import annotations

from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, field_guard, remove_fields
from understudy.kinds.context import Context
from understudy.kinds.resource.slices import attribute
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate
from understudy.machinery.releases.version import V1_31, V1_33, V1_34, V1_36, V1_37, ByRelease
from understudy.machinery.types import Obj


def drop_disabled(slice_: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a slice, in place (upstream: `dropDisabledFields`)."""
    drop_disabled_fields(_GUARDS[ctx.release], slice_, old, ctx.gates)


def _devices(slice_: Obj) -> list[Obj]:
    devices: list[Obj] = slice_["spec"].get("devices") or []
    return devices


def _device_guard(gate: Gate, *names: str) -> Guard:
    """Return the guard of fields of devices. An empty list is not in use, a flag that is false is."""
    return Guard(
        gate,
        lambda slice_: any(device.get(name) not in (None, [], {}) for device in _devices(slice_) for name in names),
        lambda slice_: _drop_from_devices(slice_, *names),
    )


def _drop_from_devices(slice_: Obj, *names: str) -> None:
    for device in _devices(slice_):
        remove_fields(device, *names)


# --- DRAPartitionableDevices (KEP-4815) -------------------------------------------------------------------------------

_NODES_AND_COUNTERS = _device_guard(
    features.DRA_PARTITIONABLE_DEVICES, "consumesCounters", "nodeName", "nodeSelector", "allNodes"
)


def _is_partitioned(slice_: Obj) -> bool:
    spec = slice_["spec"]
    return (
        bool(spec.get("sharedCounters"))
        or spec.get("perDeviceNodeSelection") is not None
        or _NODES_AND_COUNTERS.is_used(slice_)
    )


def _drop_partitions(slice_: Obj) -> None:
    remove_fields(slice_["spec"], "sharedCounters", "perDeviceNodeSelection")
    _NODES_AND_COUNTERS.drop(slice_)


# --- DRAConsumableCapacity (KEP-5075) ---------------------------------------------------------------------------------


def _shares_devices(slice_: Obj) -> bool:
    return any(
        device.get("allowMultipleAllocations") is not None
        or any(capacity.get("requestPolicy") is not None for capacity in (device.get("capacity") or {}).values())
        for device in _devices(slice_)
    )


def _drop_sharing(slice_: Obj) -> None:
    for device in _devices(slice_):
        remove_fields(device, "allowMultipleAllocations")
        for capacity in (device.get("capacity") or {}).values():
            remove_fields(capacity, "requestPolicy")


# --- DRAListTypeAttributes (KEP-5491) ---------------------------------------------------------------------------------


def _attributes(slice_: Obj) -> list[Obj]:
    return [value for device in _devices(slice_) for value in (device.get("attributes") or {}).values()]


def _has_lists(slice_: Obj) -> bool:
    return any(map(attribute.has_lists, _attributes(slice_)))


def _drop_lists(slice_: Obj) -> None:
    for value in _attributes(slice_):
        remove_fields(value, *attribute.LISTS)


# --- DRADeviceCompatibilityGroups -------------------------------------------------------------------------------------


def _consumptions(slice_: Obj) -> list[Obj]:
    return [use for device in _devices(slice_) for use in device.get("consumesCounters") or ()]


def _has_groups(slice_: Obj) -> bool:
    return any(use.get("compatibilityGroups") for use in _consumptions(slice_))


def _drop_groups(slice_: Obj) -> None:
    for use in _consumptions(slice_):
        remove_fields(use, "compatibilityGroups")


_BINDING_FIELDS = ("bindsToNode", "bindingConditions", "bindingFailureConditions")
_V33 = (
    _device_guard(features.DRA_DEVICE_TAINTS, "taints"),
    Guard(features.DRA_PARTITIONABLE_DEVICES, _is_partitioned, _drop_partitions),
)
_V34 = (
    *_V33,
    # Binding conditions need both gates.
    _device_guard(features.DRA_DEVICE_BINDING_CONDITIONS, *_BINDING_FIELDS),
    _device_guard(features.DRA_RESOURCE_CLAIM_DEVICE_STATUS, *_BINDING_FIELDS),
    Guard(features.DRA_CONSUMABLE_CAPACITY, _shares_devices, _drop_sharing),
)
_V36 = (
    *_V34,
    _device_guard(features.DRA_NODE_ALLOCATABLE_RESOURCES, "nodeAllocatableResourceMappings"),
    Guard(features.DRA_LIST_TYPE_ATTRIBUTES, _has_lists, _drop_lists),
)
_V37 = (
    *_V36[:-2],
    _device_guard(features.DRA_NODE_ALLOCATABLE_RESOURCES, "nodeAllocatableResources"),
    _V36[-1],
    Guard(features.DRA_DEVICE_COMPATIBILITY_GROUPS, _has_groups, _drop_groups),
    field_guard(features.DRA_OPTIONAL_NODE_OPERATIONS, "spec", "skipNodeOperations"),
    field_guard(features.DRA_PARTITIONABLE_DEVICES_TYPE, "spec", "partitionTypeAttribute"),
)
_GUARDS = ByRelease[tuple[Guard, ...]]({V1_37: _V37, V1_36: _V36, V1_34: _V34, V1_33: _V33, V1_31: ()})

# --- ResourcePoolStatusRequest ----------------------------------------------------------------------------------------

_REQUEST_GUARDS = ByRelease[tuple[Guard, ...]](
    {
        V1_37: (field_guard(features.DRA_PARTITIONABLE_DEVICES_TYPE, "spec", "defaultPartitionTypeAttribute"),),
        V1_31: (),
    }
)


def drop_from_request(request: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a request for the status of pools, in place."""
    drop_disabled_fields(_REQUEST_GUARDS[ctx.release], request, old, ctx.gates)
