"""Checks after type checking: mixed aggregates, and literals that would fail at run time anyway.

Upstream runs them only on an expression that type-checks. They concern `duration("…")`, `timestamp("…")`, the pattern of
`s.matches("…")` and the elements of list and map literals, which Kubernetes wants to be of one type.
"""

from __future__ import annotations

from . import regex
from .ast import Call, Const, ListExpr, MapExpr, Node, children
from .errors import EvaluationError, Report
from .library import time
from .types import Type, equivalent


def validate(root: Node, report: Report) -> None:
    """Report what is wrong with the literals of a checked tree."""
    pending = [root]
    while pending:
        node = pending.pop()
        match node:
            case ListExpr():
                _one_type(node, report)
            case MapExpr():
                _one_type_each(node, report)
            case Call(function="duration" | "timestamp" | "matches" as name, args=[Const() as literal, *_]):
                if not _acceptable(name, literal):
                    report.add(literal.pos, f"invalid {name} argument")
        pending.extend(children(node))


def _one_type(node: ListExpr, report: Report) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = _typed(element, index in node.optional)
        if first is None:
            first = found
        elif not equivalent(first, found):
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
        if not equivalent(key, keys):
            _mismatch(report, entry.key, key, keys)
        if not equivalent(value, values):
            _mismatch(report, entry.value, value, values)


def _typed(node: Node, optional: bool = False) -> Type:
    assert node.type is not None
    return node.type.params[0] if optional and node.type.params else node.type


def _mismatch(report: Report, node: Node, wanted: Type, found: Type) -> None:
    report.add(node.pos, f"expected type '{wanted.text}' but found '{found.text}'")


def _acceptable(function: str, literal: Const) -> bool:
    try:
        match function:
            case "matches":
                regex.compile_pattern(str(literal.value))
            case "duration":
                time.to_duration(literal.value)
            case "timestamp":
                time.to_timestamp(literal.value)
    except (EvaluationError, regex.PatternError):
        return False
    return True
