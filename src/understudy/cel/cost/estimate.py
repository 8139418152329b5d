"""Estimates of sizes and costs: unsigned 64-bit numbers from a minimum to a maximum; they saturate, never overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from understudy.cel.ast import Node
from understudy.cel.types import Type
from understudy.machinery.types import NamedTuple, dataclass

LIMIT: Final = 2**64 - 1

Path = tuple[str, ...]
"""The origin of a value: a variable, then fields, `@items`, `@keys` or `@values`."""


class Estimate(NamedTuple):
    """A size or cost between `min` and `max`, both included (`SizeEstimate` and `CostEstimate` in cel-go)."""

    min: int
    max: int

    def __add__(self, other: Estimate) -> Estimate:  # type: ignore[override]
        return Estimate(min(self[0] + other[0], LIMIT), min(self[1] + other[1], LIMIT))

    def __mul__(self, other: Estimate) -> Estimate:  # type: ignore[override]
        return Estimate(min(self[0] * other[0], LIMIT), min(self[1] * other[1], LIMIT))

    def __or__(self, other: Estimate) -> Estimate:
        return Estimate(min(self[0], other[0]), max(self[1], other[1]))

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate multiplied by a cost per unit, rounded up (`MultiplyByCostFactor`)."""
        return Estimate(_scaled(self[0], factor), _scaled(self[1], factor))


def _scaled(value: int, factor: float) -> int:
    # In floating point, as in cel-go: large numbers lose their last digits.
    product = float(value) * factor
    return LIMIT if product >= 2.0**64 else math.ceil(product)


def fixed(value: int) -> Estimate:
    """Return the estimate of a number that is known (`FixedSizeEstimate`)."""
    return Estimate(value, value)


ZERO: Final = fixed(0)
ONE: Final = fixed(1)
UNKNOWN_SIZE: Final = Estimate(0, LIMIT)
SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
"""The kinds of types whose values all have size 1."""


SizeEstimator = Callable[[Path], Estimate | None]
"""Returns the size of the value at a path, None if nothing limits it."""


def unlimited(_path: Path) -> Estimate | None:
    """Return None: nothing limits the value."""
    return None


@dataclass(frozen=True, slots=True)
class AstNode:
    """A node as cost rules see it (`AstNode` in cel-go's `checker/cost.go`)."""

    node: Node | None
    type: Type
    path: Path
    computed_size: Estimate | None
    """The size if it follows from the expression (`ComputedSize`)."""
    declared_size: Estimate | None
    """The size if it follows from the limits of the API or of a schema (`EstimateSize`)."""
    estimate_size: SizeEstimator

    @property
    def size_or_unknown(self) -> Estimate:
        """Return the size for the rules of the Kubernetes libraries, `UNKNOWN_SIZE` if it is not known."""
        return self.computed_size or self.declared_size or UNKNOWN_SIZE

    @property
    def size_estimate(self) -> Estimate:
        """Return the size for the rules of the standard functions: like `size_or_unknown`, but scalars have size 1."""
        if self.computed_size or self.declared_size:
            return self.computed_size or self.declared_size or UNKNOWN_SIZE
        return ONE if self.type.kind in SCALARS else UNKNOWN_SIZE
