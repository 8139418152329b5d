"""The structured allocator: which devices a ResourceClaim gets, as kube-scheduler of a release decides.

    allocator = Allocator(Version(1, 36), features, claims, classes, slices)
    allocator.allocate(node, [claim])    # [AllocationResult], or None if the claim does not fit on the node

`inventory` reads ResourceSlices, `pools` gathers the pools of a node, `requests` checks claims, `search` finds devices
that pass the `selectors` and the `checks`, `results` writes the AllocationResults. `rules` has what differs between
releases. Everything is plain functions of objects: nothing is read from a server or written to one.
"""

from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.controlplane.allocator.allocator import Allocator
from understudy.controlplane.allocator.errors import AllocationError, AllocatorPanicError
from understudy.controlplane.allocator.explanation import Explanation
from understudy.controlplane.allocator.inventory import Inventory
from understudy.controlplane.allocator.rules import Rules

__all__ = [
    "AllocatedState",
    "AllocationError",
    "Allocator",
    "AllocatorPanicError",
    "Explanation",
    "Inventory",
    "Rules",
]
