"""The devices in use: what the allocations of all claims take (upstream: `allocateddevices.go` of kube-scheduler).

An `AllocatedState` can follow claims as they come and go, so that it is not rebuilt for every pod:

    state = AllocatedState(rules, claims)
    state.remove(old_claim)
    state.add(new_claim)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from understudy.controlplane.allocator.rules import Rules
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj

Amounts = dict[str, Quantity]


def add(total: Amounts, amounts: Mapping[str, Quantity]) -> Amounts:
    """Return the sums of amounts."""
    return total | {name: total[name] + amount if name in total else amount for name, amount in amounts.items()}


def subtract(total: Amounts, amounts: Mapping[str, Quantity]) -> Amounts:
    """Return amounts less others; names that are not there are ignored."""
    return total | {name: total[name] - amount for name, amount in amounts.items() if name in total}


class AllocatedState:
    """The devices in use by their ids, and the capacity that is taken of devices that are shared.

    `devices` and `shares` map the id of a device to the claims that have it, as NAMESPACE/NAME.
    """

    def __init__(self, rules: Rules, claims: Iterable[Obj] = ()) -> None:
        self._rules = rules
        self.devices: dict[str, list[str]] = {}
        self.shares: dict[str, list[str]] = {}
        self.capacity: dict[str, Amounts] = {}
        self._parts: dict[str, int] = {}
        for claim in claims:
            self.add(claim)

    def add(self, claim: Obj) -> None:
        """Take the devices of a claim's allocation, if it has one."""
        name = key_of(claim)
        for device, result in self._in_use(claim):
            if self._is_share(result):
                self.shares.setdefault(device, []).append(name)
                if (amounts := _consumed(result)) is not None:
                    self.capacity[device] = add(self.capacity.get(device, {}), amounts)
                    self._parts[device] = self._parts.get(device, 0) + 1
            else:
                self.devices.setdefault(device, []).append(name)

    def remove(self, claim: Obj) -> None:
        """Free the devices of a claim that was added with the same allocation."""
        name = key_of(claim)
        for device, result in self._in_use(claim):
            share = self._is_share(result)
            _remove(self.shares if share else self.devices, device, name)
            if share and (amounts := _consumed(result)) is not None:
                self.capacity[device] = subtract(self.capacity[device], amounts)
                self._parts[device] -= 1
                if not self._parts[device]:
                    del self.capacity[device], self._parts[device]

    def has(self, device: str) -> bool:
        """Report whether a device is in use, be it by shares (upstream: `IsDeviceAllocated`)."""
        return device in self.devices or device in self.shares

    def _in_use(self, claim: Obj) -> Iterator[tuple[str, Obj]]:
        """Yield the ids and results of a claim's devices but for those with admin access, which others may have too."""
        for result in device_results(claim):
            if not result.get("adminAccess") or not self._rules.admin_in_results:
                yield f"{result['driver']}/{result['pool']}/{result['device']}", result

    def _is_share(self, result: Obj) -> bool:
        return self._rules.consumable_capacity and result.get("shareID") is not None


def key_of(claim: Obj) -> str:
    """Return NAMESPACE/NAME of a claim, or its name alone without a namespace (upstream: `klog.KObj`)."""
    metadata = claim["metadata"]
    namespace, name = metadata.get("namespace"), str(metadata.get("name", ""))
    return f"{namespace}/{name}" if namespace else name


def device_results(claim: Obj) -> Sequence[Obj]:
    """Return the devices of a claim's allocation, `status.allocation.devices.results`; none without an allocation."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def _consumed(result: Obj) -> Amounts | None:
    consumed = result.get("consumedCapacity")
    return None if consumed is None else {name: parse(str(amount)) for name, amount in consumed.items()}


def _remove(holders: dict[str, list[str]], device: str, name: str) -> None:
    holders[device].remove(name)
    if not holders[device]:
        del holders[device]
