"""The planner of programs that count what their evaluation costs (`CostObserver` of cel-go).

cel-go takes a name with the selections and indices that follow it as one step, an attribute: it costs 1, and each
selection and index 1 more. An attribute that a conditional chooses costs only its selections and indices, and `has`
only its selections. Constants, `&&`, `||`, conditionals and comprehensions cost nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.cel.ast import Call, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr, qualified_name
from understudy.cel.checker.declarations import Declarations
from understudy.cel.cost.actual_cost import call_cost
from understudy.cel.errors import EvaluationError
from understudy.cel.escaping import keyword_field
from understudy.cel.interpreter.control_flow import Program, Scope
from understudy.cel.interpreter.field_access import has_field, index, optional_field, select_field
from understudy.cel.interpreter.planner import Planner, with_hidden_variables
from understudy.cel.limits.budget import CostTracker
from understudy.cel.values import NONE, ErrorValue, Optional, Value, raise_if_error
from understudy.machinery.releases.version import Version

_TRACKER = "#cost"
_CONDITIONAL = "_?_:_"
_OPTIONAL = frozenset(("_?._", "_[?_]"))
_ATTRIBUTES = frozenset((_CONDITIONAL, "_[_]", *_OPTIONAL))
_NEW_LIST, _NEW_MAP, _NEW_MESSAGE = 10, 30, 40


def plan(
    root: Node, declarations: Declarations, version: Version, *, strict: bool = True
) -> Callable[[Scope, CostTracker], Value]:
    """Return the program of a checked tree, which charges a tracker.

    strict  whether the functions of the Kubernetes libraries have their own costs

    Raises `PlanError`, as for constants that cannot be converted.
    """
    program = with_hidden_variables(root, _TrackingPlanner(declarations, version, strict=strict).plan(root))

    def run(scope: Scope, tracker: CostTracker) -> Value:
        return program({**scope, _TRACKER: tracker})

    return run


class _TrackingPlanner(Planner):
    """Plans one tree; `_attribute` plans an attribute without the cost of its name."""

    def __init__(self, declarations: Declarations, version: Version, *, strict: bool) -> None:
        super().__init__(declarations, version)
        self._version = version
        self._strict = strict

    def plan(self, node: Node) -> Program:
        if self._is_attribute(node):
            program = self._attribute(node)
            return program if node in self._constants else _charging(_cost_of_name(node), program)
        program = super().plan(node)
        if node in self._constants:
            return program
        match node:
            case ListExpr():
                return _charging(_NEW_LIST, program)
            case MapExpr():
                return _charging(_NEW_MAP, program)
            case StructExpr():
                return _charging(_NEW_MESSAGE, program)
            case Call(function="@not_strictly_false" | "__not_strictly_false__"):
                return _charging(1, program)
        return program

    def _is_attribute(self, node: Node) -> bool:
        return isinstance(node, (Ident, Select)) or (isinstance(node, Call) and node.function in _ATTRIBUTES)

    def _attribute(self, node: Node) -> Program:
        match node:
            case Select():
                return self._select(node)
            case Call(function="_?_:_"):
                return self._conditional(node, self._operand)
            case Call():
                return self._index(node)
        return super().plan(node)

    def _operand(self, node: Node) -> Program:
        """Return the program of what an attribute is made from: another attribute, or any value."""
        return self._attribute(node) if self._is_attribute(node) else self.plan(node)

    def _ident(self, name: str, node: Node) -> Program:
        program = super()._ident(name, node)
        if node in self._constants:
            return program

        def read(scope: Scope) -> Value:
            try:
                return raise_if_error(program(scope))
            except KeyError:
                raise EvaluationError(f"no such attribute(s): {name.removeprefix('.')}") from None

        return read

    def _select(self, node: Select) -> Program:
        name = qualified_name(node)
        if name is not None and self._declarations.variable(name.removeprefix(".")) is not None:
            return self._ident(name.removeprefix("."), node)
        field = self._field(node.operand, node.field)
        access = _has_field if node.test_only else select_field
        return _qualified(self._operand(node.operand), lambda _scope: field, access, optional=False)

    def _field(self, operand: Node, field: str) -> str:
        """Return the name that a field has in values: one that is written like a keyword is escaped."""
        escaped, of = keyword_field(field), operand.type
        if escaped and of is not None and escaped in (self._declarations.fields_of(of.name) or {}):
            return escaped
        return field

    def _index(self, node: Call) -> Program:
        operand, key = node.args
        optional = node.function in _OPTIONAL
        access = optional_field if optional else index
        if isinstance(key, Const) and isinstance(key.value, str):
            key = Const(key.pos, self._field(operand, key.value))
        return _qualified(self._operand(operand), self._operand(key), access, optional=optional)

    def _apply(self, node: Call, call: Callable[..., Value], parts: list[Program]) -> Program:
        if node.overloads == ("in_list",) and node.args[1] in self._constants:
            elements = self._constants[node.args[1]]
            if not elements:
                return self._constant(node, False)
            if all(isinstance(element, (bool, int, float, str)) for element in elements):
                return super()._apply(node, call, parts)  # a lookup, which costs nothing
        cost = call_cost(node.function, node.overloads, self._version, strict=self._strict)
        evaluate = _evaluate_until_error if self._stops_at_errors(node, len(parts)) else _evaluate_all

        def run(scope: Scope) -> Value:
            args, errors = evaluate(parts, scope)
            scope[_TRACKER].charge(cost(args))
            if errors:
                raise errors[0]
            return call(*args)

        return run

    def _stops_at_errors(self, node: Call, count: int) -> bool:
        """Report whether a call costs nothing if an argument before the last one fails (`evalVarArgs` of cel-go).

        All other calls evaluate both arguments even if the first one fails, and cost something.
        """
        if node.function in ("matches", "find", "findAll"):
            return count > 2 or node.args[-1] in self._constants
        return count > 2


def _evaluate_until_error(parts: list[Program], scope: Scope) -> tuple[list[Value], list[EvaluationError]]:
    """Return the values of arguments, the last one with its error. Raises `EvaluationError` if another one fails."""
    values = [part(scope) for part in parts[:-1]]
    try:
        return [*values, parts[-1](scope)], []
    except EvaluationError as error:
        return [*values, ErrorValue(error)], [error]


def _evaluate_all(parts: list[Program], scope: Scope) -> tuple[list[Value], list[EvaluationError]]:
    """Return the values of arguments, and the errors of those that failed."""
    values: list[Value] = []
    errors: list[EvaluationError] = []
    for part in parts:
        try:
            values.append(part(scope))
        except EvaluationError as error:
            errors.append(error)
            values.append(ErrorValue(error))
    return values, errors


def _charging(cost: int, program: Program) -> Program:
    def run(scope: Scope) -> Value:
        scope[_TRACKER].charge(cost)
        return program(scope)

    return run if cost else program


def _cost_of_name(node: Node) -> int:
    """Return the cost of an attribute besides its selections and indices."""
    if isinstance(node, Select) and node.test_only:
        return _cost_of_name(node.operand) - 1
    while isinstance(node, (Select, Call)):
        if isinstance(node, Select):
            node = node.operand
        elif node.function in _ATTRIBUTES and node.function != _CONDITIONAL:
            node = node.args[0]
        else:
            return int(node.function != _CONDITIONAL)
    return 1


def _has_field(value: Value, field: str) -> bool:
    """Report whether a value has a field. Raises `EvaluationError` if what it has does not fit its schema."""
    if isinstance(value, dict):
        raise_if_error(value.get(field))
    return has_field(value, field)


def _qualified(operand: Program, key: Program, access: Callable[[Value, Value], Value], *, optional: bool) -> Program:
    """Return the program of a selection or index; one that finds nothing in an optional costs nothing."""

    def run(scope: Scope) -> Value:
        value = operand(scope)
        if value is NONE:
            return False if access is _has_field else NONE
        tracker: CostTracker = scope[_TRACKER]
        if optional or isinstance(value, Optional):
            result = access(value, key(scope))
            if isinstance(result, Optional):
                raise_if_error(result.value)
            if result is not NONE:
                tracker.charge(1)
            return result
        tracker.charge(1)
        return raise_if_error(access(value, key(scope)))

    return run
