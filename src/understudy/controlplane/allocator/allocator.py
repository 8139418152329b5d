"""The `Allocator`: which devices the claims of a pod get on a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from understudy.admission.cel import Environment, device_environment
from understudy.admission.validation.resource.flat_form import nested_claim
from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.controlplane.allocator.checks.counters import Sets, SharedCounters
from understudy.controlplane.allocator.errors import AllocationError
from understudy.controlplane.allocator.inventory import FLAT_VERSIONS, Device, Inventory
from understudy.controlplane.allocator.pools import pools_of
from understudy.controlplane.allocator.requests import ClaimReader, Matcher
from understudy.controlplane.allocator.results import allocation_results
from understudy.controlplane.allocator.rules import Rules
from understudy.controlplane.allocator.search import Search
from understudy.machinery.releases import features as gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj, split_api_version

SearchT = TypeVar("SearchT", bound=Search)

_CEL_GATES = frozenset({gates.DRA_CONSUMABLE_CAPACITY, gates.DRA_LIST_TYPE_ATTRIBUTES})


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
        release: Version,
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
        self.rules = Rules.of(release, features)
        self.inventory = slices if isinstance(slices, Inventory) else Inventory(release, features, slices)
        self.allocated = in_use if isinstance(in_use, AllocatedState) else AllocatedState(self.rules, in_use)
        self.classes = (
            classes if isinstance(classes, Mapping) else {class_["metadata"]["name"]: class_ for class_ in classes}
        )
        self._environment = selector_environment(release, features)
        self._available: dict[str, Sets] = {}

    def allocate(self, node: Obj, claims: Sequence[Obj], *, timeout: float | None = None) -> list[Obj] | None:
        """Return an AllocationResult for each claim, None if they do not fit on the node.

        timeout  the seconds after which the search is given up

        Raises AllocationError with upstream's text.
        """
        search = self.search(node, claims, Search, timeout)
        if search.run():
            return allocation_results(search, node)
        if self.rules.whole_pools and any(pool.invalid for pool in search.pools.pools):
            raise AllocationError("invalid resource pools were encountered", only_this_node=True)
        return None

    def search(
        self, node: Obj, claims: Sequence[Obj], make: Callable[..., SearchT], timeout: float | None = None
    ) -> SearchT:
        """Return a search for the claims on a node, which has not begun. Raises AllocationError for wrong claims."""
        pools = pools_of(self.inventory, node)
        matcher = Matcher(self.rules, self._environment, node)
        reader = ClaimReader(self.rules, self.classes, pools, matcher, self.allocated)
        read = [reader.read(index, internal_claim(claim)) for index, claim in enumerate(claims)]
        counters = SharedCounters(self.rules, self._available, self._counts)
        return make(self.rules, read, pools, matcher, self.allocated, counters, _deadline(timeout))

    def _counts(self, device: Device) -> bool:
        """Report whether a device is in use and so consumes counters."""
        in_use = self.allocated
        return in_use.has(device.id) if self.rules.shares_count else device.id in in_use.devices


def internal_claim(claim: Obj) -> Obj:
    """Return a claim in the form of v1."""
    _, version = split_api_version(claim["apiVersion"])
    return {**claim, "spec": nested_claim(claim.get("spec") or {})} if version in FLAT_VERSIONS else claim


def selector_environment(release: Version, features: frozenset[str]) -> Environment:
    """Return the environment of selectors: they may use all that stored expressions may."""
    return device_environment(release, features=features & _CEL_GATES, stored=True)


def _deadline(timeout: float | None) -> Callable[[], None] | None:
    """Return a function that raises AllocationError once some seconds are over; None without a timeout."""
    if timeout is None:
        return None
    end = time.monotonic() + timeout

    def check() -> None:
        if time.monotonic() > end:
            raise AllocationError("filter operation aborted: context deadline exceeded")

    return check
