"""Frees a claim: of pods that do not use it any more, then of its devices, then of its finalizer; and deletes it."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.pod_claims import is_allocated, is_done, is_group, owning_pod, reservations
from understudy.controlplane.client.resources import PODS, Resource
from understudy.controlplane.client.store import Store
from understudy.controlplane.resourceclaim.pod_groups import PodGroups
from understudy.machinery.releases.version import V1_32, V1_36, Version
from understudy.machinery.types import Obj

FINALIZER = "resource.kubernetes.io/delete-protection"
MOST_DELETED = 500  # deleted pods and groups that are remembered


class DeletedOwners:
    """The uids of the last pods and groups that were deleted: what is reserved for one of them is free for certain."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    def add(self, uid: str) -> None:
        """Remember a deleted pod or group."""
        self._uids.pop(uid, None)
        self._uids[uid] = None
        if len(self._uids) > MOST_DELETED:
            del self._uids[next(iter(self._uids))]

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class ClaimSync:
    """Frees and deletes a claim that is no longer used. Upstream: `syncClaim`."""

    def __init__(
        self,
        version: Version,
        client: APIClient,
        pods: Store,
        claims: Informer,
        groups: PodGroups,
        deleted: DeletedOwners,
    ) -> None:
        self._version = version
        self._client = client
        self._pods = pods
        self._resource = claims.resource
        self._claims = claims.store
        self._groups = groups
        self._deleted = deleted

    async def sync(self, namespace: str, name: str) -> None:
        """Free a claim as far as its pods allow. Raises StatusError and TryAgainError for another try."""
        claim = self._claims.get(namespace, name)
        if claim is None:
            return
        remaining = [consumer for consumer in reservations(claim) if await self._is_needed(namespace, consumer)]
        if len(remaining) < len(reservations(claim)):
            await self._release(claim, remaining)
        elif not remaining and claim["metadata"].get("deletionTimestamp") and FINALIZER in _finalizers(claim):
            await self._let_go(claim)
        if not remaining:
            await self._delete_if_unused(claim)

    async def _is_needed(self, namespace: str, consumer: Obj) -> bool:
        """Report whether a reservation stays: that of a pod that may run or a group, and of whatever else there is."""
        if self._groups.enabled and is_group(consumer):
            group = self._groups.get(namespace, consumer["name"])
            return await self._lives(self._groups.resource, namespace, consumer, group)
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            if self._version < V1_36:
                text = f"{{{consumer.get('apiGroup', '')} {consumer['resource']} {consumer['name']} {consumer['uid']}}}"
                raise TryAgainError(f"unsupported ReservedFor entry: {text}")
            return True
        pod = self._pods.get(namespace, consumer["name"])
        return await self._lives(PODS, namespace, consumer, pod) and not (pod is not None and is_done(pod))

    async def _lives(self, resource: Resource, namespace: str, consumer: Obj, known: Obj | None) -> bool:
        """Report whether a consumer is there. The server is asked about one that the informer may not have seen yet.

        known  the object of its name that the informer has
        """
        if consumer["uid"] in self._deleted:
            return False
        if known is None:
            known = await self._client.find(resource, consumer["name"], namespace)
        return known is not None and bool(known["metadata"]["uid"] == consumer["uid"])

    async def _release(self, claim: Obj, remaining: list[Obj]) -> None:
        """Take consumers out of a claim; with the last one it loses its devices, and then its finalizer."""
        status = {**claim["status"], "reservedFor": remaining}
        if not remaining:
            del status["reservedFor"]
            if FINALIZER in _finalizers(claim):
                status.pop("allocation", None)
            elif self._version < V1_32:  # a driver's controller has to free the devices
                status["deallocationRequested"] = True
        claim = await self._client.update_status(self._resource, {**claim, "status": status})
        if FINALIZER in _finalizers(claim) and not is_allocated(claim):
            await self._remove_finalizer(claim)

    async def _let_go(self, claim: Obj) -> None:
        """Free the devices of a deleted claim that no pod uses, and remove the finalizer that keeps it."""
        if is_allocated(claim):
            status = {field: value for field, value in claim["status"].items() if field != "allocation"}
            claim = await self._client.update_status(self._resource, {**claim, "status": status})
        await self._remove_finalizer(claim)

    async def _remove_finalizer(self, claim: Obj) -> None:
        finalizers = [finalizer for finalizer in _finalizers(claim) if finalizer != FINALIZER]
        metadata = {**claim["metadata"], "finalizers": finalizers}
        await self._client.update(self._resource, {**claim, "metadata": metadata})

    async def _delete_if_unused(self, claim: Obj) -> None:
        """Delete a claim that was made for a pod that has ended or was replaced.

        The claims of pods that are gone are left to the garbage collector.
        """
        owner = owning_pod(claim)
        if owner is None:
            return
        metadata = claim["metadata"]
        pod = self._pods.get(metadata["namespace"], owner["name"])
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or is_done(pod)):
            await self._client.delete(self._resource, metadata["name"], metadata["namespace"])


def _finalizers(claim: Obj) -> list[str]:
    finalizers: list[str] = claim["metadata"].get("finalizers") or []
    return finalizers
