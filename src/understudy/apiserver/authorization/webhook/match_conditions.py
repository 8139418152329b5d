"""Conditions about SubjectAccessReviews: CEL expressions that all have to be true for a webhook to be asked.

Upstream: k8s.io/apiserver/pkg/authorization/cel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from time import perf_counter

from understudy import cel
from understudy.apiserver.authorization.metrics import ConditionMetrics
from understudy.cel.checker.declarations import Declarations
from understudy.cel.checker.environment import Environment, base_libraries, build_declarations
from understudy.cel.compiler import Compiled
from understudy.cel.limits.interrupts import Meter, metered
from understudy.cel.types import BOOL
from understudy.machinery.golang.text import aggregate
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

_SPEC, _RESOURCE, _PATH = (
    f"kubernetes.{name}" for name in ("SubjectAccessReviewSpec", "ResourceAttributes", "NonResourceAttributes")
)
_FIELDS, _LABELS = "kubernetes.FieldSelectorAttributes", "kubernetes.LabelSelectorAttributes"
_REQUIREMENT = "kubernetes.SelectorRequirement"
_SELECTOR = {"rawSelector": "string", "requirements": f"list({_REQUIREMENT})"}
_ATTRIBUTES = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
_TYPES = {
    _SPEC: {
        "resourceAttributes": _RESOURCE,
        "nonResourceAttributes": _PATH,
        "user": "string",
        "groups": "list(string)",
        "extra": "map(string, list(string))",
        "uid": "string",
    },
    _PATH: {"path": "string", "verb": "string"},
    _FIELDS: _SELECTOR,
    _LABELS: _SELECTOR,
    _REQUIREMENT: {"key": "string", "operator": "string", "values": "list(string)"},
}
_SELECTORS = {"fieldSelector": _FIELDS, "labelSelector": _LABELS}


@cache
def _declarations(version: Version, selectors: bool) -> Declarations:
    resource = {**dict.fromkeys(_ATTRIBUTES, "string"), **(_SELECTORS if selectors else {})}
    messages = {**_TYPES, _RESOURCE: resource}
    return build_declarations(version, base_libraries(version, True), {"request": _SPEC}, messages)


def compile_condition(expression: str, version: Version, *, selectors: bool) -> Compiled:
    """Return a compiled condition; `selectors` says whether it may use those of lists."""
    environment = Environment(
        version,
        features=frozenset(),
        stored=True,
        declarations=_declarations(version, selectors),
        result_error=lambda result: "" if result is BOOL else f"must evaluate to bool but got {result.declared_name}",
        purpose=("authorization", selectors),
    )
    return cel.compile(expression, environment)


class MatchConditions:
    """The conditions of one webhook.

    name  of its authorizer
    """

    def __init__(self, name: str, conditions: Sequence[Compiled], metrics: ConditionMetrics) -> None:
        self._name = name
        self._conditions = conditions
        self._metrics = metrics

    def match(self, spec: Obj) -> tuple[bool, str]:
        """Report whether all conditions are true of the spec of a review, and the error of those that failed, "" for
        none; one that is false decides, whatever else fails (`CELMatcher.Eval`)."""
        started, request = perf_counter(), _seen(spec)
        with metered(Meter()):
            matches, error = self._evaluated(request)
        self._metrics.observe(self._name, perf_counter() - started, matches=matches, failed=bool(error))
        return matches, error

    def _evaluated(self, request: Obj) -> tuple[bool, str]:
        errors = list[str]()
        for condition in self._conditions:
            try:
                matches = condition.run({"request": request}, cel.Budget())
            except (cel.EvaluationError, cel.CostLimitError, cel.OutOfBudgetError) as error:
                text = f"expression '{condition.expression}' resulted in error: {error}"
                errors.append(f"cel evaluation error: {text}")
                continue
            if not matches:
                return False, ""
        return not errors, aggregate(errors) if errors else ""


def _seen(spec: Obj) -> Obj:
    """Return a spec as conditions see it, with all texts, empty ones included (`convertObjectToUnstructured`)."""
    seen: Obj = {"user": "", "uid": "", "groups": [], "extra": {}, **spec}
    if resource := spec.get("resourceAttributes"):
        selectors = {name: _seen_selector(resource[name]) for name in _SELECTORS if name in resource}
        seen["resourceAttributes"] = {**dict.fromkeys(_ATTRIBUTES, ""), **resource, **selectors}
    if action := spec.get("nonResourceAttributes"):
        seen["nonResourceAttributes"] = {"path": "", "verb": "", **action}
    return seen


def _seen_selector(selector: Obj) -> Obj:
    return {"requirements": [{"values": [], **requirement} for requirement in selector["requirements"]]}
