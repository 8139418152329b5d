"""Checks after type checking: mixed aggregates, and literals that would fail at run time anyway.

Upstream runs them only on an expression that type-checks. They concern `duration("…")`, `timestamp("…")`, the pattern
of `s.matches("…")` and the elements of list and map literals, which Kubernetes wants to be of one type.
"""

from __future__ import annotations

from understudy.admission.cel.ast import Call, Const, ListExpr, MapExpr, Node, children
from understudy.admission.cel.errors import EvaluationError, Report
from understudy.admission.cel.library import time
from understudy.admission.cel.library.string_format import argument_type_error, interpolate
from understudy.admission.cel.types import Type, is_equivalent_type
from understudy.machinery.golang import regexp


def validate(root: Node, report: Report) -> None:
    """Report what is wrong with the literals of a checked tree."""
    # Inside the arguments of `format`, lists and maps may hold what they like.
    pending = [(root, False)]
    while pending:
        node, exempt = pending.pop()
        match node:
            case ListExpr() if not exempt:
                _one_type(node, report)
            case MapExpr() if not exempt:
                _one_type_each(node, report)
            case Call(function="format", target=Const(value=str()), args=[ListExpr()]):
                _format_clauses(node, report)
            case Call(function="duration" | "timestamp" | "matches" as name, args=[Const() as literal, *_]):
                if not _acceptable(name, literal):
                    report.add(literal.pos, f"invalid {name} argument")
        exempt = exempt or (isinstance(node, Call) and node.function == "format")
        pending.extend((child, exempt) for child in children(node))


def _one_type(node: ListExpr, report: Report) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = _typed(element, index in node.optional)
        if first is None:
            first = found
        elif not is_equivalent_type(first, found):
            _mismatch(report, element, first, found)
            return


def _one_type_each(node: MapExpr, report: Report) -> None:
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        keys, values = _typed(entry.key), _typed(entry.value, entry.optional)
        if key is None or value is None:
            key, value = keys, values
            continue
        if not is_equivalent_type(key, keys):
            _mismatch(report, entry.key, key, keys)
        if not is_equivalent_type(value, values):
            _mismatch(report, entry.value, value, values)


def _typed(node: Node, optional: bool = False) -> Type:
    assert node.type is not None
    return node.type.params[0] if optional and node.type.params else node.type


def _mismatch(report: Report, node: Node, wanted: Type, found: Type) -> None:
    report.add(node.pos, f"expected type '{wanted.text}' but found '{found.text}'")


class _MisplacedError(EvaluationError):
    """An argument that does not suit its clause."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


def _format_clauses(node: Call, report: Report) -> None:
    """`"%d".format([x])`: does every argument suit its clause?"""
    text, arguments = node.target, node.args[0]
    assert isinstance(text, Const)
    assert isinstance(arguments, ListExpr)
    try:
        _, used = interpolate(str(text.value), arguments.elements, _checked)
    except _MisplacedError as error:
        report.add(error.pos, str(error))
    except EvaluationError as error:
        report.add(node.pos, str(error))
    else:
        if len(arguments.elements) > used:
            given = len(arguments.elements)
            report.add(node.pos, f"too many arguments supplied to string.format (expected {used}, got {given})")


_SUITED = {
    "s": frozenset(
        [
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "timestamp",
            "bytes",
            "duration",
            "type",
            "null",
            "dyn",
        ]
    ),
    "d": frozenset(("int", "uint", "dyn")),
    "f": frozenset(("double", "string", "dyn")),
    "e": frozenset(("double", "string", "dyn")),
    "b": frozenset(("int", "uint", "bool", "dyn")),
    "x": frozenset(("int", "uint", "string", "bytes", "dyn")),
    "o": frozenset(("int", "uint", "dyn")),
}


def _checked(clause: str, _precision: int | None, argument: Node) -> str:
    wrong = _unsuited_part(clause.lower(), argument)
    if wrong is not None and wrong.type is not None:
        raise _MisplacedError(wrong.pos, str(argument_type_error(clause, wrong.type.name)))
    return ""


def _unsuited_part(clause: str, argument: Node) -> Node | None:
    """The argument, or for `%s` the innermost part of a literal, that the clause cannot show."""
    if argument.type is None or argument.type.kind not in _SUITED[clause]:
        return argument
    if clause == "s" and isinstance(argument, (ListExpr, MapExpr)):
        for part in children(argument):
            wrong = _unsuited_part(clause, part)
            if wrong is not None:
                return wrong
    return None


def _acceptable(function: str, literal: Const) -> bool:
    try:
        match function:
            case "matches":
                regexp.compile_pattern(str(literal.value))
            case "duration":
                time.to_duration(literal.value)
            case "timestamp":
                time.to_timestamp(literal.value)
    except (EvaluationError, regexp.PatternError):
        return False
    return True
