"""Match conditions: expressions that all have to be true for a policy or webhook to be asked.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.cel.compiler import Compiled
from understudy.admission.cel.cost.budget import MATCH_CONDITIONS_COST_BUDGET, Budget, OutOfBudgetError
from understudy.admission.expressions.activation import Activation
from understudy.admission.expressions.evaluation import Composition
from understudy.machinery.golang.text import aggregate


class ConditionError(Exception):
    """Conditions could not be evaluated, and the failure policy is Fail; the text is the real server's."""


def conditions_match(
    conditions: Sequence[Compiled], composition: Composition, activation: Activation, failure_policy: str
) -> bool:
    """Report whether all conditions are true (`matcher.Match`).

    A false one decides. If there is none but an error, they do not match, or ConditionError is raised, as the failure
    policy ("Ignore" or "Fail") says.
    """
    try:
        results = composition.evaluate(conditions, activation, Budget(MATCH_CONDITIONS_COST_BUDGET))
    except OutOfBudgetError as error:
        return _fail([str(error)], failure_policy)
    if any(result.value is False and not result.error for result in results):
        return False
    texts = [result.error for result in results if result.error]
    return _fail(texts, failure_policy) if texts else True


def _fail(texts: list[str], failure_policy: str) -> bool:
    """Return that conditions do not match. Raises ConditionError if the failure policy is Fail."""
    if failure_policy == "Ignore":
        return False
    raise ConditionError(aggregate(list(dict.fromkeys(texts))))
