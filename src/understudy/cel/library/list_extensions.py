"""The list library of cel-go: `slice`, `flatten`, `sort`, `sortBy`, `reverse`, `distinct`, `lists.range`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.limits.budget import check_size
from understudy.cel.values import Value, equal, type_name
from understudy.machinery.releases.version import V1_37, Version

_COMPARABLE = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"]


def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"{call}, list is length {len(values)}")
    return values[start:end]


def _flatten_once(values: Value) -> list[Value]:
    if not isinstance(values, list):
        raise EvaluationError(f"no such overload: {type_name(values)}.flatten()")
    return _flatten(values, 1)


def _flatten_to(values: Value, depth: Value) -> list[Value]:
    if not isinstance(values, list) or type(depth) is not int:
        raise EvaluationError(f"no such overload: {type_name(values)}.flatten({type_name(depth)})")
    return _flatten(values, depth)


def _flatten(values: list[Value], depth: int) -> list[Value]:
    """Return a list with the elements of its lists in their place, down to a depth. Raises `EvaluationError`."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    check_size(len(values))
    for value in values:
        if isinstance(value, list) and depth:
            flattened = _flatten(value, depth - 1)
            check_size(len(flat) + len(flattened))
            flat += flattened
        else:
            flat.append(value)
    return flat


def _sort(values: list[Value], keys: list[Value]) -> list[Value]:
    """Return a list in the order of the keys that its elements have, one each. Raises `EvaluationError`."""
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return [values[index] for index in order]


def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not any(equal(value, other) for other in unique):
            unique.append(value)
    return unique


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "list_distinct": _distinct,
    "list_flatten": _flatten_once,
    "list_flatten_int": _flatten_to,
    "list_reverse": lambda values: values[::-1],
    "list_slice": _slice,
    "lists_range": lambda count: list(range(count)),
    **{f"list_{kind}_sort": lambda values: _sort(values, values) for kind in _COMPARABLE},
    **{f"list_{kind}_sortByAssociatedKeys": _sort for kind in _COMPARABLE},
}

LONGEST_RANGE = 1_000_000
"""The most numbers that `lists.range` makes since 1.37."""


def functions_of(version: Version) -> Mapping[str, Callable[..., Value]]:
    """Return the functions that depend on the release."""
    return {"lists_range": _range} if version >= V1_37 else {}


def _range(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > LONGEST_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({LONGEST_RANGE})")
    return list(range(count))
