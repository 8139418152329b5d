"""Explains why a claim gets no devices: follows the objects of the server and asks the allocator for each node."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.controlplane.allocator import Explanation
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import ClaimError, allocation_of, claims_of
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

MOST_NODES = 3  # that are explained; more would bury the account


def _has_no_devices(explanation: Explanation) -> bool:
    """Report whether claims fail on a node that has no devices at all, of any driver."""
    if explanation.fits or explanation.error or explanation.pools:
        return False
    claims = explanation.claims
    return not any(claim.error or any(request.devices for request in claim.requests) for claim in claims)


class WhyNot:
    """Follows nodes, claims, slices and classes, and explains.

    devices, claims, nodes  to be kept up to date by the caller
    """

    def __init__(self, version: Version, gates: Gates) -> None:
        self._version = version
        self.devices = Devices(version, gates)
        self.claims = ClaimTracker(self.devices.allocated)
        self.nodes: dict[str, Obj] = {}

    def put_node(self, node: Obj) -> None:
        """Take in a node."""
        self.nodes[node["metadata"]["name"]] = node

    def remove_node(self, node: Obj) -> None:
        """Forget a node."""
        self.nodes.pop(node["metadata"]["name"], None)

    def lines(self, pod: Obj) -> Iterator[str]:
        """Yield, for a few nodes, which device fails which rule for the claims of a pod that have no devices yet."""
        try:
            claims = [
                claim for claim in claims_of(PodInfo(pod), self.claims, self._version) if not allocation_of(claim)
            ]
        except ClaimError as why:
            yield str(why)
            return
        claims = [claim for claim in claims if not allocation_of(claim)]
        if not claims:
            return
        allocator = self.devices.allocator()
        for node in list(self.nodes.values())[:MOST_NODES]:
            explanation = allocator.explain(node, claims)
            if _has_no_devices(explanation):
                yield f"no driver has published devices for node {explanation.node}"
            elif not explanation.fits:
                yield from explanation.lines()
        if len(self.nodes) > MOST_NODES:
            yield f"and {len(self.nodes) - MOST_NODES} more nodes"
