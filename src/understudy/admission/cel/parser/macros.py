"""The macros: calls that the parser rewrites before the expression is checked (`has`, `all`, `map`, `cel.bind`, …).

Nodes that a macro adds have the offset of the call's opening parenthesis, and what the user wrote keeps its own. Errors
inside an expanded macro therefore point to where cel-go's do.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from understudy.admission.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Const,
    Ident,
    ListExpr,
    MapEntry,
    MapExpr,
    Node,
    Select,
    StructExpr,
    StructField,
)


class MacroError(Exception):
    """A macro has an invalid argument at offset `pos`."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


Macro = Callable[[int, Node | None, list[Node]], Node | None]
"""Expands a macro: (offset, target, arguments) → the tree that replaces the call, or None to keep the call."""

MacroKey = tuple[str, int, bool]
"""(function name, number of arguments, whether it is called as a method)."""


def _accumulator(pos: int) -> Ident:
    return Ident(pos, ACCUMULATOR)


def _simple_name(arg: Node, message: str) -> str:
    """Return the name that an argument must be. Raises `MacroError` with the message otherwise."""
    if not isinstance(arg, Ident):
        raise MacroError(arg.pos, message)
    return arg.name


def _has(pos: int, _target: Node | None, args: list[Node]) -> Node:
    arg = args[0]
    if not isinstance(arg, Select):
        raise MacroError(arg.pos, "invalid argument to has() macro")
    return Select(pos, arg.operand, arg.field, test_only=True)


def _all(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "argument must be a simple name")
    condition = Call(pos, "@not_strictly_false", [_accumulator(pos)])
    step = Call(pos, "_&&_", [_accumulator(pos), args[1]])
    return _comprehension(pos, target, name, Const(pos, True), condition, step, _accumulator(pos))


def _exists(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "argument must be a simple name")
    condition = Call(pos, "@not_strictly_false", [Call(pos, "!_", [_accumulator(pos)])])
    step = Call(pos, "_||_", [_accumulator(pos), args[1]])
    return _comprehension(pos, target, name, Const(pos, False), condition, step, _accumulator(pos))


def _exists_one(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "argument must be a simple name")
    one_more = Call(pos, "_+_", [_accumulator(pos), Const(pos, 1)])
    step = Call(pos, "_?_:_", [args[1], one_more, _accumulator(pos)])
    result = Call(pos, "_==_", [_accumulator(pos), Const(pos, 1)])
    return _comprehension(pos, target, name, Const(pos, 0), Const(pos, True), step, result)


def _map(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "argument is not an identifier")
    step: Node = Call(pos, "_+_", [_accumulator(pos), ListExpr(pos, [args[-1]])])
    if len(args) == 3:
        step = Call(pos, "_?_:_", [args[1], step, _accumulator(pos)])
    return _comprehension(pos, target, name, ListExpr(pos, []), Const(pos, True), step, _accumulator(pos))


def _filter(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "argument is not an identifier")
    step = Call(pos, "_+_", [_accumulator(pos), ListExpr(pos, [args[0]])])
    step = Call(pos, "_?_:_", [args[1], step, _accumulator(pos)])
    return _comprehension(pos, target, name, ListExpr(pos, []), Const(pos, True), step, _accumulator(pos))


def _comprehension(
    pos: int, target: Node | None, name: str, init: Node, condition: Node, step: Node, result: Node
) -> Comprehension:
    assert target is not None
    return Comprehension(pos, target, name, ACCUMULATOR, init, condition, step, result)


_UNUSED = "#unused"


def _bind_variable(pos: int, name: str, value: Node, body: Node) -> Comprehension:
    """Return the comprehension for `let name = value in body`.

    It iterates over an empty list, with `name` as its accumulator.
    """
    return Comprehension(pos, ListExpr(pos, []), _UNUSED, name, value, Const(pos, False), Ident(pos, name), body)


def _bind(pos: int, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return _bind_variable(pos, name, args[1], args[2])


def _opt_map(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "optMap() variable name must be a simple identifier")
    return _optional_map(pos, target, name, args[1], wrap=True)


def _opt_flat_map(pos: int, target: Node | None, args: list[Node]) -> Node:
    name = _simple_name(args[0], "optFlatMap() variable name must be a simple identifier")
    return _optional_map(pos, target, name, args[1], wrap=False)


def _optional_map(pos: int, target: Node | None, name: str, body: Node, *, wrap: bool) -> Node:
    """Return the expansion of `optMap` and `optFlatMap`; `wrap` puts the result into an optional."""
    assert target is not None
    value = Call(pos, "value", [], _copy_tree(target, pos))
    bound: Node = _bind_variable(pos, name, value, body)
    if wrap:
        bound = Call(pos, "optional.of", [bound])
    return Call(pos, "_?_:_", [Call(pos, "hasValue", [], target), bound, Call(pos, "optional.none", [])])


def _copy_tree(node: Node, pos: int) -> Node:
    """Return a deep copy of a tree: the checker and the cost estimate write on nodes, so each must occur only once.

    Nodes keep their offsets, but entries of maps and fields of messages get `pos`, as in cel-go.
    """
    duplicate = copy(node)
    match duplicate:
        case Select():
            duplicate.operand = _copy_tree(duplicate.operand, pos)
        case Call():
            duplicate.target = _copy_tree(duplicate.target, pos) if duplicate.target else None
            duplicate.args = [_copy_tree(arg, pos) for arg in duplicate.args]
        case ListExpr():
            duplicate.elements = [_copy_tree(element, pos) for element in duplicate.elements]
        case MapExpr():
            duplicate.entries = [
                MapEntry(pos, _copy_tree(e.key, pos), _copy_tree(e.value, pos), e.optional) for e in duplicate.entries
            ]
        case StructExpr():
            duplicate.fields = [
                StructField(pos, f.name, _copy_tree(f.value, pos), f.optional) for f in duplicate.fields
            ]
        case Comprehension():
            for part in ("iter_range", "accu_init", "condition", "step", "result"):
                setattr(duplicate, part, _copy_tree(getattr(duplicate, part), pos))
    return duplicate


MACROS: dict[MacroKey, Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
}
