"""The limits of what evaluations may cost while a request is handled (`pkg/apis/cel/config.go` of apiserver)."""

from __future__ import annotations

from typing import Final

PER_CALL_LIMIT: Final = 1_000_000
"""The cost at which one evaluation is cancelled (`PerCallLimit`)."""
RUNTIME_COST_BUDGET: Final = 10_000_000
"""The budget of all rules of an object, or of a policy's expressions with one binding (`RuntimeCELCostBudget`)."""
MATCH_CONDITIONS_COST_BUDGET: Final = 2_500_000
"""The budget of the match conditions of one webhook or policy (`RuntimeCELCostBudgetMatchConditions`)."""


class CostLimitError(Exception):
    """An evaluation was cancelled because it cost more than one evaluation may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class PanicError(Exception):
    """An evaluation ended in a failure of upstream's code, which ends it whatever is around it."""


class OutOfBudgetError(Exception):
    """An evaluation cost more than was left of the budget that it shares with others."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class Budget:
    """The cost that remains for the evaluations that share it."""

    __slots__ = ("remaining",)

    def __init__(self, remaining: int = RUNTIME_COST_BUDGET) -> None:
        self.remaining = remaining

    def spend(self, cost: int) -> None:
        """Take the cost of an evaluation from the budget. Raises `OutOfBudgetError` and takes nothing if it is more."""
        if cost > self.remaining:
            raise OutOfBudgetError
        self.remaining -= cost


class CostTracker:
    """The cost of one evaluation so far (`CostTracker` of cel-go)."""

    __slots__ = ("cost", "limit")

    def __init__(self, limit: int = PER_CALL_LIMIT) -> None:
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises `CostLimitError` once it exceeds the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError
