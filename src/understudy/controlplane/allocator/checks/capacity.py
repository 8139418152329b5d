"""Consumable capacity: how much of a device a request takes, and whether there is as much left.

Upstream: `consumable_capacity.go`. A device that allows several allocations is shared until its capacity is used up.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.controlplane.allocator.allocated import Amounts
from understudy.controlplane.allocator.inventory import Capacity, Device
from understudy.machinery.quantity import BINARY_SI, Quantity, parse
from understudy.machinery.types import Obj


class Demand:
    """The amount of each capacity of a device that a request takes.

    refusal  why the request never gets the device, however much of it is free, or ""
    alone    whether the device has enough while no other request takes anything
    """

    def __init__(self, requested: Mapping[str, str], device: Device) -> None:
        self.capacity = device.capacity
        self.amounts: Amounts = {}
        self.refusal = ""
        if missing := [name for name in requested if name not in device.capacity]:
            self.refusal = f"has no capacity {', '.join(missing)}"
            return
        for name, capacity in device.capacity.items():
            amount = _consumed(requested.get(name), capacity)
            if _violates(amount, capacity.policy or {}):
                self.refusal = f"does not let {amount} of {name} be requested"
                return
            self.amounts[name] = amount
        self.alone = self.too_much() is None

    def too_much(self, *taken: Mapping[str, Quantity] | None) -> str | None:
        """Return the first capacity of which less is left than the request takes, None if there is enough of all.

        taken  what others take
        """
        for name, amount in self.amounts.items():
            for other in taken:
                if other and name in other:
                    amount += other[name]
            if amount > self.capacity[name].value:
                return name
        return None


def _consumed(requested: str | None, capacity: Capacity) -> Quantity:
    """Return how much is taken when an amount is requested, None for no amount (upstream: `calculateConsumedCapacity`).

    It is the policy's default or all there is without an amount, else the amount, rounded up to what the policy allows.
    """
    policy = capacity.policy or {}
    if requested is None:
        return parse(policy["default"]) if policy.get("default") is not None else capacity.value
    amount, valid = parse(str(requested)), policy.get("validRange") or {}
    if valid.get("min") is not None:
        return _round_up(amount, valid)
    for value in policy.get("validValues") or ():
        if amount <= parse(value):
            return parse(value)
    return amount


def _round_up(amount: Quantity, valid: Obj) -> Quantity:
    """Return an amount that is in steps from the smallest one on (upstream: `roundUpRange`)."""
    smallest = parse(valid["min"])
    if amount < smallest:
        return smallest
    if valid.get("step") is None:
        return amount
    start, step = smallest.scaled(0), parse(valid["step"]).scaled(0)
    steps = -(-(amount.scaled(0) - start) // step)
    return Quantity(start + steps * step, 0, BINARY_SI)


def _violates(amount: Quantity, policy: Obj) -> bool:
    """Report whether a policy does not allow an amount (upstream: `violatesPolicy`). Its default is always allowed."""
    if policy.get("default") is not None and amount == (default := parse(policy["default"])):
        if amount.text == default.text:
            return False
    valid = policy.get("validRange")
    if valid is not None:
        if valid.get("max") is not None and amount > parse(valid["max"]):
            return True
        if valid.get("step") is not None:
            return bool((amount.scaled(0) - parse(valid["min"]).scaled(0)) % parse(valid["step"]).scaled(0))
        return False
    values = policy.get("validValues") or ()
    return bool(values) and not any(amount == parse(value) for value in values)
