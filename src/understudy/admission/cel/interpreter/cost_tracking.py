"""The planner of programs that count what their evaluation costs (`CostObserver` of cel-go).

cel-go takes a name with the selections and indices that follow it as one step, an attribute: it costs 1, and each
selection and index 1 more. An attribute that a conditional chooses costs only its selections and indices, and `has`
only its selections. Constants, `&&`, `||`, conditionals and comprehensions cost nothing themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission.cel.ast import Call, Const, Ident, ListExpr, MapExpr, Node, Select, StructExpr, qualified_name
from understudy.admission.cel.checker.declarations import Declarations
from understudy.admission.cel.cost.actual_cost import call_cost
from understudy.admission.cel.cost.budget import CostTracker
from understudy.admission.cel.errors import EvaluationError
from understudy.admission.cel.escaping import keyword_field
from understudy.admission.cel.interpreter.control_flow import SPECIAL_CALLS, Program, Scope
from understudy.admission.cel.interpreter.field_access import has_field, index, optional_field, select_field
from understudy.admission.cel.interpreter.planner import Planner
from understudy.admission.cel.values import NONE, ErrorValue, Optional, Value, raise_if_error

_TRACKER = "#cost"
_CONDITIONAL = "_?_:_"
_OPTIONAL = frozenset(("_?._", "_[?_]"))
_ATTRIBUTES = frozenset((_CONDITIONAL, "_[_]", *_OPTIONAL))
_NEW_LIST, _NEW_MAP, _NEW_MESSAGE = 10, 30, 40


def plan(root: Node, declarations: Declarations) -> Callable[[Scope, CostTracker], Value]:
    """Return the program of a checked tree, which charges a tracker.

    Raises `PlanError`, as for constants that cannot be converted.
    """
    program = _TrackingPlanner(declarations).plan(root)

    def run(scope: Scope, tracker: CostTracker) -> Value:
        return program({**scope, _TRACKER: tracker})

    return run


class _TrackingPlanner(Planner):
    """Plans one tree; `_attribute` plans an attribute without the cost of its name."""

    def plan(self, node: Node) -> Program:
        """Return the program of a node."""
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
                condition, yes, no = node.args
                return SPECIAL_CALLS[_CONDITIONAL](self.plan(condition), self._operand(yes), self._operand(no))
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
            return self._ident(name, node)
        field = self._field(node.operand, node.field)
        access = has_field if node.test_only else select_field
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
        cost = call_cost(node.function, node.overloads)

        def run(scope: Scope) -> Value:
            args, errors = _evaluate_all(parts, scope)
            result: Value = None
            try:
                if errors:
                    raise errors[0]
                result = call(*args)
                return result
            finally:
                scope[_TRACKER].charge(cost(args, result))

        return run


def _evaluate_all(parts: list[Program], scope: Scope) -> tuple[list[Value], list[EvaluationError]]:
    """Return the values of arguments, and the errors of those that failed; of more than two, the first error is raised.

    cel-go evaluates both arguments of a call even if the first fails, and charges the call.
    """
    values: list[Value] = []
    errors: list[EvaluationError] = []
    for part in parts:
        try:
            values.append(part(scope))
        except EvaluationError as error:
            if len(parts) > 2:
                raise
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


def _qualified(operand: Program, key: Program, access: Callable[[Value, Value], Value], *, optional: bool) -> Program:
    """Return the program of a selection or index; one that finds nothing in an optional costs nothing."""

    def run(scope: Scope) -> Value:
        value = operand(scope)
        if value is NONE:
            return False if access is has_field else NONE
        name = key(scope)
        tracker: CostTracker = scope[_TRACKER]
        if not (optional or isinstance(value, Optional)):
            tracker.charge(1)
            return raise_if_error(access(value, name))
        result = access(value, name)
        if result is not NONE:
            tracker.charge(1)
        return result

    return run
