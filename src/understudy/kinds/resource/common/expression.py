"""Validation of CEL expressions about devices: of selectors, and of derived attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.kinds.resource.common.release_rules import ReleaseRules
from understudy.machinery.validation.field import Errors, Path, forbidden, internal, invalid, too_long
from understudy.machinery.validation.names import size

if TYPE_CHECKING:
    from understudy.cel import Environment


def selector_errors(expression: str, path: Path, rules: ReleaseRules, stored: bool) -> Errors:
    """Check the expression of a selector; `stored`: it is unchanged since it was stored."""
    if stored and not rules.compiles_stored:
        return []
    from understudy.cel.checker.environment import device_environment  # here, since most objects have no expression

    environment = device_environment(rules.release, features=rules.enabled, stored=stored)
    return _check(expression, path, environment, rules)[0]


def derived_attribute_errors(expression: str, path: Path, rules: ReleaseRules) -> tuple[Errors, int]:
    """Check the expression of a derived attribute; the second value is its estimated cost, 0 if it has none."""
    from understudy.cel.checker.environment import derived_attribute_environment

    return _check(expression, path, derived_attribute_environment(rules.release, features=rules.enabled), rules)


def _check(expression: str, path: Path, environment: Environment, rules: ReleaseRules) -> tuple[Errors, int]:
    """Compile an expression (upstream: `validateCELExpression`), unless it is too long."""
    if rules.expression_length is not None and size(expression) > rules.expression_length:
        return [too_long(path, rules.expression_length)], 0
    from understudy.cel.compiler import compile as compile_expression

    compiled = compile_expression(expression, environment)
    if compiled.error is not None:
        refused = internal(path, compiled.error) if compiled.error_kind == "internal" else None
        return [refused or invalid(path, expression, compiled.error)], 0
    if rules.expression_cost is not None and compiled.cost > rules.expression_cost:
        return [forbidden(path, "too complex, exceeds cost limit")], compiled.cost
    return [], compiled.cost
