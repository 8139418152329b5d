"""Validation of the capacity of a device that several claims can share: how much a claim may ask for (KEP-5075)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.quantity import Quantity, parse, parse_as_sent
from understudy.machinery.releases import features
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

VALID_VALUES = 10
_MAX_INT64 = 2**63 - 1


def validate(capacity: Obj, path: Path, rules: ReleaseRules, shared: bool) -> Errors:
    """Check one capacity; `shared`: whether its device allows multiple allocations.

    Whatever can be parsed is a good amount. Upstream: `validateMultiAllocatableDeviceCapacity`,
    `validateSingleAllocatableDeviceCapacity`.
    """
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    where = path.child("requestPolicy")
    if not shared:
        return [forbidden(where, "allowMultipleAllocations must be true")]
    values, range_ = policy.get("validValues"), policy.get("validRange")
    if values and range_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(where, text)]
    kind = "validValues" if values else "validRange"
    if not values and range_ is None:
        return []
    if policy.get("default") is None:
        return [required(where.child("default"), f"required when {kind} is defined")]
    most, default = parse(capacity["value"]), parse(policy["default"])
    if values:
        return _values([parse_as_sent(value) for value in values], default, most, where.child(kind), rules)
    return _range(range_, default, most, where.child(kind), rules)


def _values(values: Sequence[Quantity], default: Quantity, most: Quantity, path: Path, rules: ReleaseRules) -> Errors:
    """Check the amounts that a claim may ask for (upstream: `validateRequestPolicyValidValues`)."""
    errors = [
        invalid(path.index(i), str(value), "values must be sorted in ascending order")
        for i, value in enumerate(values)
        if i and values[i - 1] > value
    ]
    errors += validate_set(
        values,
        VALID_VALUES,
        lambda value, here: _at_most(value, most, here, "option is larger than capacity value"),
        lambda value: (
            _with_fractions(value) if features.DRA_FRACTIONAL_CAPACITY_RANGE in rules.enabled else _whole(value)
        ),
        path,
        rules,
    )
    if default not in values or (rules.stops_at_limit and len(values) > VALID_VALUES):
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _range(range_: Obj, default: Quantity, capacity: Quantity, path: Path, rules: ReleaseRules) -> Errors:
    """Check the range of amounts that a claim may ask for (upstream: `validateRequestPolicyRange`)."""
    least, most, step = (parse(range_[name]) if range_.get(name) else None for name in ("min", "max", "step"))
    at_min, at_max, at_default = path.child("min"), path.child("max"), path.child("default")
    if least is None:
        return [required(at_min, "required when validRange is defined")]
    errors = _at_most(least, capacity, at_min, "min is larger than capacity value")
    if default < least:
        where = at_default if rules.bounds_ranges else at_min
        errors.append(invalid(where, str(default), f"default is less than min: {least}"))
    if most is not None:
        errors += _at_most(least, most, at_max, "min is larger than max")
        errors += _at_most(most, capacity, at_max, "max is larger than capacity value")
        errors += _at_most(default, most, at_default if rules.bounds_ranges else at_max, "default is more than max")
    amounts = {"default": default, "min": least, "max": most, "step": step}
    given = {name: amount for name, amount in amounts.items() if amount is not None}
    fractions = features.DRA_FRACTIONAL_CAPACITY_RANGE in rules.enabled and any(map(_has_fraction, given.values()))
    if fractions and (unsafe := _too_fine(given, path)):
        return errors + unsafe
    if step is None:
        return errors
    if rules.bounds_ranges and step <= 0:
        return [*errors, invalid(path.child("step"), str(step), "must be greater than zero")]
    errors += _one_step(least, step, capacity, path.child("step"))
    unsafe = _out_of_bounds(given, path) if rules.bounds_ranges and not fractions else []
    if unsafe:
        return errors + unsafe
    for value in (default, most):
        if value is not None and not _is_step(value, least, step, -3 if fractions else 0):
            text = f"value is not a multiple of a given step ({step}) from ({least})"
            errors.append(invalid(path.child("step"), str(value), text))
    return errors


def _one_step(least: Quantity, step: Quantity, capacity: Quantity, path: Path) -> Errors:
    if not least + step > capacity:
        return []
    return [invalid(path, str(step), f"one step {least + step} is larger than capacity value: {capacity}")]


def _too_fine(amounts: Mapping[str, Quantity], path: Path) -> Errors:
    """Find amounts with more than three decimals."""
    return [
        invalid(path.child(name), str(amount), "value cannot be represented as a milli value")
        for name, amount in amounts.items()
        if amount.round_up(-3) != amount
    ]


def _out_of_bounds(amounts: Mapping[str, Quantity], path: Path) -> Errors:
    """Find amounts that are no 64 bit numbers (upstream: `validateInt64Range`)."""
    errors: Errors = []
    for name, amount in amounts.items():
        if amount < 0:
            errors.append(invalid(path.child(name), str(amount), "must be greater than or equal to 0"))
        elif amount > _MAX_INT64:
            errors.append(invalid(path.child(name), str(amount), f"must not be larger than {_MAX_INT64}"))
    return errors


def _has_fraction(amount: Quantity) -> bool:
    return amount.round_up(0) != amount


def _whole(amount: Quantity) -> str:
    return str(amount.scaled(0))


def _with_fractions(amount: Quantity) -> str:
    """Return an amount with as many decimals as it was written with: 1 and 1000m are two."""
    decimals = max(-amount.exponent, 0)
    sign, digits = "-" * (amount.value < 0), f"{abs(amount.scaled(-decimals)):0{decimals + 1}d}"
    return f"{sign}{digits[:-decimals]}.{digits[-decimals:]}" if decimals else f"{sign}{digits}"


def _at_most(value: Quantity, most: Quantity, path: Path, text: str) -> Errors:
    return [invalid(path, str(value), f"{text}: {most}")] if value > most else []


def _is_step(value: Quantity, least: Quantity, step: Quantity, exponent: int) -> bool:
    """Report whether a value can be reached in whole steps, counted in units of 10**exponent.

    Nothing can be in steps of 0, where releases before 1.37 crash.
    """
    size = step.scaled(exponent)
    return size != 0 and (value.scaled(exponent) - least.scaled(exponent)) % size == 0
