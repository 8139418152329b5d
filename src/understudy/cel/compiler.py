"""The compilation of an expression: parse, check, validate, plan, estimate.

A stage runs only if the one before reported no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from typing import Any, Literal

from understudy.cel.ast import Node, names_in
from understudy.cel.checker.checker import check
from understudy.cel.checker.environment import Environment
from understudy.cel.checker.validators import validate
from understudy.cel.cost import estimator
from understudy.cel.errors import NO_LOCATION, EvaluationError, RecursionDepthError, Report
from understudy.cel.interpreter import cost_tracking, planner
from understudy.cel.limits.budget import PER_CALL_LIMIT, Budget, CostLimitError, CostTracker, PanicError
from understudy.cel.parser import quick_parser
from understudy.cel.parser.builder import NodeBuilder
from understudy.cel.parser.dialect import DIALECTS
from understudy.cel.parser.macros import Macro, MacroKey
from understudy.cel.parser.tokens import Token, scan
from understudy.cel.types import Type
from understudy.cel.values import Value
from understudy.machinery.releases.features import DRA_LIST_TYPE_ATTRIBUTES
from understudy.machinery.releases.version import Version
from understudy.machinery.types import dataclass
from understudy.machinery.util.deep_recursion import call_deeply

MAX_COST = 2**64 - 1
Program = Callable[[dict[str, Value]], Value]
TrackingProgram = Callable[[dict[str, Value], CostTracker], Value]


@dataclass(frozen=True)
class Compiled:
    """A compiled expression, or the error that it has.

    `error` is the detail of the validation error, None if the expression compiled: `compilation failed: …` or `must
    evaluate to bool or the unknown type, not …` (kind "invalid", printed as `Invalid value: "<expression>": <error>`),
    or `program instantiation failed: …` (kind "internal", printed as `Internal error: <error>`). `cost` is the
    worst-case estimate; with an error it is the largest 64-bit number. `type` is that of the result, and
    `features` are the feature gates of the environment. Expressions have a `tracking_program`, which counts its cost,
    and the `names` that they use, also those in comprehensions. Only those about devices that cannot cost more than one
    evaluation may, as far as is known, have a `program` instead, which does not count.

    The validation of device selectors does the following, in this order, from 1.32 on (`validateCELSelector` of
    `pkg/apis/resource/validation`): an expression of more than 10240 bytes of UTF-8 is `Too long: may not be more than
    10240 bytes` and is not compiled; an error is reported as above; a `cost` over 1 000 000 is `Forbidden: too complex,
    exceeds cost limit`. 1.31 has neither limit.
    """

    expression: str
    error: str | None = None
    error_kind: Literal["", "invalid", "internal"] = ""
    cost: int = MAX_COST
    program: Program | None = field(default=None, repr=False, compare=False)
    tracking_program: TrackingProgram | None = field(default=None, repr=False, compare=False)
    type: Type | None = field(default=None, repr=False, compare=False)
    features: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def evaluate(self, device: Mapping[str, Any]) -> bool:
        """Report whether a device matches. Raises `EvaluationError` with cel-go's text if the evaluation fails.

        `device` is `{"driver": str, "attributes": {name: {"int"|"bool"|"string"|"version": value}}, "capacity": {name:
        quantity}, "allowMultipleAllocations": bool}`; names are qualified (`domain/name`) or belong to the driver's
        domain. With `DRAListTypeAttributes` an attribute may also be `{"ints"|"bools"|"strings"|"versions": values}`.
        """
        from understudy.cel.interpreter.device import device_value

        return self.matches(device_value(device, lists=DRA_LIST_TYPE_ATTRIBUTES in self.features))

    def matches(self, device: Value) -> bool:
        """Report whether a device matches, given as the value that `interpreter.device.device_value` makes of it.

        For those who ask many expressions about one device. Raises `EvaluationError` as `evaluate` does.
        """
        from understudy.cel.interpreter.device import as_bool

        return as_bool(self.value_for(device))

    def value_for(self, device: Value) -> Value:
        """Return the value of an expression about a device, given as for `matches`. Raises `EvaluationError`."""
        if self.error is not None:
            raise EvaluationError(f"expression did not compile: {self.error}")
        try:
            if self.program is not None:
                return self.program({"device": device})
            assert self.tracking_program is not None
            return self.tracking_program({"device": device}, CostTracker())
        except CostLimitError as error:
            raise EvaluationError(str(error)) from None

    def run(self, variables: Mapping[str, Value], budget: Budget) -> Value:
        """Return the value of an expression that is not a device selector, and take its cost from a budget.

        `variables` are CEL values by name: JSON as it is, or what `interpreter.unstructured` makes of it.

        Raises `OutOfBudgetError` if the evaluation cost more than the budget, else `CostLimitError` if it was cancelled
        because it cost more than one evaluation may, else `EvaluationError` with cel-go's text if it failed.
        """
        if self.tracking_program is None:
            raise EvaluationError(f"expression did not compile: {self.error}")
        tracker = CostTracker()
        try:
            value = self.tracking_program(dict(variables), tracker)
        except PanicError as error:
            tracker.end(budget)
            raise EvaluationError(f"internal error: {error}") from None
        except (CostLimitError, EvaluationError):
            tracker.end(budget)
            raise
        tracker.end(budget)
        return value


def compile(expression: str, environment: Environment) -> Compiled:  # noqa: A001 - named as the field names it
    """Return the compiled expression, from a cache if it was compiled before.

    No text makes this raise. It may be called from several threads.
    """
    for longest, kept in _KEPT:
        if len(expression) <= longest:
            return kept(expression, environment)
    return compile_anew(expression, environment)


def compile_anew(expression: str, environment: Environment) -> Compiled:
    """Return the compiled expression, which is not kept."""
    return call_deeply(_compile, expression, environment)  # cel-go takes 250 levels in several ways at once


# Characters of an expression, and how many programs of such ones are kept: a program takes some hundred times the
# memory of its text, so that few long ones are, up to what selectors may have.
_KEPT = [(longest, lru_cache(count)(compile_anew)) for longest, count in ((128, 2048), (1024, 128), (10 * 1024, 16))]


def _compile(expression: str, environment: Environment) -> Compiled:
    report = Report(expression, environment.empty_column)
    tree = parse(expression, report, environment)
    if tree is not None and not report.errors:
        check(tree, environment.declarations, report, environment.version)
        if not report.errors:
            validate(tree, report)
    if tree is None or report.errors:
        return Compiled(expression, f"compilation failed: {report}", "invalid")
    assert tree.type is not None
    if wrong := environment.result_error(tree.type):
        return Compiled(expression, wrong, "invalid")
    program, tracking_program, names = None, None, frozenset[str]()
    try:
        cost = estimator.estimate_cost(tree, environment.version, environment.estimate_size)
        if environment.counts_cost or cost > PER_CALL_LIMIT:
            tracking_program = cost_tracking.plan(
                tree, environment.declarations, environment.version, strict=environment.strict_cost
            )
            names = names_in(tree)
        else:
            program = planner.plan(tree, environment.declarations, environment.version)
    except planner.PlanError as failure:
        return Compiled(expression, f"program instantiation failed: {failure}", "internal")
    return Compiled(
        expression,
        cost=cost,
        program=program,
        tracking_program=tracking_program,
        type=tree.type,
        features=environment.features,
        names=names,
    )


def parse(expression: str, report: Report, environment: Environment) -> Node | None:
    """Return the tree of an expression with macros expanded, None if it has errors; they go to `report`."""
    return parse_with_macros(expression, report, environment.declarations.macros, environment.version)


def parse_with_macros(
    expression: str, report: Report, macros: Mapping[MacroKey, Macro], version: Version
) -> Node | None:
    """Return the tree of an expression with given macros expanded, None if it has errors; they go to `report`."""
    dialect = DIALECTS[version]
    tokens, unreadable = scan(expression, quoted_fields=dialect.quoted_fields)
    builder = NodeBuilder(report, macros, dialect)
    if not unreadable and quick_parser.surely_within_limits(tokens):
        try:
            tree = _parse_quickly(tokens, builder)
        except RecursionDepthError as error:
            tree = None
            if not report.errors:
                report.add(NO_LOCATION, str(error))
                return None
        if tree is not None and not report.errors:
            return tree
        report.clear()
    from understudy.cel.parser import antlr_parser  # seldom needed, and a fifth of what CEL takes to import

    return antlr_parser.parse(tokens, unreadable, builder)


def _parse_quickly(tokens: Sequence[Token], builder: NodeBuilder) -> Node | None:
    """Return the tree, None if there are syntax errors. Raises `RecursionDepthError`."""
    with suppress(quick_parser.SyntaxMismatchError):
        return quick_parser.parse(tokens, builder)
    return None
