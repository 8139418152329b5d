"""The devices that ResourceSlices offer, in the form that the search needs.

An `Inventory` is made once for a list of slices and shared by all allocations until a slice changes. The next one is
made from the previous one, so that only slices that changed are read again:

    inventory = Inventory(version, features, slices)
    inventory = Inventory(version, features, newer_slices, inventory)

It also keeps what is true as long as the slices stay as they are: the answers of selectors, and the pools of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from understudy.controlplane.allocator.rules import Rules
from understudy.kinds.resource.common.flat_form import nested_slice
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases.features import DRA_LIST_TYPE_ATTRIBUTES
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import Obj, split_api_version

FLAT_VERSIONS = ("v1beta1", "v1alpha3")


class Counters:
    """The amounts that a counter set has, or that a device takes of it (upstream: `DeviceCounterConsumption`)."""

    __slots__ = ("amounts", "counter_set", "groups")

    def __init__(self, counter_set: str, counters: Mapping[str, Obj], groups: Iterable[str] = ()) -> None:
        self.counter_set = counter_set
        self.groups = frozenset(groups)
        self.amounts = {name: parse(str(counter["value"])) for name, counter in counters.items()}


class Capacity:
    """A capacity of a device, with the policy of requests for parts of it (upstream: `DeviceCapacity`)."""

    __slots__ = ("policy", "value")

    def __init__(self, capacity: Obj) -> None:
        self.value: Quantity = parse(str(capacity["value"]))
        self.policy: Obj | None = capacity.get("requestPolicy")


class Device:
    """A device of a slice. `id` is `driver/pool/device`; invalid pools may have it twice.

    `answers` keeps what expressions say of the device: a bool, or the exception that the evaluation ends with.
    `derived` keeps the attributes that expressions derive of it.
    """

    def __init__(self, spec: Obj, slice_: Slice) -> None:
        self.spec = spec
        self.slice = slice_
        self.name: str = spec["name"]
        self.id = f"{slice_.pool}/{self.name}"
        self.unknown = "basic" in spec
        self.attributes: Mapping[str, Obj] = spec.get("attributes") or {}
        self.taints: list[Obj] = spec.get("taints") or []
        self.shareable: bool = spec.get("allowMultipleAllocations") or False
        self.binding_conditions: list[str] | None = spec.get("bindingConditions")
        self.answers: dict[str, bool | Exception] = {}
        self.derived: dict[str, Obj] = {}

    @cached_property
    def nodes(self) -> NodeSelector | None:
        """Return the selector of the nodes that the device is for, if it has one."""
        selector = self.spec.get("nodeSelector")
        return None if selector is None else NodeSelector(selector)

    @cached_property
    def consumes(self) -> list[Counters]:
        """Return the counters that the device consumes."""
        entries = self.spec.get("consumesCounters") or ()
        return [
            Counters(entry["counterSet"], entry.get("counters") or {}, entry.get("compatibilityGroups") or ())
            for entry in entries
        ]

    @cached_property
    def capacity(self) -> dict[str, Capacity]:
        """Return the capacities by name."""
        return {name: Capacity(capacity) for name, capacity in (self.spec.get("capacity") or {}).items()}

    @cached_property
    def value(self) -> Any:
        """Return the CEL value of `device`. Raises EvaluationError for attributes that have none.

        Its `allowMultipleAllocations` is false in an allocator that does not know capacity.
        """
        from understudy.cel.interpreter.device import device_value

        shareable = self.shareable and self.slice.knows_capacity
        shown = {**self.spec, "driver": self.slice.driver, "allowMultipleAllocations": shareable}
        return device_value(shown, lists=self.slice.lists)


class Slice:
    """A ResourceSlice. `pool` is `driver/pool`, `order` its place in the list."""

    def __init__(self, obj: Obj, rules: Rules, lists: bool) -> None:
        spec: Obj = _internal_spec(obj, rules)
        self.obj = obj
        self.order = 0
        self.lists = lists
        self.knows_capacity = rules.knows_capacity
        self.name: str = obj["metadata"].get("name", "")
        self.driver: str = spec["driver"]
        pool = spec["pool"]
        self.pool_name: str = pool["name"]
        self.pool = f"{self.driver}/{self.pool_name}"
        self.generation: int = pool.get("generation") or 0
        self.count: int = pool.get("resourceSliceCount") or 0
        self.node_name: str | None = spec.get("nodeName")
        self.all_nodes: bool = spec.get("allNodes") or False
        self.node_selector: Obj | None = spec.get("nodeSelector")
        self.skipped_operations: list[str] = spec.get("skipNodeOperations") or []
        self.per_device: bool | None = spec.get("perDeviceNodeSelection")
        self.counter_sets = [
            Counters(entry["name"], entry.get("counters") or {}) for entry in spec.get("sharedCounters") or ()
        ]
        self.devices = [Device(device, self) for device in spec.get("devices") or ()]

    @cached_property
    def nodes(self) -> NodeSelector | None:
        """Return the selector of the nodes that the slice is for, if it has one."""
        return None if self.node_selector is None else NodeSelector(self.node_selector)

    @cached_property
    def has_groups(self) -> bool:
        """Report whether a device that consumes counters has compatibility groups."""
        return any(consumed.groups for device in self.devices for consumed in device.consumes)

    @cached_property
    def has_binding_conditions(self) -> bool:
        """Report whether a device has a list of binding conditions, be it empty."""
        return any(device.binding_conditions is not None for device in self.devices)


def _internal_spec(obj: Obj, rules: Rules) -> Obj:
    """Return the spec of a slice in the form of v1."""
    _, version = split_api_version(obj["apiVersion"])
    if version not in FLAT_VERSIONS:
        spec: Obj = obj["spec"]
        return spec
    capacity = (lambda quantity: {"value": quantity}) if version == "v1alpha3" else None
    return nested_slice(obj["spec"], capacity, as_internal=rules.release < V1_34)


class Inventory:
    """The slices of a cluster, for the allocators of one release with one set of features.

    previous  the inventory before a change: slices that are still the same object are not read again
    """

    def __init__(
        self, version: Version, features: frozenset[str], slices: Iterable[Obj], previous: Inventory | None = None
    ) -> None:
        rules, lists = Rules.of(version, features), DRA_LIST_TYPE_ATTRIBUTES in features
        known = {id(slice_.obj): slice_ for slice_ in previous.slices} if previous else {}
        self.rules = rules
        self.slices: list[Slice] = [known.get(id(obj)) or Slice(obj, rules, lists) for obj in slices]
        self.by_node: dict[str, list[Slice]] = {}
        self.shared: list[Slice] = []
        self.by_pool: dict[str, list[Slice]] = {}
        self.pools_of_nodes: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}  # kept by `pools.pools_of`
        for order, slice_ in enumerate(self.slices):
            slice_.order = order
            self.by_pool.setdefault(slice_.pool, []).append(slice_)
            if slice_.node_name and not (slice_.counter_sets and rules.counters_everywhere):
                self.by_node.setdefault(slice_.node_name, []).append(slice_)
            else:
                self.shared.append(slice_)

    def near(self, node_name: str) -> list[Slice]:
        """Return the slices that may be for a node: its own ones before the others, or in the order of the list.

        The first slice of a pool says how many there are, which matters while a driver changes that.
        """
        slices = self.by_node.get(node_name, []) + self.shared
        if not self.rules.own_slices_first:
            slices.sort(key=lambda slice_: slice_.order)
        return slices
