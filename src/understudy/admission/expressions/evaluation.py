"""The evaluation of compiled expressions within a budget, and of the variables that a policy composes them of.

Source: k8s.io/apiserver/pkg/admission/plugin/cel (activation.go, composition.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter

from understudy.admission.expressions.activation import Activation
from understudy.cel.compiler import Compiled
from understudy.cel.errors import EvaluationError
from understudy.cel.limits.budget import Budget, CostLimitError
from understudy.cel.values import Value
from understudy.machinery.types import NamedTuple


class Result(NamedTuple):
    """The value of an expression, or the text of the error that it ended with ("": none), and how long that took."""

    value: Value
    error: str = ""
    seconds: float = 0.0


class Composition:
    """The variables that a policy declares, compiled; an expression evaluates those that it names."""

    def __init__(self, variables: Mapping[str, Compiled]) -> None:
        self._variables = variables

    def evaluate(self, expressions: Iterable[Compiled | None], activation: Activation, budget: Budget) -> list[Result]:
        """Return the results of expressions (None: there is none), with the errors as policies report them.

        A variable is evaluated once for all of them. Raises OutOfBudgetError. Upstream: `ForInput`.
        """
        scope = {**activation, "variables": _Variables(self._variables, activation, budget)}
        return [Result(None) if compiled is None else _evaluate(compiled, scope, budget) for compiled in expressions]


class _Variables(dict[str, Value]):
    """The map `variables`: an entry is made when it is read first (`lazy.MapValue`)."""

    def __init__(self, compiled: Mapping[str, Compiled], activation: Activation, budget: Budget) -> None:
        super().__init__()
        self._compiled = compiled
        self._scope = {**activation, "variables": self}
        self._budget = budget
        self._errors: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        """Report whether there is a variable, and evaluate it: `has` fails as it does. Raises EvaluationError."""
        if not isinstance(name, str) or name not in self._compiled:
            return False
        self[name]
        return True

    def __missing__(self, name: str) -> Value:
        if name not in self._errors:
            result = _run(self._compiled[name], self._scope, self._budget)
            if not result.error:
                self[name] = result.value
                return result.value
            self._errors[name] = result.error
        raise EvaluationError(f'composited variable "{name}" fails to evaluate: {self._errors[name]}')


def _evaluate(compiled: Compiled, scope: Activation, budget: Budget) -> Result:
    if compiled.error is not None:
        return Result(None, f"compilation error: {compiled.error}")
    started = perf_counter()
    value, error, _ = _run(compiled, scope, budget)
    seconds = perf_counter() - started
    if error:
        return Result(None, f"expression '{compiled.expression}' resulted in error: {error}", seconds)
    return Result(value, "", seconds)


def _run(compiled: Compiled, scope: Activation, budget: Budget) -> Result:
    """Return the result of an expression, with the error as cel-go words it. Raises OutOfBudgetError."""
    try:
        return Result(compiled.run(scope, budget))
    except (EvaluationError, CostLimitError) as error:
        return Result(None, str(error))
