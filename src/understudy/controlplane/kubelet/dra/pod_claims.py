"""The claims of a pod: their names, and whether the pod may use them.

Upstream: `k8s.io/dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.machinery.golang.text import go_quote
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import Obj

_NOT_OWNER = ByRelease(
    {
        V1_31: "was not created for pod {pod} (pod is not owner)",
        V1_36: "was not created for Pod {pod} (Pod is not owner)",
    }
)


class PodClaim(NamedTuple):
    """An entry of a pod and the name of its claim, None if none is needed."""

    entry: str
    claim_name: str | None
    is_generated: bool


class PodClaimError(Exception):
    """A claim that a pod cannot use, and why."""


def pod_claims(pod: Obj, gates: Gates) -> list[PodClaim]:
    """Return the claims of a pod, that of its extended resources at the end. Raises PodClaimError."""
    claims = [name_of(pod, entry) for entry in pod["spec"].get("resourceClaims") or ()]
    extended = extended_resource_claim(pod, gates)
    if extended is not None:
        claims.append(PodClaim("", extended["resourceClaimName"], False))
    return claims


def extended_resource_claim(pod: Obj, gates: Gates) -> Obj | None:
    """Return `status.extendedResourceClaimStatus`, None if there is none or its gate is off."""
    if not gates[features.DRA_EXTENDED_RESOURCE]:
        return None
    claim: Obj | None = pod.get("status", {}).get("extendedResourceClaimStatus")
    return claim


def name_of(pod: Obj, entry: Obj) -> PodClaim:
    """Return the claim of one entry of a pod. Raises PodClaimError. Upstream: `resourceclaim.Name`."""
    if entry.get("resourceClaimName") is not None:
        return PodClaim(entry["name"], entry["resourceClaimName"], False)
    pod_name = go_quote(_full_name(pod))
    if entry.get("resourceClaimTemplateName") is None:
        text = f"spec.resourceClaim {go_quote(entry['name'])}: none of the supported fields are set"
        raise PodClaimError(f"pod {pod_name}, {text}")
    for status in pod.get("status", {}).get("resourceClaimStatuses") or ():
        if status["name"] == entry["name"]:
            return PodClaim(entry["name"], status.get("resourceClaimName"), True)
    raise PodClaimError(f"pod {pod_name}: ResourceClaim not created yet")


def check_owner(pod: Obj, claim: Obj, release: Version, gates: Gates) -> None:
    """Raise PodClaimError if a claim was not generated for a pod or its pod group. Upstream: `IsForPod`."""
    controller = next((o for o in claim["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    if controller is not None and controller["uid"] == pod["metadata"]["uid"]:
        return
    claim_name, pod_name = _full_name(claim), _full_name(pod)
    if not gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]:
        text = _NOT_OWNER[release].format(pod=pod_name)
        raise PodClaimError(f"ResourceClaim {claim_name} {text}")
    group = _pod_group(pod)
    is_for_group = (
        controller is not None
        and controller["kind"] == "PodGroup"
        and controller["name"] == group
        and controller["apiVersion"].startswith("scheduling.k8s.io/")
    )
    if not is_for_group:
        text = f"neither Pod nor PodGroup {group or ''} is the owner"
        raise PodClaimError(f"ResourceClaim {claim_name} was not created for Pod {pod_name} ({text})")


def is_reserved(pod: Obj, claim: Obj, gates: Gates) -> bool:
    """Report whether a claim is reserved for a pod or its pod group. Upstream: `IsReservedForPod`."""
    group = _pod_group(pod) if gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS] else None
    return any(
        consumer["uid"] == pod["metadata"]["uid"]
        or (
            group is not None
            and consumer.get("apiGroup") == "scheduling.k8s.io"
            and consumer["resource"] == "podgroups"
            and consumer["name"] == group
        )
        for consumer in claim.get("status", {}).get("reservedFor") or ()
    )


def _pod_group(pod: Obj) -> str | None:
    name: str | None = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return name


def _full_name(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
