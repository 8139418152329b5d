"""The claims of a pod, and of the pods of a group, during one attempt to schedule them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from understudy.controlplane.allocator.allocator import Allocator
from understudy.controlplane.client.pod_claims import (
    PodClaimError,
    check_owner,
    claim_name,
    entries_of,
    is_for_pod,
    is_reserved_for,
    reservations,
)
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, error, unresolvable, unschedulable
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import Demand, is_in_memory
from understudy.machinery.releases.version import Version
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import Obj, dataclass


class ClaimError(Exception):
    """A claim of a pod that cannot be used (yet); `str(error)` is kube-scheduler's text."""


@dataclass
class ClaimsState:
    """The claims of a pod and what is to become of them, during one attempt to schedule it. Upstream: `stateData`.

    claims          the claims of the pod, in its order, as they were when the attempt began
    allocator       chooses devices for those that have none, None if all have
    by_node         the allocations that were found for nodes, by the index of the claim
    unavailable     the indexes of claims whose devices some node does not have
    allocations     the allocations that were taken, by the index of the claim
    deallocate      a claim that no pod uses and that is to be freed, so that it can be allocated elsewhere
    resources       extended resources that devices may provide; the last claim is for them then
    demands         what the pod needs of devices for these resources, by node
    nodes           the nodes that have the devices of claims that have some, by the index of the claim
    taken           the claims whose allocations were taken, as they were then
    shared          the allocations that another pod of the group has just taken, by the index of the claim
    consumers       the pods and groups for which the claims are to be reserved
    delete          a claim for extended resources that an earlier attempt has left, and that is to be deleted
    exclusive       the indexes of claims with a device that stands for resources of its node: pods do not share it
    used            what the devices use of a node, as the status of the pod is going to say, by node
    """

    claims: list[Obj]
    allocator: Allocator | None
    by_node: dict[str, dict[int, Obj]] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    allocations: dict[int, Obj] = field(default_factory=dict)
    deallocate: Obj | None = None
    resources: list[str] = field(default_factory=list)
    demands: dict[str, Demand] = field(default_factory=dict)
    nodes: dict[int, NodeSelector] = field(default_factory=dict)
    taken: list[Obj] = field(default_factory=list)
    shared: dict[int, Obj] = field(default_factory=dict)
    consumers: list[Obj] = field(default_factory=list)
    delete: Obj | None = None
    exclusive: set[int] = field(default_factory=set)
    used: dict[str, list[Obj]] = field(default_factory=dict)

    @property
    def to_allocate(self) -> list[int]:
        """Return the indexes of the claims without an allocation, pending ones included."""
        return [i for i, claim in enumerate(self.claims) if not allocation_of(claim) and i not in self.shared]


@dataclass
class GroupClaims:
    """The claims of the pods of a group and what is to become of them, during one attempt.

    Upstream: `podGroupStateData`.

    pods        by uid
    pending     by the uid of a claim for which devices have been taken: the uids of the pods for which they were
    deallocate  a claim of the group that is to be freed
    unreserve   a claim whose reservation for the group is to be taken back
    """

    pods: dict[str, ClaimsState] = field(default_factory=dict)
    pending: dict[str, set[str]] = field(default_factory=dict)
    deallocate: Obj | None = None
    unreserve: Obj | None = None


def claims_of(pod: PodInfo, tracker: ClaimTracker, version: Version, *, groups: bool = False) -> list[Obj]:
    """Return the claims of a pod in its order. Raises ClaimError. Upstream: `foreachPodResourceClaim`.

    groups  whether claims that were made for the pod's group are accepted as well
    """
    try:
        return list(_claims_of(pod, tracker, version, groups))
    except PodClaimError as why:
        raise ClaimError(str(why)) from why


def _claims_of(pod: PodInfo, tracker: ClaimTracker, version: Version, groups: bool) -> Iterator[Obj]:
    """Yield the claims of a pod. Raises ClaimError and PodClaimError."""
    for entry in entries_of(pod.obj):
        name, is_generated = claim_name(pod.obj, entry)
        if name is None:
            continue  # no claim was needed
        claim = tracker.get(pod.namespace, name)
        if claim is None:
            raise ClaimError(f'resourceclaim.resource.k8s.io "{name}" not found')
        if "deletionTimestamp" in claim["metadata"]:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if is_generated:
            check_owner(pod.obj, claim, version, groups)
        yield claim


def to_free(data: ClaimsState, pod: PodInfo) -> Status | None:
    """Choose a claim of a pod to be freed that no other pod uses; return what is said about it, None without one."""
    for claim in (data.claims[index] for index in sorted(data.unavailable)):
        if has_no_user_but(pod.uid, claim):
            data.deallocate = claim
            return unschedulable("deallocation of ResourceClaim completed")
    if data.resources and not is_in_memory(data.claims[-1]):
        data.delete = data.claims[-1]
        return unschedulable("deletion of ResourceClaim completed")
    return None


def has_no_user_but(uid: str, claim: Obj) -> bool:
    """Report whether a claim is reserved for nobody, or only for the pod or group with a uid."""
    return [user["uid"] for user in reservations(claim)] in ([], [uid])


def to_free_of_group(together: GroupClaims, group: Obj, pod: PodInfo, tracker: ClaimTracker) -> Status | None:
    """Choose a claim of a group that no other uses, or one whose reservation is taken back; None without one.

    Upstream: `deallocatePodGroupClaims`.
    """
    for data in together.pods.values():
        for claim in (data.claims[index] for index in sorted(data.unavailable)):
            if has_no_user_but(group["metadata"]["uid"], claim):
                together.deallocate = claim
                return unschedulable("deallocation of PodGroup ResourceClaim completed")
    for entry in entries_of(group):
        try:
            name, is_generated = claim_name(group, entry)
        except PodClaimError as why:
            return error(str(why))
        if name is None:
            continue
        reserved = tracker.get(pod.namespace, name)
        if reserved is None:
            return error(f'resourceclaim.resource.k8s.io "{name}" not found')
        if is_generated and not is_for_pod(group, reserved):
            continue
        if allocation_of(reserved) and is_reserved_for(pod.obj, reserved, groups=True):
            together.unreserve = reserved
            return unresolvable("ResourceClaim unreserved for PodGroup")
    return None


def allocation_of(claim: Obj) -> Obj | None:
    """Return the allocation of a claim, None if it has none."""
    return (claim.get("status") or {}).get("allocation")
