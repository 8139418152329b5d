"""Fields behind feature gates: dropped while the gate is off, kept once the stored object uses them.

In use is judged gate by gate on the whole stored object, spec and status alike. Objects are edited in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.context import Context
from understudy.admission.validation.resource import allocation
from understudy.admission.validation.resource.allocation import DeviceID
from understudy.admission.validation.resource.release_rules import Limits
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

ADMIN_ACCESS = features.DRA_ADMIN_ACCESS  # KEP-5018
DEVICE_STATUS = features.DRA_RESOURCE_CLAIM_DEVICE_STATUS  # KEP-4817
CONTROL_PLANE = features.DRA_CONTROL_PLANE_CONTROLLER  # KEP-3063


def drop_from_claim(claim: Obj, old: Obj | None, ctx: Context) -> None:
    _drop_admin_access(_admin_access_places(claim), _admin_access_places(old), ctx)
    if not ctx.gates[DEVICE_STATUS] and not _reports_devices(old):
        claim.get("status", {}).pop("devices", None)
    if not ctx.gates[CONTROL_PLANE]:
        _drop_controller(claim, old)


def drop_from_template(template: Obj, old: Obj | None, ctx: Context) -> None:
    before = _requests(old["spec"].get("spec")) if old else []
    _drop_admin_access(_requests(template["spec"].get("spec")), before, ctx)


def drop_from_class(class_: Obj, old: Obj | None, ctx: Context) -> None:
    if not ctx.gates[CONTROL_PLANE] and (old is None or old["spec"].get("suitableNodes") is None):
        class_["spec"].pop("suitableNodes", None)


def drop_deallocated(claim: Obj, old: Obj, ctx: Context) -> None:
    """What drivers reported of devices that are taken from the claim goes with them."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    if not ctx.gates[DEVICE_STATUS] and not _reports_devices(old):
        return
    gone = set(allocation.allocated(before)) - set(allocation.allocated(status))
    left = [entry for entry in status.get("devices") or () if DeviceID.of(entry) not in gone]
    status.pop("devices", None)
    if left:
        status["devices"] = left


def _reports_devices(claim: Obj | None) -> bool:
    return bool(claim and (claim.get("status") or {}).get("devices"))


def _requests(spec: Obj | None) -> list[Obj]:
    return ((spec or {}).get("devices") or {}).get("requests") or []


def _admin_access_places(claim: Obj | None) -> list[Obj]:
    """What can have adminAccess: requests, and what was allocated for them."""
    return [*_requests(claim.get("spec")), *allocation.results(claim.get("status") or {})] if claim else []


def _drop_admin_access(places: Sequence[Obj], old: Sequence[Obj], ctx: Context) -> None:
    if ctx.gates[ADMIN_ACCESS] or not Limits.of(ctx.release).gates_admin_access:
        return
    if any(place.get("adminAccess") is not None for place in old):
        return
    for place in places:
        if "adminAccess" in place:
            _clear(place)


def _clear(place: Obj) -> None:
    """Results print adminAccess although it is null, requests do not."""
    if "request" in place:
        place["adminAccess"] = None
    else:
        del place["adminAccess"]


def _drop_controller(claim: Obj, old: Obj | None) -> None:
    """Claims of control plane controllers (1.31): each field has a rule of its own."""
    if old is not None and old["spec"].get("controller"):
        controlled = True
    else:
        controlled = False
        claim["spec"].pop("controller", None)
    if old is None:
        return
    status, before = claim.get("status") or {}, old.get("status") or {}
    result = status.get("allocation")
    if not controlled and result is not None and before.get("allocation") is None:
        result.pop("controller", None)
    if not before.get("deallocationRequested") and not (result or {}).get("controller"):
        status.pop("deallocationRequested", None)
