"""Match conditions: expressions that all have to be true for a policy or webhook to be asked.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from understudy.admission.expressions.activation import Activation
from understudy.admission.expressions.evaluation import Composition
from understudy.admission.metrics import AdmissionMetrics
from understudy.cel.compiler import Compiled
from understudy.cel.limits.budget import MATCH_CONDITIONS_COST_BUDGET, Budget, OutOfBudgetError
from understudy.machinery.golang.text import aggregate
from understudy.machinery.types import NamedTuple


class ConditionError(Exception):
    """Conditions could not be evaluated, and the failure policy is Fail; the text is the real server's."""


def conditions_match(
    conditions: Sequence[Compiled],
    composition: Composition,
    activation: Activation,
    failure_policy: str,
    observed: Observed,
) -> bool:
    """Report whether all conditions are true (`matcher.Match`).

    One false condition decides, whatever else fails. Without one, an error means no match if the failure policy is
    "Ignore" and raises ConditionError if it is "Fail". Conditions that all are true are not timed.
    """
    started = perf_counter()
    try:
        results = composition.evaluate(conditions, activation, Budget(MATCH_CONDITIONS_COST_BUDGET))
    except OutOfBudgetError as error:
        observed.add(perf_counter() - started, 0)
        return _fail([str(error)], failure_policy)
    texts = []
    for result in results:
        if result.error:
            texts.append(result.error)
        elif result.value is False:
            observed.add(perf_counter() - started, len(texts))
            return False
    if not texts:
        return True
    observed.add(perf_counter() - started, len(texts))
    return _fail(texts, failure_policy)


class Observed(NamedTuple):
    """The metrics of match conditions, with the labels under which they are counted.

    kind       "webhook" or "policy"; `name` is its name
    operation  of the request
    type       of admission
    """

    metrics: AdmissionMetrics
    kind: str
    name: str
    operation: str
    type: str

    def add(self, seconds: float, errors: int) -> None:
        """Count an evaluation that took some seconds and met some errors."""
        labels = self[1:]
        for _ in range(errors):
            self.metrics.condition_errors.add(*labels)
        self.metrics.condition_durations.observe(seconds, *labels)


def _fail(texts: list[str], failure_policy: str) -> bool:
    """Return that conditions do not match. Raises ConditionError if the failure policy is Fail."""
    if failure_policy == "Ignore":
        return False
    raise ConditionError(aggregate(texts))
