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


class Estimate(NamedTuple):
    """From `min` to `max`, both included."""

    min: int
    max: int

    def __add__(self, other: Estimate) -> Estimate:  # type: ignore[override]
        return Estimate(min(self[0] + other[0], LIMIT), min(self[1] + other[1], LIMIT))

    def __mul__(self, other: Estimate) -> Estimate:  # type: ignore[override]
        return Estimate(min(self[0] * other[0], LIMIT), min(self[1] * other[1], LIMIT))

    def __or__(self, other: Estimate) -> Estimate:
        return Estimate(min(self[0], other[0]), max(self[1], other[1]))

    def scaled(self, factor: float) -> Estimate:
        """Both ends times a factor per unit, rounded up."""
        return Estimate(_scaled(self[0], factor), _scaled(self[1], factor))


def _scaled(value: int, factor: float) -> int:
    # In floating point, as upstream: large numbers lose their last digits.
    product = float(value) * factor
    return LIMIT if product >= 2.0**64 else math.ceil(product)


def fixed(value: int) -> Estimate:
    """A range of one number."""
    return Estimate(value, value)


ZERO: Final = fixed(0)
ONE: Final = fixed(1)
UNKNOWN_SIZE: Final = Estimate(0, LIMIT)


@dataclass(frozen=True, slots=True)
class AstNode:
    """An argument, as cost rules see it."""

    node: Node | None
    type: Type
    path: Path
    computed_size: Estimate | None
    """Its size if the expression itself tells."""
    declared_size: Estimate | None
    """Its size if the environment tells."""

    @property
    def size_or_unknown(self) -> Estimate:
        """Its size for the Kubernetes libraries."""
        return self.computed_size or self.declared_size or UNKNOWN_SIZE

    @property
    def size_estimate(self) -> Estimate:
        """Its size for the language's own functions: as `known`, but what is no collection counts one."""
        if self.computed_size or self.declared_size:
            return self.computed_size or self.declared_size or UNKNOWN_SIZE
        return ONE if self.type.kind in _SCALARS else UNKNOWN_SIZE


_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
