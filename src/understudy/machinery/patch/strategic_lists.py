"""The order of lists in strategic merge patches.

    order of the patch    [c, a]         elements that it names come in this order
    the object's list     [a, b, c, d]   the others keep theirs, and each is before the first named
    result                [c, a, b, d]   element that followed it in the object's list

Elements are known only by their merge key ("" for lists of scalars). Fields and directives are unknown here, except for
`$patch: delete`, whose elements are left out of comparisons.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from understudy.machinery.errors import StatusError, bad_request, unknown_error, unprocessable
from understudy.machinery.golang import fmt

PATCH = "$patch"


Identity = tuple[type[Any], Any]


def identity(value: Any) -> Identity:
    """Return a key, equal for scalars that are the same (`fmt.same_scalar`) and for other values that print alike."""
    return type(value), fmt.print_value(value) if isinstance(value, dict | list) else value


def bad_argument_type(expected: Any, actual: Any) -> StatusError:
    """Return the error for a value of another Go type than `expected` (upstream: `ErrBadArgType`)."""
    return unknown_error(f"expected a {fmt.type_name(expected)}, but received a {fmt.type_name(actual)}")


def are_scalars(*lists: list[Any]) -> bool:
    """Report whether the elements of lists are scalars (upstream: `sliceElementType`). Raises StatusError unless they
    all have one type."""
    types = {fmt.base_type(item) for items in lists for item in items}
    first = next((item for items in lists for item in items), None)
    if not types:
        raise unknown_error("no elements in any of the given slices")
    if isinstance(first, list):
        raise unprocessable()
    if len(types) > 1:
        raise unknown_error(f"list element types are not identical: {fmt.print_value(list(lists))}")
    return not isinstance(first, dict)


def merge_scalars(current: list[Any], patch: list[Any]) -> list[Any]:
    """Return both lists without duplicates (upstream: `uniqifyScalars`). The last element takes the place of a
    duplicate."""
    items = current + patch
    positions: dict[Identity, list[int]] = {}  # heaps; positions behind the end are out of date
    for index, item in enumerate(items):
        positions.setdefault(identity(item), []).append(index)
    if len(positions) == len(items):
        return items
    i = 0
    while i < len(items):
        same = positions[identity(items[i])]
        while same and same[0] < len(items):
            duplicate = heappop(same)
            if duplicate <= i:
                continue
            last = items.pop()
            if duplicate < len(items):
                items[duplicate] = last
                heappush(positions[identity(last)], duplicate)
        i += 1
    return items


def partition(items: list[Any], by: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Split `items` into those that are in `by`, and the others (upstream: `partitionMapsByPresentInList`)."""
    if not merge_key:
        position = _positions(by, "")
        named = [item for item in items if position(item) >= 0]
        return named, [item for item in items if position(item) < 0]
    for item in items:
        _check_merge_key(item, merge_key)
    for index, item in enumerate(by):
        if items and not isinstance(item, dict):
            raise unknown_error(f"value for key {index} is not a map")
    position = _positions([item for item in by if merge_key in item], merge_key)
    named = [item for item in items if position(item) >= 0]
    return named, [item for item in items if position(item) < 0]


def normalize_element_order(
    named: list[Any], others: list[Any], order: list[Any], server: list[Any], merge_key: str
) -> list[Any]:
    """Sort `named` by `order` and `others` by the list of the `server`, and merge them (upstream:
    `normalizeElementOrder`)."""
    named = _sort_by(named, order, merge_key)
    others = _sort_by(others, server, merge_key)
    position = _positions(server, merge_key)
    out: list[Any] = []
    i = j = 0
    while i < len(others) and j < len(named):
        left, right = position(others[i]), position(named[j])
        if 0 <= left < right:
            out.append(others[i])
            i += 1
        else:
            out.append(named[j])
            j += 1
    return out + others[i:] + named[j:]


def validate_patch_with_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Raise StatusError 500 unless the elements of the patch are in `$setElementOrder` in the same relative order.

    Upstream: `validatePatchWithSetOrderList`.
    """
    if not patch or not order:
        return
    for item in patch:
        if merge_key and not isinstance(item, dict):
            raise bad_argument_type({}, item)
    ordered = [item for item in patch if not (merge_key and item.get(PATCH) == "delete")]
    at = place = 0
    while at < len(ordered) and place < len(order):
        if isinstance(ordered[at], dict) and PATCH in ordered[at]:
            at += 1
            continue
        at += _same_element(ordered[at], order[place], merge_key)
        place += 1
    if at < len(ordered):
        raise unknown_error(
            f"The order in patch list:\n{fmt.print_value(patch)}\n doesn't match $setElementOrder list:\n"
            f"{fmt.print_value(order)}\n"
        )


def _same_element(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return fmt.same_scalar(left, right)
    _check_merge_key(left, merge_key)
    _check_merge_key(right, merge_key)
    return fmt.same_scalar(left[merge_key], right[merge_key])


def _check_merge_key(item: Any, merge_key: str) -> None:
    """Raise StatusError 500 unless an element is a map with the merge key."""
    if not isinstance(item, dict):
        raise bad_argument_type({}, item)
    if merge_key not in item:
        raise unknown_error(f"map: {fmt.print_value(item)} does not contain declared merge key: {merge_key}")


def _positions(items: Sequence[Any], merge_key: str) -> Callable[[Any], int]:
    """Return a function from an element to its position in `items`, -1 if it is not there. Both raise 400 for elements
    that Go cannot compare."""

    def comparable(item: Any) -> tuple[type[Any], Any]:
        value = item.get(merge_key) if merge_key else item
        if isinstance(value, dict | list):
            raise bad_request("invalid JSON document")  # the real server crashes: Go cannot compare maps
        return type(value), value

    positions: dict[tuple[type[Any], Any], int] = {}
    for index, item in enumerate(items):
        positions.setdefault(comparable(item), index)
    return lambda item: positions.get(comparable(item), -1)


def _sort_by(items: list[Any], order: list[Any], merge_key: str) -> list[Any]:
    """Sort `items` by their position in `order`; those marked with `$patch: delete` come last."""
    if merge_key:
        for item in (*items, *order):
            _check_merge_key(item, merge_key)
    deleted = [item for item in items if merge_key and item.get(PATCH) == "delete"]
    if deleted:
        items = [item for item in items if item.get(PATCH) != "delete"]
    position = _positions(order, merge_key)
    if all(position(item) >= 0 for item in items):
        return sorted(items, key=position) + deleted
    return _insertion_sorted(items, position) + deleted


def _insertion_sorted(items: list[Any], position: Callable[[Any], int]) -> list[Any]:
    """Sort items some of which the order does not know, as Go's stable sort does: these move before all that are
    before them, and others move past these."""
    known: list[tuple[int, int]] = []  # the position in the order and the index of those that it knows, sorted
    following = [-1] * len(items)
    first = -1
    for index, item in enumerate(items):
        place = position(item)
        at = bisect(known, (place, index)) if place >= 0 else 0
        if at:
            before = known[at - 1][1]
            following[index], following[before] = following[before], index
        else:
            following[index], first = first, index
        if place >= 0:
            known.insert(at, (place, index))
    out: list[Any] = []
    while first >= 0:
        out.append(items[first])
        first = following[first]
    return out
