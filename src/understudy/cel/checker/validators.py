"""Checks after type checking: mixed aggregates, and literals that would fail at run time (`ASTValidator` in cel-go).

cel-go runs them only on an expression without type errors. They concern `duration("…")`, `timestamp("…")`, the pattern
of `s.matches("…")`, the arguments of `"…".format([…])`, and the elements of list and map literals, which Kubernetes
requires to be of one type.
"""

from __future__ import annotations

from understudy.cel.ast import Call, Const, ListExpr, MapExpr, Node, children, is_conditional
from understudy.cel.errors import EvaluationError, Report
from understudy.cel.library import time
from understudy.cel.library.string_format import argument_type_error, interpolate
from understudy.cel.types import Type, is_equivalent_type
from understudy.machinery.golang import regexp


def validate(root: Node, report: Report) -> None:
    """Report invalid literals of a checked tree."""
    _Validator(report).validate(root)


class _Validator:
    """Validates one tree; `_reported` has the counts of errors before and after each conditional."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reported: dict[tuple[Node, bool], tuple[int, int]] = {}

    def validate(self, node: Node, exempt: bool = False) -> None:
        """Report invalid literals of a checked tree, again those of one that occurs again.

        exempt  whether lists and maps may have elements of several types, as inside the arguments of `format`
        """
        if (reported := self._reported.get((node, exempt))) is not None:
            self._report.repeat(*reported)
            return
        first = self._report.count
        self._validate(node, exempt)
        exempt_parts = exempt or (isinstance(node, Call) and node.function == "format")
        for child in reversed(children(node)):
            self.validate(child, exempt_parts)
        if is_conditional(node):
            self._reported[node, exempt] = first, self._report.count

    def _validate(self, node: Node, exempt: bool) -> None:
        report = self._report
        match node:
            case ListExpr() if not exempt:
                _check_list(node, report)
            case MapExpr() if not exempt:
                _check_map(node, report)
            case Call(function="format", target=Const(value=str()), args=[ListExpr()]):
                _check_format(node, report)
            case Call(function="duration" | "timestamp" | "matches" as name, args=[Const() as literal, *_]):
                if not _is_valid_literal(name, literal):
                    report.add(literal.pos, f"invalid {name} argument")


def _check_list(node: ListExpr, report: Report) -> None:
    """Report the first element of a list whose type differs from that of the elements before it."""
    first: Type | None = None
    for index, element in enumerate(node.elements):
        actual = _element_type(element, index in node.optional)
        if first is None:
            first = actual
        elif not is_equivalent_type(first, actual):
            _mismatch(report, element, first, actual)
            return


def _check_map(node: MapExpr, report: Report) -> None:
    """Report keys and values of a map whose types differ from those of the first entry."""
    key: Type | None = None
    value: Type | None = None
    for entry in node.entries:
        keys, values = _element_type(entry.key), _element_type(entry.value, entry.optional)
        if key is None or value is None:
            key, value = keys, values
            continue
        if not is_equivalent_type(key, keys):
            _mismatch(report, entry.key, key, keys)
        if not is_equivalent_type(value, values):
            _mismatch(report, entry.value, value, values)


def _element_type(node: Node, optional: bool = False) -> Type:
    """Return the type of an element, for an optional one the type inside."""
    assert node.type is not None
    return node.type.params[0] if optional and node.type.params else node.type


def _mismatch(report: Report, node: Node, expected: Type, actual: Type) -> None:
    report.add(node.pos, f"expected type '{expected.text}' but found '{actual.text}'")


class _ArgumentError(EvaluationError):
    """An argument, at offset `pos`, that its formatting clause does not accept."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


def _check_format(node: Call, report: Report) -> None:
    """Report arguments of `"%d".format([x])` that do not match their clauses, and superfluous ones."""
    text, arguments = node.target, node.args[0]
    assert isinstance(text, Const)
    assert isinstance(arguments, ListExpr)
    try:
        _, used = interpolate(str(text.value), arguments.elements, _check_argument)
    except _ArgumentError as error:
        report.add(error.pos, str(error))
    except EvaluationError as error:
        report.add(node.pos, str(error))
    else:
        if len(arguments.elements) > used:
            count = len(arguments.elements)
            report.add(node.pos, f"too many arguments supplied to string.format (expected {used}, got {count})")


_ALLOWED_KINDS = {
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


def _check_argument(clause: str, _precision: int | None, argument: Node) -> str:
    """Raise `_ArgumentError` if a clause does not accept an argument; the text it returns is not used."""
    part = _disallowed_part(clause.lower(), argument)
    if part is not None and part.type is not None:
        raise _ArgumentError(part.pos, str(argument_type_error(clause, part.type.name)))
    return ""


def _disallowed_part(clause: str, argument: Node) -> Node | None:
    """Return the argument, or for `%s` the innermost part of a literal, that the clause does not accept, else None."""
    if argument.type is None or argument.type.kind not in _ALLOWED_KINDS[clause]:
        return argument
    if clause == "s" and isinstance(argument, (ListExpr, MapExpr)):
        for element in children(argument):
            part = _disallowed_part(clause, element)
            if part is not None:
                return part
    return None


def _is_valid_literal(function: str, literal: Const) -> bool:
    """Report whether the literal argument of `duration`, `timestamp` or `matches` can be converted or compiled."""
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
