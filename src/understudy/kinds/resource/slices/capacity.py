"""Validation of the capacity of a device that several claims can share: how much a claim may ask for (KEP-5075)."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.resource.common.each import validate_set
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid, required

VALID_VALUES = 10


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
        return _values([parse(value) for value in values], default, most, where.child(kind), rules)
    return _range(range_, default, most, where.child(kind))


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
        lambda value: str(value.scaled(0)),
        path,
        rules,
    )
    if default not in values or (rules.stops_at_limit and len(values) > VALID_VALUES):
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _range(range_: Obj, default: Quantity, capacity: Quantity, path: Path) -> Errors:
    """Check the range of amounts that a claim may ask for (upstream: `validateRequestPolicyRange`)."""
    least, most, step = (parse(range_[name]) if range_.get(name) else None for name in ("min", "max", "step"))
    at_min, at_max, at_step = path.child("min"), path.child("max"), path.child("step")
    if least is None:
        return [required(at_min, "required when validRange is defined")]
    errors = _at_most(least, capacity, at_min, "min is larger than capacity value")
    if default < least:
        errors.append(invalid(at_min, str(default), f"default is less than min: {least}"))
    if most is not None:
        errors += _at_most(least, most, at_max, "min is larger than max")
        errors += _at_most(most, capacity, at_max, "max is larger than capacity value")
        errors += _at_most(default, most, at_max, "default is more than max")
    if step is None:
        return errors
    if least + step > capacity:
        text = f"one step {least + step} is larger than capacity value: {capacity}"
        errors.append(invalid(at_step, str(step), text))
    for value in (default, most):
        if value is not None and not _is_step(value, least, step):
            text = f"value is not a multiple of a given step ({step}) from ({least})"
            errors.append(invalid(at_step, str(value), text))
    return errors


def _at_most(value: Quantity, most: Quantity, path: Path, text: str) -> Errors:
    return [invalid(path, str(value), f"{text}: {most}")] if value > most else []


def _is_step(value: Quantity, least: Quantity, step: Quantity) -> bool:
    """Report whether a value can be reached in whole steps; nothing in steps of 0, where the real server crashes."""
    size = step.scaled(0)
    return size != 0 and (value.scaled(0) - least.scaled(0)) % size == 0
