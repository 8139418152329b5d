"""Defaults of resource.k8s.io, set in the form of the request's API version (upstream: `pkg/apis/resource/VERSION`)."""

from __future__ import annotations

from understudy.kinds.context import Context
from understudy.kinds.resource.claims import allocation
from understudy.kinds.resource.claims.devices import EXACT_COUNT
from understudy.kinds.resource.common.conversions import FLAT_VERSIONS
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease
from understudy.machinery.types import Obj

# Whether a flat request without a class has defaults. Since 1.33 it is one for subrequests, which have their own.
_WITHOUT_CLASS = ByRelease({V1_33: False, V1_31: True})


def default_claim(claim: Obj, ctx: Context) -> None:
    """Set the defaults of a ResourceClaim, in place."""
    _default_requests(claim["spec"], ctx)
    for result in allocation.results(claim.get("status") or {}):
        _default_tolerations(result)


def default_template(template: Obj, ctx: Context) -> None:
    """Set the defaults of a ResourceClaimTemplate, in place."""
    _default_requests(template["spec"].get("spec") or {}, ctx)


def _default_requests(spec: Obj, ctx: Context) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        flat = ctx.version in FLAT_VERSIONS
        exactly = request if flat else request.get("exactly")
        if exactly is not None:
            _default_tolerations(exactly)
            if not flat or exactly.get("deviceClassName") or _WITHOUT_CLASS[ctx.release]:
                _default_count(exactly)
        for subrequest in request.get("firstAvailable") or ():
            _default_tolerations(subrequest)
            _default_count(subrequest)


def _default_count(request: Obj) -> None:
    """Ask for one device, unless a request says otherwise."""
    if not request.get("allocationMode"):
        request["allocationMode"] = EXACT_COUNT
    if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
        request["count"] = 1


def _default_tolerations(place: Obj) -> None:
    for toleration in place.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


# --- slices -----------------------------------------------------------------------------------------------------------


def default_slice(slice_: Obj, ctx: Context) -> None:
    """Set the defaults of a ResourceSlice, in place."""
    for device in slice_["spec"].get("devices") or ():
        fields = device.get("basic") or {} if ctx.version in FLAT_VERSIONS else device
        for taint in fields.get("taints") or ():
            _default_taint(taint, ctx)
        for mapping in (fields.get("nodeAllocatableResourceMappings") or {}).values():
            if mapping.get("allocationMultiplier") is None:
                mapping["allocationMultiplier"] = "1"


def default_taint_rule(rule: Obj, ctx: Context) -> None:
    """Set the defaults of a DeviceTaintRule, in place."""
    _default_taint(rule["spec"]["taint"], ctx)


def default_pool_status_request(request: Obj, ctx: Context) -> None:
    """Set the defaults of a ResourcePoolStatusRequest, in place."""
    if request["spec"].get("limit") is None:
        request["spec"]["limit"] = 100


def _default_taint(taint: Obj, ctx: Context) -> None:
    """Set the time at which a taint was added, if it has none."""
    if not taint.get("timeAdded"):
        taint["timeAdded"] = ctx.now
