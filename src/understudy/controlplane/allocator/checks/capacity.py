"""Consumable capacity: how much of a device a request takes, and whether there is as much left.

Upstream: `consumable_capacity.go`. A device that allows several allocations is shared until its capacity is used up.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.controlplane.allocator.allocated import Amounts
from understudy.controlplane.allocator.errors import AllocationError
from understudy.controlplane.allocator.inventory import Capacity, Device
from understudy.controlplane.allocator.rules import Rules
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import BINARY_SI, Quantity, parse, wrapped
from understudy.machinery.types import Obj

_LARGEST = 2**63 - 1
_UNROUNDED = "capacity request cannot be represented in the device's range arithmetic"


class Demand:
    """The amount of each capacity of a device that a request takes.

    refusal  why the request never gets the device, however much of it is free, or ""
    alone    whether the device has enough while no other request takes anything

    Raises AllocationError for an amount that cannot be rounded to the steps of the device, and for a negative one, if
    the release refuses them.
    """

    def __init__(self, requested: Mapping[str, str], device: Device, rules: Rules) -> None:
        self.capacity = device.capacity
        self.amounts: Amounts = {}
        self.refusal = ""
        if missing := [name for name in requested if name not in device.capacity]:
            self.refusal = f"has no capacity {', '.join(missing)}"
            return
        for name, capacity in device.capacity.items():
            try:
                self.amounts[name] = _consumed(requested.get(name), capacity, rules)
            except AllocationError as error:
                raise AllocationError(f"capacity {go_quote(name)}: {error}") from None
        for name, amount in self.amounts.items():
            if _violates(amount, self.capacity[name].policy or {}, rules):
                self.refusal = f"does not let {amount} of {name} be requested"
                return
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


def _consumed(requested: str | None, capacity: Capacity, rules: Rules) -> Quantity:
    """Return the capacity taken for a requested amount, None for no amount. Raises AllocationError."""
    amount = _resolved(requested, capacity, rules)
    if rules.refuses_amounts and amount.value < 0:
        raise AllocationError("capacity value is negative")
    return amount


def _resolved(requested: str | None, capacity: Capacity, rules: Rules) -> Quantity:
    """Return the capacity taken for a requested amount, None for no amount (upstream: `calculateConsumedCapacity`).

    It is the policy's default or all there is without an amount, else the amount, rounded up to what the policy allows.
    """
    policy = capacity.policy or {}
    if requested is None:
        return parse(policy["default"]) if policy.get("default") is not None else capacity.value
    amount, valid = parse(str(requested)), policy.get("validRange") or {}
    if valid.get("min") is not None:
        return _round_up(amount, valid, rules)
    for value in policy.get("validValues") or ():
        if amount <= parse(value):
            return parse(value)
    return amount


def _round_up(amount: Quantity, valid: Obj, rules: Rules) -> Quantity:
    """Return an amount that is in steps from the smallest one on (upstream: `roundUpRange`). Raises AllocationError.

    Go computes with integers of 64 bits, of thousandths or of units: what they do not hold cannot be rounded.
    """
    smallest = parse(valid["min"])
    if amount < smallest:
        return smallest
    if valid.get("step") is None:
        return amount
    unit, step = _unit(valid, rules), parse(valid["step"])
    if unit:
        if not _is_exact(amount, unit):
            raise AllocationError(f"{_UNROUNDED}: request {amount} is not a representable milli value")
    elif rules.refuses_amounts and amount > _LARGEST:
        raise AllocationError(f"{_UNROUNDED}: request {amount} exceeds MaxInt64")
    value, start, size = (_go_integer(each, unit) for each in (amount, smallest, step))
    steps = _steps(wrapped(value - start), size)
    if rules.refuses_amounts and (unit or start >= 0) and steps > (_LARGEST - start) // size:
        passes = "the milli-value range" if unit else "MaxInt64"
        raise AllocationError(f"{_UNROUNDED}: rounding request {amount} up to the next step passes {passes}")
    format_ = step.format if rules.refuses_amounts else BINARY_SI
    return Quantity(wrapped(start + steps * size), unit, format_)


def _go_integer(amount: Quantity, unit: int) -> int:
    """Return an amount in a unit as Go's integers hold it."""
    return amount.scaled(unit) if unit else amount.go_value()


def _steps(distance: int, size: int) -> int:
    """Return the number of steps that cover a distance: of a negative one, which an overflow makes, too."""
    whole, rest = divmod(abs(distance), size)
    return (whole if distance >= 0 else -whole) + bool(rest)


def _unit(valid: Obj, rules: Rules) -> int:
    """Return the exponent of the unit in which amounts are rounded: -3 for thousandths, 0 for whole ones.

    Thousandths need the feature, and bounds and steps that are so many of them (upstream: `useMilli`).
    """
    bounds = [parse(valid[name]) for name in ("min", "max", "step") if valid.get(name) is not None]
    return -3 if rules.fractions and all(_is_exact(bound, -3) for bound in bounds) else 0


def _is_exact(amount: Quantity, unit: int) -> bool:
    """Report whether an amount is an integer of 64 bits in a unit (upstream: `safeMilliValue`)."""
    scaled = amount.scaled(unit)
    return abs(scaled) <= _LARGEST and amount == Quantity(scaled, unit, amount.format)


def _violates(amount: Quantity, policy: Obj, rules: Rules) -> bool:
    """Report whether a policy does not allow an amount (upstream: `violatesPolicy`). Its default is always allowed."""
    if policy.get("default") is not None and amount == (default := parse(policy["default"])):
        if amount.text == default.text:
            return False
    valid = policy.get("validRange")
    if valid is not None:
        if valid.get("max") is not None and amount > parse(valid["max"]):
            return True
        if valid.get("step") is None:
            return False
        unit = _unit(valid, rules)
        if unit and not _is_exact(amount, unit):
            return True
        smallest, step = parse(valid["min"]), parse(valid["step"])
        value, start, size = (_go_integer(each, unit) for each in (amount, smallest, step))
        return bool(wrapped(value - start) % size)
    values = policy.get("validValues") or ()
    return bool(values) and not any(amount == parse(value) for value in values)
