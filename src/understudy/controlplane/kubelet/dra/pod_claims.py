"""The claims of a pod that its kubelet prepares: those of its entries, and that of its extended resources."""

from __future__ import annotations

from understudy.controlplane.client.pod_claims import claim_name, entries_of
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj


def pod_claims(pod: Obj, gates: Gates) -> list[tuple[str, bool]]:
    """Return the names of a pod's claims, and whether each was generated for it. Raises PodClaimError."""
    names = [claim_name(pod, entry) for entry in entries_of(pod)]
    claims = [(name, is_generated) for name, is_generated in names if name is not None]
    extended = extended_resource_claim(pod, gates)
    return claims if extended is None else [*claims, (extended["resourceClaimName"], False)]


def extended_resource_claim(pod: Obj, gates: Gates) -> Obj | None:
    """Return `status.extendedResourceClaimStatus`, None if there is none or its gate is off."""
    if not gates[features.DRA_EXTENDED_RESOURCE]:
        return None
    claim: Obj | None = pod.get("status", {}).get("extendedResourceClaimStatus")
    return claim
