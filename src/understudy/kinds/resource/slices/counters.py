"""Validation of counters that the devices of a pool share and consume (KEP-4815).

Up to 1.34 devices consume counters of their own slice, and what is limited is the number of counters in all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.kinds.common.formats import label
from understudy.kinds.resource.common.each import validate_map, validate_set
from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid, required
from understudy.machinery.validation.names import LABEL_LENGTH

SETS = 8
COUNTERS_OF_SET = 32
CONSUMED_SETS = 2
CONSUMED_COUNTERS = 32

# Up to 1.34.
COUNTERS_OF_SLICE = 32
CONSUMED_BY_DEVICE = 32
CONSUMED_IN_SLICE = 1024

Names = dict[str, frozenset[str]]


def names(spec: Obj) -> Names:
    """Return the names of the counters of a slice, by counter set (upstream: `gatherSharedCounterCounterNames`)."""
    return {each.get("name", ""): frozenset(each.get("counters") or ()) for each in spec.get("sharedCounters") or ()}


def shared(spec: Obj, path: Path, rules: ReleaseRules) -> Errors:
    """Check the counters that a slice shares among devices."""
    sets, where = spec.get("sharedCounters") or (), path.child("sharedCounters")
    errors: Errors = []
    if rules.counters_of_slice:
        devices = spec.get("devices") or ()
        consumed = _count(each for device in devices for each in device.get("consumesCounters") or ())
        errors += _limited(
            consumed, CONSUMED_IN_SLICE, "the total number of counters in devices", path.child("devices")
        )
        errors += _limited(_count(sets), COUNTERS_OF_SLICE, "the total number of shared counters", where)
    return errors + validate_set(
        sets,
        None if rules.counters_of_slice else SETS,
        lambda each, here: _counters(each, "name", COUNTERS_OF_SET, here, rules),
        lambda each: each.get("name", ""),
        where,
        rules,
        "name",
    )


def consumed(device: Obj, path: Path, rules: ReleaseRules, of_slice: Names) -> Errors:
    """Check the counters that a device at `path` consumes; `of_slice`: those that its slice shares."""
    uses = device.get("consumesCounters")
    if not uses:
        return []
    where = path.child("consumesCounters")
    errors = validate_set(
        uses,
        None if rules.counters_of_slice else CONSUMED_SETS,
        lambda use, here: _counters(use, "counterSet", CONSUMED_COUNTERS, here, rules),
        lambda use: use.get("counterSet", ""),
        where,
        rules,
        "counterSet",
    )
    if rules.counters_of_slice:
        errors += _limited(_count(uses), CONSUMED_BY_DEVICE, "the total number of counters", path)
        errors += [error for i, use in enumerate(uses) for error in _references(use, where.index(i), of_slice)]
    return errors


def _counters(obj: Obj, key: str, most: int, path: Path, rules: ReleaseRules) -> Errors:
    """Check a counter set, whose name is at `key`, or a use of one."""
    name, counters = obj.get(key, ""), obj.get("counters")
    errors = [] if name else [required(path.child(key))]
    if name and (key == "name" or not rules.counters_of_slice):
        errors += label(name, path.child(key))
    if not counters:
        return [*errors, required(path.child("counters"))]
    return errors + validate_map(
        counters,
        LABEL_LENGTH,
        label,
        _any_amount,
        path.child("counters"),
        rules,
        None if rules.counters_of_slice else most,
    )


def _any_amount(counter: Any, path: Path) -> Errors:
    """Find no errors: whatever can be parsed is a good quantity."""
    return []


def _references(use: Obj, path: Path, of_slice: Names) -> Errors:
    """Check that a device consumes counters that its slice has."""
    known = of_slice.get(use.get("counterSet", ""))
    if known is None:
        text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
        return [invalid(path.child("counterSet"), use.get("counterSet", ""), text)]
    text = "must reference a counter defined in the ResourceSlice sharedCounters"
    where = path.child("counters")
    return [invalid(where, name, text) for name in use.get("counters") or () if name not in known]


def _count(sets: Iterable[Obj]) -> int:
    return sum(len(each.get("counters") or ()) for each in sets)


def _limited(number: int, most: int, subject: str, path: Path) -> Errors:
    return [invalid(path, number, f"{subject} must not exceed {most}")] if number > most else []
