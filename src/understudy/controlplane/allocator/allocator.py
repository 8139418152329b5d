"""The `Allocator`: which devices the claims of a pod get on a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.controlplane.allocator.checks.attributes import Attributes
from understudy.controlplane.allocator.checks.counters import Sets, SharedCounters
from understudy.controlplane.allocator.checks.groups import CompatibilityGroups
from understudy.controlplane.allocator.errors import AllocationError, AllocationTimeoutError
from understudy.controlplane.allocator.explain import STEPS, Explainer
from understudy.controlplane.allocator.explanation import Explanation
from understudy.controlplane.allocator.inventory import Inventory
from understudy.controlplane.allocator.pools import pools_of
from understudy.controlplane.allocator.requests import ClaimReader, Matcher, internal_claim
from understudy.controlplane.allocator.results import allocation_results
from understudy.controlplane.allocator.rules import Rules
from understudy.controlplane.allocator.search import CheckTime, Refuse, Search
from understudy.controlplane.allocator.selectors import attribute_environment, selector_environment
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj


class Allocator:
    """Allocates devices as kube-scheduler of a release does (upstream: `structured.Allocator`).

        allocator = Allocator(Version(1, 36), frozenset({"DRAAdminAccess"}), claims, classes, slices)
        allocator.allocate(node, [claim])

    One allocator is for one look at the cluster: it answers for many nodes and pods, as long as nothing is allocated.
    Who allocates again and again keeps an `Inventory` and an `AllocatedState`, which follow the changes, and makes a
    new allocator of them for every pod, which costs next to nothing.

    Objects are in any version of resource.k8s.io that the release serves; they are not edited.
    """

    def __init__(
        self,
        version: Version,
        features: frozenset[str],
        in_use: Iterable[Obj] | AllocatedState,
        classes: Iterable[Obj] | Mapping[str, Obj],
        slices: Iterable[Obj] | Inventory,
    ) -> None:
        """Set up an allocator.

        features  the names of the feature gates that are on
        in_use    all claims, of which those with an allocation have devices; or the state made of them
        classes   the DeviceClasses, as a list or by name
        slices    the ResourceSlices, or the inventory made of them for the same release and features
        """
        self.rules = Rules.of(version, features)
        self.inventory = slices if isinstance(slices, Inventory) else Inventory(version, features, slices)
        self.allocated = in_use if isinstance(in_use, AllocatedState) else AllocatedState(self.rules, in_use)
        self.classes = (
            classes
            if isinstance(classes, Mapping)
            else {class_["metadata"].get("name", ""): class_ for class_ in classes}
        )
        self._environment = selector_environment(version, features)
        self._attributes = Attributes(attribute_environment(version, features))
        self._available: dict[str, Sets] = {}

    def allocate(self, node: Obj, claims: Sequence[Obj], *, timeout: float | None = None) -> list[Obj] | None:
        """Return an AllocationResult for each claim, None if they do not fit on the node.

        timeout  the seconds after which the search is given up

        Raises AllocationError with upstream's text, AllocationTimeoutError after the timeout.
        """
        return self._allocate(node, claims, _deadline(timeout))

    def explain(self, node: Obj, claims: Sequence[Obj], *, steps: int = STEPS) -> Explanation:
        """Explain the allocation of claims on a node: for each request, the rules that devices fail.

        steps  the number of steps after which the search is given up
        """
        matcher = Matcher(self.rules, self._environment, node)
        explainer = Explainer(self.rules, self.inventory, self.allocated, self.classes, matcher, self._attributes, node)
        return explainer.explain(claims, self._allocate, steps)

    def _allocate(
        self, node: Obj, claims: Sequence[Obj], check_time: CheckTime | None, refuse: Refuse | None = None
    ) -> list[Obj] | None:
        pools = pools_of(self.inventory, node)
        matcher = Matcher(self.rules, self._environment, node)
        reader = ClaimReader(self.rules, self.classes, pools, matcher, self._attributes, self.allocated)
        read = [reader.read(index, internal_claim(claim)) for index, claim in enumerate(claims)]
        counters = SharedCounters(self.rules, self._available, self.allocated)
        groups = CompatibilityGroups(pools, self.allocated)
        search = Search(self.rules, read, pools, matcher, self.allocated, counters, groups, check_time, refuse)
        if search.run():
            return allocation_results(search, node)
        if self.rules.whole_pools and any(pool.invalid for pool in pools.pools):
            raise AllocationError("invalid resource pools were encountered", only_this_node=True)
        return None


def _deadline(timeout: float | None) -> Callable[[], None] | None:
    """Return a function that raises AllocationTimeoutError once some seconds are over; None without a timeout."""
    if timeout is None:
        return None
    end = time.monotonic() + timeout

    def check() -> None:
        if time.monotonic() > end:
            raise AllocationTimeoutError("filter operation aborted: context deadline exceeded")

    return check
