"""The function `includes` of the list library (1.37): whether a value is another, or a list that has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.values import Value, equal


def _includes(target: Value, value: Value) -> bool:
    return any(equal(item, value) for item in target) if isinstance(target, list) else equal(target, value)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"list_includes_dyn_dyn": _includes}
