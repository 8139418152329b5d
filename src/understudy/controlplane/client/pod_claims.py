"""Finds the claims of pods and checks whether pods may use them.

Upstream: `k8s.io/dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, controller_of, nested_field

SCHEDULING = "scheduling.k8s.io"  # the API group of groups of pods
LONGEST_BASE = 57  # characters of a generated name, so that a hyphen and five random ones fit into 63

_NOT_OWNER = ByRelease(
    {
        V1_31: "was not created for pod {pod} (pod is not owner)",
        V1_36: "was not created for Pod {pod} (Pod is not owner)",
    }
)


class PodClaimError(TryAgainError):
    """A claim that a pod cannot use, at least not yet, with upstream's text."""


class ClaimNotFoundError(PodClaimError):
    """An entry of a pod whose claim has not been made yet. Upstream: `ErrClaimNotFound`."""

    def __init__(self, pod: Obj) -> None:
        super().__init__(f'pod "{full_name(pod)}": ResourceClaim not created yet')


class UnsupportedError(PodClaimError):
    """An entry of a pod without a field that is known here. Upstream: `ErrAPIUnsupported`."""


class OwnerError(PodClaimError):
    """A claim that was not made for the pod whose status names it."""


def full_name(obj: Obj) -> str:
    """Return "namespace/name" of an object."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def entries_of(pod: Obj) -> list[Obj]:
    """Return the entries of a pod or of a group of pods for the claims that it uses, `spec.resourceClaims`."""
    entries: list[Obj] = pod["spec"].get("resourceClaims") or []
    return entries


def claim_name(pod: Obj, entry: Obj) -> tuple[str | None, bool]:
    """Return the name of the claim of an entry, None if it needs none, and whether the pod has to be its owner.

    Raises ClaimNotFoundError and UnsupportedError. Upstream: `resourceclaim.Name`.
    """
    if name := entry.get("resourceClaimName"):
        return name, False
    if not entry.get("resourceClaimTemplateName"):
        text = f'pod "{full_name(pod)}", spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
        raise UnsupportedError(text)
    for status in nested_field(pod, "status", "resourceClaimStatuses", default=()):
        if status["name"] == entry["name"]:
            return status.get("resourceClaimName"), True
    raise ClaimNotFoundError(pod)


def pod_claims(pod: Obj, *, extended: bool) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim of a pod that exists as far as the pod knows, and whether the pod has to own it.

    extended  whether to yield the claim for extended resources as well, which the scheduler has made

    Upstream: `resourceclaim.PodClaims`.
    """
    for entry in entries_of(pod):
        try:
            name, generated = claim_name(pod, entry)
        except PodClaimError:
            continue
        if name is not None:
            yield name, generated
    if extended and (name := nested_field(pod, "status", "extendedResourceClaimStatus", "resourceClaimName")):
        yield name, True


def known_claim_names(pod: Obj) -> list[str]:
    """Return the names of the claims of a pod's entries that exist as far as the pod knows."""
    return [name for name, _ in pod_claims(pod, extended=False)]


def is_for_pod(pod: Obj, claim: Obj, groups: bool = False) -> bool:
    """Report whether a claim was made for a pod.

    groups  whether claims that were made for the pod's group are accepted as well
    """
    owner = controller_of(claim)
    if owner is None:
        return False
    if owner["uid"] == pod["metadata"]["uid"]:
        return True
    group = group_name(pod) if groups else ""
    return bool(group) and is_owned_by_group(claim) and bool(owner["name"] == group)


def check_owner(pod: Obj, claim: Obj, version: Version, groups: bool = False) -> None:
    """Raise OwnerError, with the text of a release, unless `is_for_pod`. Upstream: `resourceclaim.IsForPod`."""
    if is_for_pod(pod, claim, groups):
        return
    group = group_name(pod) if groups else ""
    text = _NOT_OWNER[version].format(pod=full_name(pod))
    if group:
        text = f"was not created for Pod {full_name(pod)} (neither Pod nor PodGroup {group} is the owner)"
    raise OwnerError(f"ResourceClaim {full_name(claim)} {text}")


def group_name(pod: Obj) -> str:
    """Return the name of the PodGroup of a pod, "" for a pod without one."""
    name: str = nested_field(pod, "spec", "schedulingGroup", "podGroupName", default="")
    return name


def is_owned_by_group(claim: Obj) -> bool:
    """Report whether a claim was made for a PodGroup."""
    owner = controller_of(claim)
    return owner is not None and owner["kind"] == "PodGroup" and owner["apiVersion"].startswith(f"{SCHEDULING}/")


def is_reserved_for(pod: Obj, claim: Obj, groups: bool = False) -> bool:
    """Report whether a claim is reserved for a pod. Upstream: `resourceclaim.IsReservedForPod`.

    groups  whether a reservation for the pod's group counts as well
    """
    group = group_name(pod) if groups else ""
    return any(
        consumer["uid"] == pod["metadata"]["uid"] or (group and is_group(consumer) and consumer["name"] == group)
        for consumer in reservations(claim)
    )


def is_group(consumer: Obj) -> bool:
    """Report whether a claim is reserved for a PodGroup by an entry of its `status.reservedFor`."""
    return bool(consumer.get("apiGroup") == SCHEDULING and consumer["resource"] == "podgroups")


def is_of_group(group: Obj | None, entry: Obj) -> bool:
    """Report whether an entry of a pod for a claim is one of its group as well."""
    fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
    return group is not None and any(
        all(of_group.get(field) == entry.get(field) for field in fields) for of_group in entries_of(group)
    )


def consumer_of(pod: Obj, group: Obj | None, entry: Obj) -> Obj:
    """Return for whom the claim of an entry of a pod is reserved: its group, or the pod. Upstream: `BindTo`."""
    if group is not None and is_of_group(group, entry):
        metadata = group["metadata"]
        kind = {"apiGroup": SCHEDULING, "resource": "podgroups"}
        return {**kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def reservations(claim: Obj) -> list[Obj]:
    """Return the pods and groups that a claim is reserved for, `status.reservedFor`."""
    consumers: list[Obj] = nested_field(claim, "status", "reservedFor", default=[])
    return consumers


def is_allocated(claim: Obj) -> bool:
    """Report whether a claim has devices."""
    return nested_field(claim, "status", "allocation") is not None


def is_terminal(pod: Obj) -> bool:
    """Report whether a pod has ended. Upstream: `IsPodTerminal`."""
    return nested_field(pod, "status", "phase") in ("Succeeded", "Failed")


def is_done(pod: Obj) -> bool:
    """Report whether no container of a pod runs or ever will: it has ended, or was deleted before it had a node."""
    deleted = bool(pod["metadata"].get("deletionTimestamp"))
    return is_terminal(pod) or (deleted and not pod["spec"].get("nodeName"))


def owning_pod(claim: Obj) -> Obj | None:
    """Return the owner reference of the pod that a claim was made for, None for a claim that users made."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["apiVersion"] == "v1" and owner["kind"] == "Pod":
            reference: Obj = owner
            return reference
    return None


def generate_name(pod_name: str, entry_name: str) -> str:
    """Return the `generateName` of a claim: "pod-entry-", both shortened in proportion if that is too long."""
    full = f"{pod_name}-{entry_name}-"
    if len(full) <= LONGEST_BASE:
        return full
    pod_length = len(pod_name) * LONGEST_BASE // len(full)
    entry_length = len(entry_name) * LONGEST_BASE // len(full)
    return f"{pod_name[:pod_length]}-{entry_name[:entry_length]}"
