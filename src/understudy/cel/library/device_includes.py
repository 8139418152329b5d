"""The function `includes` of device selectors: whether an attribute is a value, or a list that has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.values import Value, equal

MAX_VALUES = 48
"""The number of values that the attributes of a device may have (`ResourceSliceMaxAttributeValuesPerDevice`)."""


def _includes(target: Value, value: Value) -> bool:
    """Report whether a target is a value or includes it. Raises `EvaluationError` if it has to look too far."""
    if not isinstance(target, list):
        return equal(target, value)
    if any(equal(element, value) for element in target[:MAX_VALUES]):
        return True
    if len(target) > MAX_VALUES:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {MAX_VALUES} values")
    return False


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"dra_includes_dyn_dyn": _includes}
