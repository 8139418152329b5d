"""Shared counters of partitionable devices: which of them are used up.

A counter set says how much there is, and devices say how much of it they consume. `SharedCounters` adds up what the
devices of a search consume; what the devices in use consume is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.controlplane.allocator.inventory import Counters, Device
from understudy.controlplane.allocator.pools import Pool
from understudy.controlplane.allocator.rules import CountersOf, Rules
from understudy.machinery.quantity import DECIMAL_SI, Quantity

Sets = dict[str, dict[str, Quantity]]

_NOTHING = Quantity(0, 0, DECIMAL_SI)


class SharedCounters:
    """The counters that a search consumes, by the part of the devices that share them (`Rules.counters_of`).

    available  the counters that the devices in use leave; kept by the allocator for all its searches
    allocated  the devices in use
    """

    def __init__(self, rules: Rules, available: dict[str, Sets], allocated: AllocatedState) -> None:
        self._rules = rules
        self._available = available
        self._allocated = allocated
        self._consumed: dict[str, Sets] = {}

    def reserve(self, device: Device, pool: Pool | None, allocating: Callable[[str], bool]) -> str:
        """Consume the counters of a device; return the counter that is used up, having consumed nothing, or "".

        pool        the pool that has the counters, None if the slice has them
        allocating  whether the search has allocated a device, by its id
        """
        if self._rules.counts_in_parts:
            return self._exhausted_of_slice(device, allocating)
        part = self._part(device)
        available = self._available.get(part)
        if available is None:
            available = self._available[part] = self._left(device, pool)
        consumed = self._consumed.setdefault(part, {})
        _add(consumed, device.consumes)
        for name, counters in available.items():
            used = consumed.get(name) or {}
            for counter, left in counters.items():
                if left < used.get(counter, _NOTHING):
                    self.give_back(device)
                    return f"{name}/{counter}"
        return ""

    def give_back(self, device: Device) -> None:
        """Return the counters that a device consumed."""
        if not self._rules.counts_in_parts:
            _subtract(self._consumed[self._part(device)], device.consumes)

    def _part(self, device: Device) -> str:
        """Return the key of what shares its counters with a device."""
        match self._rules.counters_of:
            case CountersOf.POOL:
                return device.slice.pool
            case CountersOf.POOL_NAME:
                return device.slice.pool_name
            case CountersOf.SLICE:
                return device.slice.name

    def _left(self, device: Device, pool: Pool | None) -> Sets:
        """Return the rest of the counters that a device shares, less those of the devices in use."""
        if pool is None:
            sets, slices = device.slice.counter_sets, [device.slice]
        else:
            sets, slices = list(pool.counter_sets.values()), [*pool.slices, *pool.elsewhere]
        left = {counters.counter_set: dict(counters.amounts) for counters in sets}
        for slice_ in slices:
            for other in slice_.devices:
                if self._in_use(other):
                    _subtract(left, other.consumes)
        return left

    def _in_use(self, device: Device) -> bool:
        """Report whether a device is in use and so consumes counters."""
        if self._rules.shares_count:
            return self._allocated.has(device.id)
        return device.id in self._allocated.devices

    def _exhausted_of_slice(self, device: Device, allocating: Callable[[str], bool]) -> str:
        """Return a counter of which the slice has less left than the device consumes, or none at all, else "".

        Upstream: `checkAvailableCapacity` of 1.33.
        """
        names = {consumed.counter_set for consumed in device.consumes}
        sets = device.slice.counter_sets
        left = {counters.counter_set: dict(counters.amounts) for counters in sets if counters.counter_set in names}
        for other in device.slice.devices:
            if self._in_use(other) or allocating(other.id):
                _subtract(left, other.consumes)
        for consumed in device.consumes:
            counters = left.get(consumed.counter_set) or {}
            for counter, amount in consumed.amounts.items():
                if counter not in counters or counters[counter] < amount:
                    return f"{consumed.counter_set}/{counter}"
        return ""


def _add(sets: Sets, consumes: Iterable[Counters]) -> None:
    for consumed in consumes:
        counters = sets.setdefault(consumed.counter_set, {})
        for name, amount in consumed.amounts.items():
            counters[name] = counters[name] + amount if name in counters else amount


def _subtract(sets: Sets, consumes: Iterable[Counters]) -> None:
    for consumed in consumes:
        counters = sets.get(consumed.counter_set) or {}
        for name, amount in consumed.amounts.items():
            if name in counters:
                counters[name] -= amount
