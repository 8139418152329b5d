"""Devices that have to be attached to a node before a pod can be bound to it: their conditions in the claim's status.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#device-binding-conditions
"""

from __future__ import annotations

from understudy.controlplane.allocator.allocated import device_results
from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp

TIMEOUT = 600.0  # seconds from the allocation on. Upstream: `DynamicResourcesBindingTimeoutDefault`


class BindingConditionError(Exception):
    """A device that will not be attached; `str(error)` is kube-scheduler's text."""


def are_enabled(gates: Gates) -> bool:
    """Report whether devices may have binding conditions: both of their feature gates are on."""
    return gates[features.DRA_DEVICE_BINDING_CONDITIONS] and gates[features.DRA_RESOURCE_CLAIM_DEVICE_STATUS]


def has_binding_conditions(claim: Obj) -> bool:
    """Report whether a device of a claim has to be attached first."""
    return any(result.get("bindingConditions") for result in device_results(claim))


def is_ready(claim: Obj) -> bool:
    """Report whether all devices of an allocated claim are attached. Raises BindingConditionError if one has failed.

    Upstream: `isClaimReadyForBinding`.
    """
    for result in device_results(claim):
        if not result.get("bindingConditions"):
            continue
        conditions = {condition["type"]: condition for condition in _device(claim, result).get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            failure = conditions.get(name)
            if failure is not None and failure["status"] == "True":
                about = f"claim={claim['metadata']['name']}, reason={failure.get('reason', '')}"
                raise BindingConditionError(
                    f"device binding failed: {about}, message={go_quote(failure.get('message', ''))}"
                )
        if any(conditions.get(name, {}).get("status") != "True" for name in result["bindingConditions"]):
            return False
    return True


def is_overdue(claim: Obj, now: float) -> bool:
    """Report whether the devices of a claim should have been attached by now. Upstream: `isClaimTimeout`."""
    allocated = ((claim.get("status") or {}).get("allocation") or {}).get("allocationTimestamp")
    if allocated is None or all(result.get("bindingConditions") is None for result in device_results(claim)):
        return False
    return parse_timestamp(allocated) + TIMEOUT < now


def _device(claim: Obj, result: Obj) -> Obj:
    """Return the status of an allocated device, {} if its driver has not written one."""
    place = ("driver", "pool", "device")
    for device in claim["status"].get("devices") or ():
        if all(device[name] == result[name] for name in place):
            return dict(device)
    return {}
