"""The use of quotas by resource claims."""

from __future__ import annotations

from understudy.admission.plugins.resource_quota.evaluator import Usage, always, whole
from understudy.admission.plugins.resource_quota.pods import DEVICE_CLASS, is_extended_request, of_pod
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import Amounts, added
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_35, V1_36
from understudy.machinery.types import Obj, controller_of, nested_field

_OBJECTS = "count/resourceclaims.resource.k8s.io"
_GROUP = "resource.k8s.io"
_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_ALL_DEVICES = 32  # the count of a request for all devices: a claim cannot have more
_FOR_EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"  # annotation that the scheduler writes


def _counts(name: str, ctx: Context) -> bool:
    """Report whether a quota's resource counts claims.

    Since 1.35 that can be a request for an extended resource, if a device class provides it.
    """
    if name == _OBJECTS or name.endswith(_OF_CLASS):
        return True
    if not _counts_extended(ctx) or not is_extended_request(name, ctx.release):
        return False
    resource = name.removeprefix("requests.")
    if resource.startswith(DEVICE_CLASS):
        return ctx.lookup(_GROUP, "deviceclasses", "", resource.removeprefix(DEVICE_CLASS)) is not None
    return any(c["spec"].get("extendedResourceName") == resource for c in ctx.listing(_GROUP, "deviceclasses", ""))


def _counts_extended(ctx: Context) -> bool:
    return ctx.release >= V1_35 and ctx.gates[features.DRA_EXTENDED_RESOURCE]


def _of_claim(claim: Obj, ctx: Context) -> Amounts:
    """Return the number of devices that a resource claim asks for, by device class; of alternatives the largest."""
    used: Amounts = {}
    for request in nested_field(claim, "spec", "devices", "requests", default=[]):
        most: dict[str, int] = {}
        for devices in request.get("firstAvailable") or [request.get("exactly") or {}]:
            mode, name = devices.get("allocationMode", ""), devices.get("deviceClassName", "")
            count = {"ExactCount": devices.get("count", 0), "All": _ALL_DEVICES}.get(mode, 0)
            most[name] = max(count, most.get(name, 0))
        used = added(used, {name: whole(count) for name, count in most.items()})
    extended = _extended(used, claim, ctx) if _counts_extended(ctx) else {}
    return {_OBJECTS: whole(1), **{f"{name}{_OF_CLASS}": count for name, count in used.items()}, **extended}


def _extended(devices: Amounts, claim: Obj, ctx: Context) -> Amounts:
    """Return the devices of each class as requests for extended resources (`addExtendedResourceQuota`).

    Those count under the name of the class, and under the extended resource that the class provides. What the pod of a
    claim for extended resources is charged for does not count again.
    """
    used: Amounts = {}
    for name, count in devices.items():
        if name:
            device_class = ctx.lookup(_GROUP, "deviceclasses", "", name) or {"spec": {}}
            resources = (f"{DEVICE_CLASS}{name}", device_class["spec"].get("extendedResourceName"))
            used |= {f"requests.{resource}": count for resource in resources if resource}
    charged = _of_owner(claim, ctx)
    rest = {name: count - charged[name] if name in charged else count for name, count in used.items()}
    return {name: count for name, count in rest.items() if count > parse("0")}


def _of_owner(claim: Obj, ctx: Context) -> Amounts:
    """Return the amounts that the pod uses whose extended resources a claim is for, nothing for any other claim."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(_FOR_EXTENDED_RESOURCE) != "true":
        return {}
    owner = controller_of(claim)
    if owner is None or (owner.get("apiVersion"), owner.get("kind")) != ("v1", "Pod"):
        return {}
    pod = ctx.lookup("", "pods", metadata.get("namespace", ""), owner["name"])
    if pod is None or pod["metadata"]["uid"] != owner.get("uid"):
        return {}
    status = nested_field(pod, "status", "extendedResourceClaimStatus")
    if status is None:
        return {} if ctx.release >= V1_36 and _is_preceded(claim, owner["uid"], ctx) else of_pod(pod, ctx)
    return of_pod(pod, ctx) if status.get("resourceClaimName") == metadata.get("name") else {}


def _is_preceded(claim: Obj, pod: str, ctx: Context) -> bool:
    """Report whether an older claim, or one of the same second with a smaller name, is for the extended resources of a
    pod, too. `pod` is the uid of the pod."""
    own = _age(claim)
    for other in ctx.listing(_GROUP, "resourceclaims", claim["metadata"].get("namespace", "")):
        if (other["metadata"].get("annotations") or {}).get(_FOR_EXTENDED_RESOURCE) == "true":
            owner = controller_of(other)
            if owner is not None and owner["kind"] == "Pod" and owner["uid"] == pod and _age(other) < own:
                return True
    return False


def _age(claim: Obj) -> tuple[str, str]:
    return claim["metadata"].get("creationTimestamp", ""), claim["metadata"].get("name", "")


DEVICE_CLAIMS = Usage(_counts, _of_claim, updates={"": always})
