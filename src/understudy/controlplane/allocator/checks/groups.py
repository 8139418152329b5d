"""Compatibility groups: which devices may draw on the same counter set (KEP-5942).

Devices go together on a counter set if all of them name a common group. Those without groups go together with one
another only. Upstream: `compatibility_groups.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.controlplane.allocator.allocated import AllocatedState
from understudy.controlplane.allocator.inventory import Counters, Device
from understudy.controlplane.allocator.pools import NodePools, Pool

Groups = frozenset[str]
CounterSet = tuple[str, str]  # the id of its pool, and its name


class CompatibilityGroups:
    """The groups in common of the devices on each counter set: of devices in use, and of those that a search takes.

    A counter set without devices has none; an empty set of groups is that of devices without groups.
    """

    def __init__(self, pools: NodePools, allocated: AllocatedState) -> None:
        self._pools = pools
        self._allocated = allocated
        self._in_use: dict[str, Mapping[CounterSet, Groups]] = {}
        self._common: dict[CounterSet, Groups] = {}

    def take(self, device: Device) -> Mapping[CounterSet, Groups | None] | None:
        """Put a device on its counter sets; return what `give_back` needs to undo that.

        If its groups do not go with those of the devices that are there, return None and change nothing.
        """
        pool, before = self._pools.by_id[device.slice.pool], dict[CounterSet, Groups | None]()
        for consumed in device.consumes:
            key = pool.id, consumed.counter_set
            known = self._common.get(key)
            before.setdefault(key, known)
            common = known if known is not None else self._of_devices_in_use(pool).get(key)
            if not _goes_with(consumed.groups, common):
                self.give_back(before)
                return None
            self._common[key] = consumed.groups if common is None else common & consumed.groups
        return before

    def give_back(self, before: Mapping[CounterSet, Groups | None]) -> None:
        """Restore the common values from before a device was taken."""
        for key, known in before.items():
            if known is None:
                self._common.pop(key, None)
            else:
                self._common[key] = known

    def _of_devices_in_use(self, pool: Pool) -> Mapping[CounterSet, Groups]:
        if pool.id not in self._in_use:
            slices = [*pool.slices, *pool.elsewhere]
            devices = (device for slice_ in slices for device in slice_.devices if self._allocated.has(device.id))
            common: dict[CounterSet, Groups] = {}
            for device in devices:
                for consumed in device.consumes:
                    _put(common, (pool.id, consumed.counter_set), consumed)
            self._in_use[pool.id] = common
        return self._in_use[pool.id]


def _goes_with(groups: Groups, common: Groups | None) -> bool:
    """Report whether a device with groups goes with those on a counter set; `common` is None if there are none."""
    return common is None or bool(groups & common) or not (groups or common)


def _put(common: dict[CounterSet, Groups], key: CounterSet, consumed: Counters) -> None:
    """Put a device that is in use on a counter set; one that does not go with the others does not change it."""
    known = common.get(key)
    if known is None:
        common[key] = consumed.groups
    elif known and consumed.groups:
        common[key] = known & consumed.groups
