"""Ranges of unsigned 64-bit numbers: sizes and costs from a least to a greatest; they saturate, never overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from understudy.admission.cel.ast import Node
from understudy.admission.cel.types import Type

LIMIT: Final = 2**64 - 1

Path = tuple[str, ...]
"""Where a value comes from: a variable, then fields, `@items`, `@keys` or `@values`."""


class Range(NamedTuple):
    """From `min` to `max`, both included."""

    min: int
    max: int

    def __add__(self, other: Range) -> Range:  # type: ignore[override]
        return Range(min(self[0] + other[0], LIMIT), min(self[1] + other[1], LIMIT))

    def __mul__(self, other: Range) -> Range:  # type: ignore[override]
        return Range(min(self[0] * other[0], LIMIT), min(self[1] * other[1], LIMIT))

    def __or__(self, other: Range) -> Range:
        return Range(min(self[0], other[0]), max(self[1], other[1]))

    def scaled(self, factor: float) -> Range:
        """Both ends times a factor per unit, rounded up."""
        return Range(_scaled(self[0], factor), _scaled(self[1], factor))


def _scaled(value: int, factor: float) -> int:
    # In floating point, as upstream: large numbers lose their last digits.
    product = float(value) * factor
    return LIMIT if product >= 2.0**64 else math.ceil(product)


def exactly(value: int) -> Range:
    """A range of one number."""
    return Range(value, value)


FREE: Final = exactly(0)
ONE: Final = exactly(1)
ANYTHING: Final = Range(0, LIMIT)


@dataclass(frozen=True, slots=True)
class Item:
    """An argument, as cost rules see it."""

    node: Node | None
    type: Type
    path: Path
    computed: Range | None
    """Its size if the expression itself tells."""
    declared: Range | None
    """Its size if the environment tells."""

    @property
    def known(self) -> Range:
        """Its size for the Kubernetes libraries."""
        return self.computed or self.declared or ANYTHING

    @property
    def size(self) -> Range:
        """Its size for the language's own functions: as `known`, but what is no collection counts one."""
        if self.computed or self.declared:
            return self.computed or self.declared or ANYTHING
        return ONE if self.type.kind in _SCALARS else ANYTHING


_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
