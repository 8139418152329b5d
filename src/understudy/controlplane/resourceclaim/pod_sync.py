"""Makes the claims of a pod, names them in its status, and reserves claims for a pod that has a node."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.pod_claims import (
    check_owner,
    claim_name,
    consumer_of,
    entries_of,
    is_allocated,
    is_of_group,
    is_reserved_for,
    reservations,
)
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.client.store import Store
from understudy.controlplane.resourceclaim.claim_creation import ClaimCreation, CreationError, Owner
from understudy.controlplane.resourceclaim.pod_groups import PodGroups
from understudy.controlplane.resourceclaim.scheduling_contexts import SchedulingContexts
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


class PodSync:
    """Makes, names and reserves the claims of a pod. Upstream: `syncPod`."""

    def __init__(
        self,
        version: Version,
        client: APIClient,
        creation: ClaimCreation,
        pods: Store,
        claims: Informer,
        groups: PodGroups,
        contexts: SchedulingContexts | None,
    ) -> None:
        self._version = version
        self._client = client
        self._creation = creation
        self._pods = pods
        self._resource = claims.resource
        self._claims = claims.store
        self._groups = groups
        self._contexts = contexts

    async def sync(self, namespace: str, name: str) -> None:
        """Make, name and reserve the claims of a pod. Raises StatusError and TryAgainError for another try."""
        pod = self._pods.get(namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        owner, group = Owner(PODS, pod), self._groups.of_pod(pod)
        names: dict[str, str] = {}
        for entry in entries_of(pod):
            try:
                await self._ensure_claim(owner, group, entry, names)
            except (CreationError, StatusError) as why:
                self._creation.tell(owner, entry, why)
                raise
        if names:
            await self._creation.name(owner, names)
        if pod["spec"].get("nodeName"):
            await self._reserve_claims(pod, group)

    async def _ensure_claim(self, owner: Owner, group: Obj | None, entry: Obj, names: dict[str, str]) -> None:
        """Make the claim of an entry, and note its name, unless that has been done. Upstream: `handleClaim`.

        A claim that is the group's is made by the work of the group, and named here once it is there.
        """
        if await self._creation.has_claim(owner.obj, entry) or "resourceClaimTemplateName" not in entry:
            return
        claim: Obj | None
        if group is not None and is_of_group(group, entry):
            if not self._groups.enabled:
                why = "is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
                raise CreationError(f"claim {entry['name']} {why}")
            claim = self._creation.made_before(group, entry)
        else:
            claim = await self._creation.ensure(owner, entry)
        if claim is not None:
            names[entry["name"]] = claim["metadata"]["name"]

    async def _reserve_claims(self, pod: Obj, group: Obj | None) -> None:
        """Reserve the allocated claims of a pod with a node, which the scheduler has not done for it."""
        for entry in entries_of(pod):
            name, generated = claim_name(pod, entry)
            if name is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], name)
            if claim is None:
                return
            if generated:
                check_owner(pod, claim, self._version, groups=self._groups.enabled)
            if not is_allocated(claim):
                if self._contexts is not None:
                    await self._contexts.ensure(pod)
                    return
            elif not is_reserved_for(pod, claim, groups=self._groups.enabled):
                if not self._groups.enabled and is_of_group(group, entry):
                    continue
                consumer = consumer_of(pod, group, entry)
                status = {**claim["status"], "reservedFor": [*reservations(claim), consumer]}
                await self._client.update_status(self._resource, {**claim, "status": status})
