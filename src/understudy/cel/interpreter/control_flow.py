"""The operators that get their operands as programs instead of values: `&&`, `||`, `?:`, `or`, `orValue`, and indexing.

The logical operators and the conditional decide which of their operands count: an error in one that does not count is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from understudy.cel.errors import EvaluationError
from understudy.cel.interpreter.field_access import index, optional_field
from understudy.cel.values import NONE, ErrorValue, Optional, Value

Scope = dict[str, Value]
Program = Callable[[Scope], Value]


def attempt(program: Program, scope: Scope) -> Value:
    """Return the result of a program; an `EvaluationError` is returned as an error value."""
    try:
        return program(scope)
    except EvaluationError as error:
        return ErrorValue(error)


def _and(left: Program, right: Program) -> Program:
    return _commutative_logic(left, right, decisive=False)


def _or(left: Program, right: Program) -> Program:
    return _commutative_logic(left, right, decisive=True)


def _commutative_logic(left: Program, right: Program, *, decisive: bool) -> Program:
    """Return the program of `&&` (False decides) or `||` (True decides); an error counts only if no side decides."""

    def run(scope: Scope) -> Value:
        one = attempt(left, scope)
        if one is decisive:
            return one
        other = attempt(right, scope)
        if other is decisive:
            return other
        for side in (one, other):
            if type(side) is ErrorValue:
                raise side.error
        if one is (not decisive) and other is (not decisive):
            return not decisive
        raise EvaluationError("no such overload")

    return run


def _conditional(condition: Program, yes: Program, no: Program) -> Program:
    def run(scope: Scope) -> Value:
        chosen = condition(scope)
        if chosen is True:
            return yes(scope)
        if chosen is False:
            return no(scope)
        raise EvaluationError("no such overload")

    return run


def _not_strictly_false(operand: Program) -> Program:
    """Return the program that is False only if its operand is: errors count as true."""

    def run(scope: Scope) -> Value:
        value = attempt(operand, scope)
        return value is not False

    return run


def _optional_or(*, value: bool) -> Callable[[Program, Program], Program]:
    """Return the planner of `a.or(b)` or, if `value` is set, of `a.orValue(b)`.

    `b` is evaluated only if `a` is empty.
    """

    def make(left: Program, right: Program) -> Program:
        def run(scope: Scope) -> Value:
            one = left(scope)
            if not isinstance(one, Optional):
                raise EvaluationError("no such overload")
            if one is NONE:
                return right(scope)
            return one.value if value else one

        return run

    return make


def _optional_select(operand: Program, field: Program) -> Program:
    def run(scope: Scope) -> Value:
        return optional_field(operand(scope), field(scope))

    return run


def _index(operand: Program, key: Program) -> Program:
    return lambda scope: index(operand(scope), key(scope))


SPECIAL_CALLS: Mapping[str, Callable[..., Program]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "__not_strictly_false__": _not_strictly_false,
    "or": _optional_or(value=False),
    "orValue": _optional_or(value=True),
    "_?._": _optional_select,
    "_[?_]": _optional_select,
    "_[_]": _index,
}
