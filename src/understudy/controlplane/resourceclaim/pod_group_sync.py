"""Makes the claims of a group of pods, and names them in its status."""

from __future__ import annotations

from understudy.controlplane.client.pod_claims import entries_of
from understudy.controlplane.resourceclaim.claim_creation import ClaimCreation, CreationError, Owner
from understudy.controlplane.resourceclaim.pod_groups import PodGroups
from understudy.machinery.errors import StatusError


class PodGroupSync:
    """Makes the claims of a group of pods and names them in its status. Upstream: `syncPodGroup`."""

    def __init__(self, creation: ClaimCreation, groups: PodGroups) -> None:
        self._creation = creation
        self._groups = groups

    async def sync(self, namespace: str, name: str) -> None:
        """Make and name the claims of a group. Raises StatusError and TryAgainError for another try."""
        group = self._groups.get(namespace, name)
        if group is None or group["metadata"].get("deletionTimestamp"):
            return
        owner = Owner(self._groups.resource, group)
        names: dict[str, str] = {}
        for entry in entries_of(group):
            try:
                if not await self._creation.has_claim(group, entry) and "resourceClaimTemplateName" in entry:
                    names[entry["name"]] = (await self._creation.ensure(owner, entry))["metadata"]["name"]
            except (CreationError, StatusError) as why:
                self._creation.tell(owner, entry, why)
                raise
        if names:
            await self._creation.name(owner, names)
