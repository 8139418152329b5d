"""Fields of resource.k8s.io behind feature gates.

Whether a feature is in use is judged on the whole stored object, spec and status alike.
"""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.resource.claims import allocation
from understudy.admission.validation.resource.device_id import DeviceID
from understudy.apiserver.kinds.disabled_fields import Guard, drop_disabled_fields, field_guard
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_32, ByRelease
from understudy.machinery.types import Obj, nested_field


def drop_from_claim(claim: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a ResourceClaim, in place (upstream: `dropDisabledFields`)."""
    drop_disabled_fields(_CLAIM_GUARDS[ctx.release], claim, old, ctx.gates)


def drop_from_template(template: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a ResourceClaimTemplate, in place."""
    drop_disabled_fields(_TEMPLATE_GUARDS[ctx.release], template, old, ctx.gates)


def drop_from_class(class_: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields of a DeviceClass, in place."""
    drop_disabled_fields(_CLASS_GUARDS[ctx.release], class_, old, ctx.gates)


def drop_deallocated(claim: Obj, old: Obj, ctx: Context) -> None:
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


# --- DRAResourceClaimDeviceStatus (KEP-4817) --------------------------------------------------------------------------


def _reports_devices(claim: Obj) -> bool:
    """Report whether drivers have reported the status of a claim's devices."""
    return bool(nested_field(claim, "status", "devices"))


def _drop_devices(claim: Obj) -> None:
    claim.get("status", {}).pop("devices", None)


# --- DRAAdminAccess (KEP-5018) ----------------------------------------------------------------------------------------


def _exact_requests(claim: Obj) -> list[Obj]:
    """Return the requests of a claim for one kind of device each."""
    requests = nested_field(claim, "spec", "devices", "requests", default=[])
    return [request["exactly"] for request in requests if request.get("exactly")]


def _requests_and_results(claim: Obj) -> list[Obj]:
    """Return the parts of a claim that can have adminAccess: requests, and the results allocated for them."""
    return [*_exact_requests(claim), *allocation.results(claim.get("status") or {})]


def _has_admin_access(places: list[Obj]) -> bool:
    """Report whether any of the requests or results sets adminAccess."""
    return any(place.get("adminAccess") is not None for place in places)


def _drop_admin_access(places: list[Obj]) -> None:
    """Drop adminAccess from requests, and set it to null in results, which always print it."""
    for place in places:
        if "adminAccess" in place:
            if "request" in place:
                place["adminAccess"] = None
            else:
                del place["adminAccess"]


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


_CLAIM_GUARDS = ByRelease(
    {
        V1_31: (
            field_guard(features.DRA_CONTROL_PLANE_CONTROLLER, "spec", "controller"),
            Guard(features.DRA_CONTROL_PLANE_CONTROLLER, _is_controlled_or_allocated, _drop_controller_of_allocation),
            Guard(features.DRA_CONTROL_PLANE_CONTROLLER, _asks_for_deallocation, _drop_deallocation),
        ),
        V1_32: (
            Guard(
                features.DRA_ADMIN_ACCESS,
                lambda claim: _has_admin_access(_requests_and_results(claim)),
                lambda claim: _drop_admin_access(_requests_and_results(claim)),
            ),
            Guard(features.DRA_RESOURCE_CLAIM_DEVICE_STATUS, _reports_devices, _drop_devices),
        ),
    }
)
_TEMPLATE_GUARDS = ByRelease[tuple[Guard, ...]](
    {
        V1_31: (),
        V1_32: (
            Guard(
                features.DRA_ADMIN_ACCESS,
                lambda template: _has_admin_access(_exact_requests(template["spec"])),
                lambda template: _drop_admin_access(_exact_requests(template["spec"])),
            ),
        ),
    }
)
_CLASS_GUARDS = ByRelease[tuple[Guard, ...]](
    {V1_31: (field_guard(features.DRA_CONTROL_PLANE_CONTROLLER, "spec", "suitableNodes"),), V1_32: ()}
)
