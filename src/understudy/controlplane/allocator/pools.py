"""The resource pools of a node (upstream: `GatherPools`).

For each pool: which slices are for the node, the newest generation of them, whether the pool is complete and valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from understudy.controlplane.allocator.errors import AllocationError
from understudy.controlplane.allocator.inventory import Counters, Device, Inventory, Slice
from understudy.controlplane.allocator.rules import InvalidPools, Rules
from understudy.machinery.releases.version import V1_31, V1_33, ByRelease, Version
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.typeinfo.generated_string import generated_string
from understudy.machinery.typeinfo.go_types import Schemas
from understudy.machinery.types import Obj, dataclass, split_api_version


@dataclass
class Pool:
    """The slices of a pool of one generation (upstream: `Pool`).

    `slices` have devices for the node, `elsewhere` are the other ones. `invalid` is why the pool is invalid, or "".
    """

    id: str
    slices: list[Slice]
    elsewhere: list[Slice] = field(default_factory=list)
    counter_sets: dict[str, Counters] = field(default_factory=dict)
    incomplete: bool = False
    invalid: str = ""

    @property
    def name(self) -> str:
        """Return the name of the pool, without the driver."""
        return self.id.partition("/")[2]

    @property
    def has_binding_conditions(self) -> bool:
        """Report whether a device for the node has binding conditions."""
        return any(slice_.has_binding_conditions for slice_ in self.slices)


class NodePools:
    """The pools of a node in the order in which they are visited.

    `devices` are those that a search comes to, one after the other; `refusal` is the error at their end, or "".
    """

    def __init__(self, pools: list[Pool], rules: Rules) -> None:
        self.pools = pools
        self.by_id = {pool.id: pool for pool in pools}
        self.devices: list[Device] = []
        self.refusal = ""
        for pool in pools:
            if rules.invalid_pools is InvalidPools.REFUSED and pool.invalid:
                self.refusal = f"pool {pool.name} is invalid: {pool.invalid}"
                break
            skipped = rules.invalid_pools is InvalidPools.SKIPPED and pool.invalid
            if not skipped and (rules.takes_from_incomplete or not pool.incomplete):
                self.devices += [device for slice_ in pool.slices for device in slice_.devices]


def pools_of(inventory: Inventory, node: Obj) -> NodePools:
    """Return the pools of a node; they are kept until the inventory or the labels of the node change.

    Raises AllocationError for a slice whose node selector is wrong.
    """
    metadata = node["metadata"]
    key = (metadata.get("name", ""), tuple(sorted((metadata.get("labels") or {}).items())))
    pools: NodePools | None = inventory.pools_of_nodes.get(key)
    if pools is None:
        pools = NodePools(list(_gathered(inventory, node)), inventory.rules)
        inventory.pools_of_nodes[key] = pools
    return pools


def is_for_node(slice_: Slice, node: Obj, rules: Rules) -> bool:
    """Report whether a slice counts for a node: it has a device for it, or shared counters. Raises AllocationError."""
    if not rules.partitionable_devices:
        if slice_.per_device is not None or (rules.skips_counters and slice_.counter_sets):
            return False
    if rules.counter_slices and rules.counters_everywhere and slice_.counter_sets:
        return True
    if slice_.node_name or slice_.all_nodes or slice_.node_selector is not None:
        try:
            return node_matches(node, slice_.node_name, slice_.all_nodes, slice_.nodes, rules.release)
        except AllocationError as error:
            raise AllocationError(f"{_GATHERING}{_OF_SLICE[rules.release]} {slice_.name}: {error}") from None
    return bool(slice_.per_device) and any(_has_device(slice_, device, node, rules) for device in slice_.devices)


_GATHERING = "gather pool information: "
_OF_SLICE = ByRelease({V1_33: "failed to perform node selection for slice", V1_31: "node selector in resource slice"})


def _has_device(slice_: Slice, device: Device, node: Obj, rules: Rules) -> bool:
    """Report whether a device of a slice is for a node. Raises AllocationError."""
    try:
        return device_is_for_node(device, node, rules.release)
    except AllocationError as error:
        place = f"for device {_printed(device, rules.release)} in slice {slice_.name}"
        raise AllocationError(f"{_GATHERING}failed to perform node selection {place}: {error}") from None


def _printed(device: Device, version: Version) -> str:
    """Return a device as Go prints it in the version in which its slice is."""
    _, api_version = split_api_version(device.slice.obj["apiVersion"])
    as_sent = device.slice.obj["spec"]["devices"][device.slice.devices.index(device)]
    return generated_string(as_sent, Schemas.of(version).struct(f"k8s.io/api/resource/{api_version}.Device"))


def device_is_for_node(device: Device, node: Obj, version: Version) -> bool:
    """Report whether a device that says itself which nodes it is for is for a node. Raises AllocationError."""
    spec = device.spec
    return node_matches(node, spec.get("nodeName"), spec.get("allNodes") or False, device.nodes, version)


def node_matches(
    node: Obj, node_name: str | None, all_nodes: bool, nodes: NodeSelector | None, version: Version
) -> bool:
    """Report whether the node fields of a slice or device name a node (upstream: `NodeMatches`).

    Raises AllocationError for a selector that is wrong, unless a name or `all_nodes` decides.
    """
    if node_name:
        return bool(node["metadata"].get("name") == node_name)
    if all_nodes or nodes is None:
        return all_nodes
    if error := nodes.error(version):
        if version >= V1_33:
            printed = generated_string(nodes.selector, Schemas.of(version).struct("k8s.io/api/core/v1.NodeSelector"))
            error = f"failed to parse node selector {printed}: {error}"
        raise AllocationError(error)
    return nodes.matches(node)


def _gathered(inventory: Inventory, node: Obj) -> Iterator[Pool]:
    rules = inventory.rules
    name = node["metadata"].get("name", "")
    relevant = [
        slice_ for slice_ in inventory.near(name) if not _is_ignored(slice_, rules) and is_for_node(slice_, node, rules)
    ]
    if rules.binding_slices_last:
        relevant.sort(key=lambda slice_: slice_.has_binding_conditions and not _is_counter_slice(slice_, rules))
    newest: dict[str, list[Slice]] = {}
    for slice_ in relevant:
        _add_slice(newest, slice_, rules)
    pools = [pool for id_, slices in newest.items() if (pool := _pool(id_, slices, inventory)) is not None]
    if rules.sorted_pools:
        pools.sort(key=lambda pool: (pool.id.partition("/")[0], pool.name))
    if rules.binding_last:
        pools.sort(key=lambda pool: pool.has_binding_conditions)
    yield from pools


def _is_ignored(slice_: Slice, rules: Rules) -> bool:
    """Report whether a slice does not count, not even for its pool to be complete: it needs a feature that is off."""
    return slice_.has_groups and not rules.compatibility_groups


def _is_counter_slice(slice_: Slice, rules: Rules) -> bool:
    return rules.counter_slices and bool(slice_.counter_sets)


def _add_slice(newest: dict[str, list[Slice]], slice_: Slice, rules: Rules) -> None:
    """Add a slice to its pool, unless it is older than those that are there; an older generation is dropped."""
    known = newest.get(slice_.pool)
    if known is None:
        newest[slice_.pool] = [slice_]
    elif slice_.generation > known[0].generation:
        newest[slice_.pool] = [slice_] * (2 if rules.counts_newer_twice else 1)
    elif slice_.generation == known[0].generation:
        known.append(slice_)


def _pool(id_: str, slices: list[Slice], inventory: Inventory) -> Pool | None:
    """Return a pool made of the slices for a node, None if there is a newer generation of it."""
    rules, count = inventory.rules, slices[0].count
    incomplete, elsewhere = len(slices) != count, list[Slice]()
    if incomplete and rules.whole_pools:
        generation = slices[0].generation
        everywhere = inventory.by_pool[id_]
        if any(slice_.generation > generation for slice_ in everywhere):
            return None
        same = [slice_ for slice_ in everywhere if slice_.generation == generation and not _is_ignored(slice_, rules)]
        incomplete = len(same) != count
        names = {slice_.name for slice_ in slices}
        elsewhere = [slice_ for slice_ in same if slice_.name not in names]
    pool = Pool(id_, slices, elsewhere, incomplete=incomplete)
    if incomplete and not rules.checks_incomplete:
        return Pool(id_, [], incomplete=True)
    if rules.sorted_pools:
        slices.sort(key=lambda slice_: slice_.name)
    if rules.counter_slices and rules.partitionable_devices:
        pool.slices = [slice_ for slice_ in slices if not slice_.counter_sets]
        pool.invalid = _duplicate_device(pool.slices) or _read_counter_sets(pool, slices, rules)
    elif rules.invalid_pools is not InvalidPools.UNKNOWN:
        pool.invalid = _duplicate_device(slices)
    if pool.invalid and rules.counter_slices:
        return Pool(id_, [], invalid=pool.invalid)
    return pool


def _duplicate_device(slices: list[Slice]) -> str:
    names = set[str]()
    for slice_ in slices:
        for device in slice_.devices:
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
    return ""


def _read_counter_sets(pool: Pool, slices: list[Slice], rules: Rules) -> str:
    """Set the counter sets of a pool; return what is wrong with them or with the devices that consume them, or ""."""
    for slice_ in [*slices, *pool.elsewhere]:
        for counters in slice_.counter_sets:
            if counters.counter_set in pool.counter_sets:
                return f"duplicate counter set name {counters.counter_set}"
            pool.counter_sets[counters.counter_set] = counters
    if not rules.counters_everywhere:
        slices = pool.slices
        pool.elsewhere = [slice_ for slice_ in pool.elsewhere if not slice_.counter_sets]
    for slice_ in [*slices, *pool.elsewhere]:
        for device in slice_.devices:
            for consumed in device.consumes:
                counters_of_pool = pool.counter_sets.get(consumed.counter_set)
                if counters_of_pool is None:
                    return f"counter set {consumed.counter_set} not found"
                for name in consumed.amounts:
                    if name not in counters_of_pool.amounts:
                        return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""
