"""Fields of resource.k8s.io behind feature gates.

The guards of a release hold until a newer one has others. A guard needs no release for fields that older ones do not
know: what is not in a schema cannot be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from understudy.kinds.common.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.kinds.context import Context
from understudy.kinds.resource.claims import allocation
from understudy.kinds.resource.common.device_id import DeviceID
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_35, V1_37, ByRelease
from understudy.machinery.types import Obj, nested_field


def drop_from_claim(claim: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a ResourceClaim's spec, in place (upstream: `dropDisabledFields`)."""
    judged = old and _JUDGED_FOR_SPEC[ctx.release](old)
    drop_disabled_fields(_CLAIM_GUARDS[ctx.release], claim, judged, ctx.gates)


def drop_from_template(template: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a ResourceClaimTemplate, in place."""
    drop_disabled_fields(_TEMPLATE_GUARDS[ctx.release], template["spec"], old and old["spec"], ctx.gates)


def drop_from_class(class_: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a DeviceClass, in place."""
    drop_disabled_fields(_CLASS_GUARDS, class_, old, ctx.gates)


def drop_from_status(claim: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields of a ResourceClaim's status, and what it says of devices that are no longer allocated, in
    place."""
    for drop in _STATUS_STEPS[ctx.release]:
        drop(claim, old, ctx)


def _drop_disabled_status(claim: Obj, old: Obj, ctx: Context) -> None:
    drop_disabled_fields(_STATUS_GUARDS[ctx.release], claim, old, ctx.gates)


def _drop_deallocated(claim: Obj, old: Obj, ctx: Context) -> None:
    """Drop the status of devices that are no longer allocated to the claim (upstream:
    `dropDeallocatedStatusDevices`)."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    if not ctx.gates[features.DRA_RESOURCE_CLAIM_DEVICE_STATUS] and not _reports_devices(old):
        return
    deallocated = set(allocation.allocated(before)) - set(allocation.allocated(status))
    remaining = [entry for entry in status.get("devices") or () if DeviceID.of(entry) not in deallocated]
    status.pop("devices", None)
    if remaining:
        status["devices"] = remaining


_STATUS_STEPS = ByRelease(
    {V1_35: (_drop_disabled_status, _drop_deallocated), V1_31: (_drop_deallocated, _drop_disabled_status)}
)
# The parts of a stored claim that decide whether its spec uses a feature: up to 1.34 its status, too.
_JUDGED_FOR_SPEC = ByRelease[Callable[[Obj], Obj]](
    {V1_35: lambda claim: {"spec": claim["spec"]}, V1_31: lambda claim: claim}
)


# --- parts of claims --------------------------------------------------------------------------------------------------


def _devices(claim: Obj) -> Obj:
    return (claim.get("spec") or {}).get("devices") or {}


def _requests(claim: Obj) -> list[Obj]:
    return _devices(claim).get("requests") or []


def _exact_requests(claim: Obj) -> list[Obj]:
    """Return the `exactly` of those requests of a claim that have one."""
    return [request["exactly"] for request in _requests(claim) if request.get("exactly") is not None]


def _alternatives(claim: Obj) -> Iterator[Obj]:
    """Return everything that requests of a claim ask for: of one kind of device, or of one of several."""
    yield from _exact_requests(claim)
    for request in _requests(claim):
        yield from request.get("firstAvailable") or ()


def _results(claim: Obj) -> list[Obj]:
    return allocation.results(claim.get("status") or {})


def _device_statuses(claim: Obj) -> list[Obj]:
    return (claim.get("status") or {}).get("devices") or []


def _any_has(places: list[Obj] | Iterator[Obj], *names: str) -> bool:
    return any(place.get(name) is not None for place in places for name in names)


def _drop_each(places: list[Obj] | Iterator[Obj], *names: str) -> None:
    for place in places:
        for name in names:
            place.pop(name, None)


# --- DRAPrioritizedList (KEP-4816) and DRADeviceTaints (KEP-5055) -----------------------------------------------------

_PRIORITIZED_LIST = Guard(
    features.DRA_PRIORITIZED_LIST,
    lambda claim: _any_has(_requests(claim), "firstAvailable"),
    lambda claim: _drop_each(_requests(claim), "firstAvailable"),
)
_TOLERATIONS = Guard(
    features.DRA_DEVICE_TAINTS,
    lambda claim: _any_has(_alternatives(claim), "tolerations"),
    lambda claim: _drop_each(_alternatives(claim), "tolerations"),
)


# --- DRAAdminAccess (KEP-5018) ----------------------------------------------------------------------------------------


def _has_admin_access(claim: Obj) -> bool:
    return _any_has(_exact_requests(claim), "adminAccess") or _any_has(_results(claim), "adminAccess")


def _empty_admin_access(claim: Obj) -> None:
    """Set adminAccess to null in results, which always print it up to 1.33."""
    for result in _results(claim):
        result["adminAccess"] = None


_ADMIN_ACCESS = Guard(
    features.DRA_ADMIN_ACCESS, _has_admin_access, lambda claim: _drop_each(_exact_requests(claim), "adminAccess")
)
_ADMIN_RESULTS = Guard(
    features.DRA_ADMIN_ACCESS, _has_admin_access, lambda claim: _drop_each(_results(claim), "adminAccess")
)
_ADMIN_RESULTS_PRINTED = Guard(features.DRA_ADMIN_ACCESS, _has_admin_access, _empty_admin_access)


# --- DRAConsumableCapacity (KEP-5075) ---------------------------------------------------------------------------------


def _consumes_capacity(claim: Obj) -> bool:
    return (
        _any_has(_devices(claim).get("constraints") or [], "distinctAttribute")
        or _any_has(_alternatives(claim), "capacity")
        or _any_has(_results(claim), "shareID", "consumedCapacity")
        or _any_has(_device_statuses(claim), "shareID")
    )


def _drop_shares(claim: Obj) -> None:
    _drop_each(_results(claim), "shareID", "consumedCapacity")
    _drop_each(_device_statuses(claim), "shareID")


_CAPACITY = Guard(
    features.DRA_CONSUMABLE_CAPACITY, _consumes_capacity, lambda claim: _drop_each(_alternatives(claim), "capacity")
)
_DISTINCT_ATTRIBUTE = Guard(
    features.DRA_CONSUMABLE_CAPACITY,
    _consumes_capacity,
    lambda claim: _drop_each(_devices(claim).get("constraints") or [], "distinctAttribute"),
)
_SHARES = Guard(features.DRA_CONSUMABLE_CAPACITY, _consumes_capacity, _drop_shares)


# --- DRADeviceBindingConditions (KEP-5007) and DRAResourceClaimDeviceStatus (KEP-4817) --------------------------------

_BINDING_CONDITIONS = ("bindingConditions", "bindingFailureConditions")
_BINDING = Guard(
    features.DRA_DEVICE_BINDING_CONDITIONS,
    lambda claim: _any_has(_results(claim), *_BINDING_CONDITIONS),
    lambda claim: _drop_each(_results(claim), *_BINDING_CONDITIONS),
)


def _allocation(claim: Obj) -> list[Obj]:
    """Return the allocation of a claim, or nothing, as a list."""
    result = nested_field(claim, "status", "allocation")
    return [] if result is None else [result]


def _awaits_binding(claim: Obj) -> bool:
    return _any_has(_allocation(claim), "allocationTimestamp") or _any_has(_results(claim), *_BINDING_CONDITIONS)


def _drop_binding(claim: Obj) -> None:
    _drop_each(_allocation(claim), "allocationTimestamp")
    _drop_each(_results(claim), *_BINDING_CONDITIONS)


# In 1.34 it takes both gates, and the time of the allocation is gated as well.
_BINDING_BY_EITHER_GATE = tuple(
    Guard(gate, _awaits_binding, _drop_binding)
    for gate in (features.DRA_DEVICE_BINDING_CONDITIONS, features.DRA_RESOURCE_CLAIM_DEVICE_STATUS)
)


def _reports_devices(claim: Obj) -> bool:
    """Report whether drivers have reported the status of a claim's devices."""
    return bool(_device_statuses(claim))


def _drop_devices(claim: Obj) -> None:
    claim.get("status", {}).pop("devices", None)


_DEVICE_STATUS = Guard(features.DRA_RESOURCE_CLAIM_DEVICE_STATUS, _reports_devices, _drop_devices)


# --- DRAControlPlaneController (KEP-3063, 1.31) -----------------------------------------------------------------------


def _is_controlled_or_allocated(claim: Obj) -> bool:
    return bool(nested_field(claim, "spec", "controller")) or nested_field(claim, "status", "allocation") is not None


def _drop_controller_of_allocation(claim: Obj) -> None:
    nested_field(claim, "status", "allocation", default={}).pop("controller", None)


def _asks_for_deallocation(claim: Obj) -> bool:
    return bool(nested_field(claim, "status", "deallocationRequested"))


def _drop_deallocation(claim: Obj) -> None:
    """Drop the request to deallocate, but for devices that a control plane controller allocated."""
    if not nested_field(claim, "status", "allocation", "controller"):
        claim.get("status", {}).pop("deallocationRequested", None)


# --- DRADerivedAttributes and DRAOptionalNodeOperations (1.37) --------------------------------------------------------

_DERIVED = Guard(
    features.DRA_DERIVED_ATTRIBUTES,
    lambda claim: _any_has(_alternatives(claim), "derivedAttributes"),
    lambda claim: _drop_each(_alternatives(claim), "derivedAttributes"),
)
_OPERATIONS = Guard(
    features.DRA_OPTIONAL_NODE_OPERATIONS,
    lambda claim: _any_has(_results(claim), "skipNodeOperations"),
    lambda claim: _drop_each(_results(claim), "skipNodeOperations"),
)


# --- the guards of each release ---------------------------------------------------------------------------------------

_V35_SPEC = (_PRIORITIZED_LIST, _TOLERATIONS, _ADMIN_ACCESS, _CAPACITY, _DISTINCT_ATTRIBUTE)
_V35_STATUS = (_DEVICE_STATUS, _ADMIN_RESULTS, _SHARES, _BINDING)
_SPEC_GUARDS = {
    V1_37: (*_V35_SPEC, _DERIVED),
    V1_35: _V35_SPEC,
    V1_32: (_PRIORITIZED_LIST, _ADMIN_ACCESS, _CAPACITY),
}
_TEMPLATE_GUARDS = ByRelease({**_SPEC_GUARDS, V1_31: ()})
_CLAIM_GUARDS = ByRelease(
    {**_SPEC_GUARDS, V1_31: (field_guard(features.DRA_CONTROL_PLANE_CONTROLLER, "spec", "controller"),)}
)
_STATUS_GUARDS = ByRelease(
    {
        V1_37: (*_V35_STATUS, _OPERATIONS),
        V1_35: _V35_STATUS,
        V1_34: (_ADMIN_RESULTS, _DEVICE_STATUS, *_BINDING_BY_EITHER_GATE, _SHARES),
        V1_32: (_ADMIN_RESULTS_PRINTED, _DEVICE_STATUS),
        V1_31: (
            Guard(features.DRA_CONTROL_PLANE_CONTROLLER, _is_controlled_or_allocated, _drop_controller_of_allocation),
            Guard(features.DRA_CONTROL_PLANE_CONTROLLER, _asks_for_deallocation, _drop_deallocation),
        ),
    }
)
_CLASS_GUARDS = (
    field_guard(features.DRA_EXTENDED_RESOURCE, "spec", "extendedResourceName"),
    field_guard(features.DRA_CONTROL_PLANE_CONTROLLER, "spec", "suitableNodes"),
)
