"""The limits of what evaluations may cost while a request is handled (`pkg/apis/cel/config.go` of apiserver)."""

from __future__ import annotations

from typing import Final

from understudy.cel.limits.interrupts import current_meter

PER_CALL_LIMIT: Final = 1_000_000
"""The cost at which one evaluation is cancelled (`PerCallLimit`)."""
RUNTIME_COST_BUDGET: Final = 10_000_000
"""The budget of all rules of an object, or of a policy's expressions with one binding (`RuntimeCELCostBudget`)."""
MATCH_CONDITIONS_COST_BUDGET: Final = 2_500_000
"""The budget of the match conditions of one webhook or policy (`RuntimeCELCostBudgetMatchConditions`)."""


LARGEST: Final = 10 * PER_CALL_LIMIT
"""The characters or values that a function may make of its arguments: as many as `+` could for all that it may cost."""
_COUNTED_TOGETHER: Final = 1000  # cost that is counted as work of the request at once


class CostLimitError(Exception):
    """An evaluation was cancelled because it cost more than one evaluation may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def check_size(size: int) -> None:
    """Cancel an evaluation that would make something larger than any cost pays for. Raises `CostLimitError`.

    Upstream has no such limit where costs do not count what is made; it takes the memory instead.
    """
    if size > LARGEST:
        raise CostLimitError


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
    """The cost of one evaluation so far (`CostTracker` of cel-go), which is counted as work of its request as well.

    `_pause` is the cost from which on that is to be done again.
    """

    __slots__ = ("_counted", "_meter", "_pause", "cost")

    def __init__(self) -> None:
        self.cost = 0
        self._counted = 0
        self._pause = _COUNTED_TOGETHER
        self._meter = current_meter()

    def charge(self, cost: int) -> None:
        """Add to the cost. Raises `CostLimitError` once it exceeds the limit of one evaluation, and as a meter does."""
        self.cost += cost
        if self.cost > self._pause:
            self._check()

    def _check(self) -> None:
        if self.cost > PER_CALL_LIMIT:
            raise CostLimitError
        self._count()
        self._pause = min(self.cost + _COUNTED_TOGETHER, PER_CALL_LIMIT)

    def _count(self) -> None:
        counted, self._counted = self._counted, self.cost
        self._meter.count(self.cost - counted)

    def end(self, budget: Budget) -> None:
        """Take the cost from a budget. Raises `OutOfBudgetError` if it is more, and as a meter does."""
        self._count()
        budget.spend(self.cost)
