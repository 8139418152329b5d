"""Writes claims for the scheduler: their devices and reservations, and claims of its own for extended resources.

For a claim without devices: the finalizer by an update, then allocation and reservation in one status update. For one
that has devices already: the reservation in a status update. Upstream: `bindClaim`.
"""

from __future__ import annotations

from collections.abc import Awaitable

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.pod_claims import full_name
from understudy.controlplane.client.resources import resource_claims
from understudy.controlplane.scheduler.plugins.dynamicresources.binding_conditions import are_enabled
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import allocation_of
from understudy.controlplane.scheduler.plugins.dynamicresources.dynamic_resources import FINALIZER, with_requests
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import Demand
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp
from understudy.machinery.util.timers import sleep

CONFLICT_TRIES, CONFLICT_PAUSE = 5, 0.01  # seconds. Upstream: `retry.DefaultRetry`


class BindingError(Exception):
    """A pod that could not be bound; `str(error)` is the text of its condition."""


class ClaimWriter:
    """Writes claims."""

    def __init__(self, client: APIClient, version: Version, gates: Gates) -> None:
        self._client = client
        self._version = version
        self._gates = gates
        self._resource = resource_claims(version)

    async def create(self, chosen: Obj, demand: Demand) -> Obj:
        """Create the claim for extended resources; return it as stored. Raises BindingError."""
        metadata = {key: value for key, value in chosen["metadata"].items() if key not in ("name", "uid")}
        claim = {**with_requests(chosen, demand), "metadata": metadata}
        doing = f"create claim for extended resources {metadata['namespace']}/"
        return await named(doing, self._client.create(self._resource, claim))

    async def delete(self, claim: Obj) -> None:
        """Delete a claim for extended resources, its finalizer first."""
        metadata = claim["metadata"]
        finalizers = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
        await self._client.update(self._resource, {**claim, "metadata": {**metadata, "finalizers": finalizers}})
        await self._client.delete(self._resource, metadata["name"], metadata["namespace"])

    async def write(self, claim: Obj, allocation: Obj | None, consumer: Obj) -> Obj:
        """Write a claim; after a conflict once more, from its newest state. Raises BindingError, StatusError."""
        for attempt in range(CONFLICT_TRIES):
            if attempt:
                await sleep(self._client.clock, CONFLICT_PAUSE)
                metadata = claim["metadata"]
                doing = f"get updated claim {full_name(claim)} after conflict"
                claim = await named(doing, self._client.get(self._resource, metadata["name"], metadata["namespace"]))
            try:
                return await self._write_once(claim, allocation, consumer)
            except BindingError as why:
                conflict = isinstance(why.__cause__, StatusError) and why.__cause__.code == 409
                if not conflict or attempt == CONFLICT_TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _write_once(self, claim: Obj, allocation: Obj | None, consumer: Obj) -> Obj:
        key = full_name(claim)
        if "deletionTimestamp" in claim["metadata"]:
            raise BindingError(f"claim {key} got deleted in the meantime")
        if allocation is not None:
            if allocation_of(claim):
                raise BindingError(f"claim {key} got allocated elsewhere in the meantime")
            finalizers = claim["metadata"].get("finalizers") or []
            if FINALIZER not in finalizers:
                guarded = {**claim, "metadata": {**claim["metadata"], "finalizers": [*finalizers, FINALIZER]}}
                claim = await named(f"add finalizer to claim {key}", self._client.update(self._resource, guarded))
        status = dict(claim.get("status") or {})
        status["allocation"] = allocation or status.get("allocation")
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        if are_enabled(self._gates):
            if status["allocation"] is None:
                raise BindingError(f"claim {key} got deallocated elsewhere in the meantime")
            status["allocation"] = {"allocationTimestamp": timestamp(self._client.clock.now()), **status["allocation"]}
        doing = "add allocation and reservation" if allocation is not None else "add reservation"
        written = self._client.update_status(self._resource, {**claim, "status": status})
        return await named(f"{doing} to claim {key}", written)

    async def take_back(self, claim: Obj, uid: str) -> None:
        """Take back the reservation of a claim for the pod or group with a uid."""
        metadata = claim["metadata"]
        reserved = [{"$patch": "delete", "uid": uid}]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"reservedFor": reserved}}
        name, namespace = metadata["name"], metadata["namespace"]
        await self._client.patch(
            self._resource, name, patch, namespace, content_type=STRATEGIC_PATCH, subresource="status"
        )

    async def deallocate(self, claim: Obj) -> None:
        """Free a claim that no pod uses."""
        status = {name: value for name, value in claim["status"].items() if name not in ("allocation", "reservedFor")}
        if self._version >= V1_34:
            status.pop("devices", None)
        await self._client.update_status(self._resource, {**claim, "status": status})


async def named(doing: str, request: Awaitable[Obj]) -> Obj:
    """Return the answer of a request. Raises BindingError that says what was being done."""
    try:
        return await request
    except (StatusError, ConnectionError) as why:
        raise BindingError(f"{doing}: {why}") from why
