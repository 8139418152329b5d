"""Lists compared as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.values import Value, equal


def _contains(values: list[Value], elements: list[Value]) -> bool:
    return all(any(equal(value, each) for value in values) for each in elements)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "list_sets_contains_list": _contains,
    "list_sets_equivalent_list": lambda one, other: _contains(one, other) and _contains(other, one),
    "list_sets_intersects_list": lambda one, other: any(equal(value, each) for value in one for each in other),
}
