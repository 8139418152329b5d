"""The devices that a claim was given, as drivers read them from the API server when they prepare it."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import resource_claims
from understudy.controlplane.kubelet.dra.api import Claim, Device
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, nested_field


class AllocationError(Exception):
    """A claim whose devices cannot be read."""


async def allocation_results(client: APIClient, version: Version, driver: str, claim: Claim) -> list[Obj]:
    """Return the devices of a driver that a claim was given. Raises AllocationError."""
    key = f"{claim.namespace}/{claim.name}"
    try:
        stored = await client.get(resource_claims(version), claim.name, claim.namespace)
    except (StatusError, ConnectionError) as why:
        raise AllocationError(f"get ResourceClaim {key}: {why}") from why
    if stored["metadata"]["uid"] != claim.uid:
        raise AllocationError(f"ResourceClaim {key} has another uid by now")
    results = nested_field(stored, "status", "allocation", "devices", "results", default=())
    return [result for result in results if result["driver"] == driver]


def device_of(result: Obj) -> Device:
    """Return a device that a claim was given as the kubelet is told of it."""
    cdi_id = f"{result['driver']}/device={result['device']}"
    return Device((result["request"],), result["pool"], result["device"], (cdi_id,), result.get("shareID"))
