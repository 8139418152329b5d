"""The macros: calls that the parser rewrites before the expression is checked (`has`, `all`, `map`, `cel.bind`, …).

Nodes that a macro adds have the offset of the call's opening parenthesis, and what the user wrote keeps its own. Errors
inside an expanded macro therefore point to where cel-go's do.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Final

from understudy.cel.ast import (
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
    is_conditional,
)
from understudy.cel.parser.dialect import Dialect
from understudy.machinery.types import dataclass


class MacroError(Exception):
    """A macro has an invalid argument at offset `pos`."""

    def __init__(self, pos: int, message: str) -> None:
        super().__init__(message)
        self.pos = pos


@dataclass(frozen=True, slots=True)
class Expansion:
    """The place of a macro call, at offset `pos`, and the dialect in which it is expanded (`MacroExprFactory`)."""

    pos: int
    dialect: Dialect

    def call(self, function: str, *args: Node) -> Call:
        """Return a call of a function."""
        return Call(self.pos, function, list(args))

    def constant(self, value: bool | int) -> Const:
        """Return a literal."""
        return Const(self.pos, value)

    def list_of(self, *elements: Node) -> ListExpr:
        """Return a list literal."""
        return ListExpr(self.pos, list(elements))

    def accumulator(self) -> Ident:
        """Return the variable in which a comprehension collects its result."""
        return Ident(self.pos, self.dialect.accumulator)

    def variable(self, arg: Node, message: str) -> str:
        """Return the name of a macro's variable. Raises `MacroError`, with the message if it is no simple name."""
        name = simple_name(arg, message)
        if name in self.dialect.reserved_variables:
            raise MacroError(arg.pos, OVERWRITES_ACCUMULATOR)
        return name


Macro = Callable[[Expansion, Node | None, list[Node]], Node | None]
"""Expands a macro: (expansion, target, arguments) → the tree that replaces the call, or None to keep the call."""

MacroKey = tuple[str, int, bool]
"""(function name, number of arguments, whether it is called as a method)."""


OVERWRITES_ACCUMULATOR: Final = "iteration variable overwrites accumulator variable"


def simple_name(arg: Node, message: str) -> str:
    """Return the name that an argument must be. Raises `MacroError` with the message otherwise."""
    if not isinstance(arg, Ident):
        raise MacroError(arg.pos, message)
    return arg.name


def _has(new: Expansion, _target: Node | None, args: list[Node]) -> Node:
    arg = args[0]
    if not isinstance(arg, Select):
        raise MacroError(arg.pos, "invalid argument to has() macro")
    return Select(new.pos, arg.operand, arg.field, test_only=True)


def _with_one_variable(quantifier: Callable[..., Comprehension]) -> Macro:
    """Return the macro of a quantifier whose arguments are a variable and a predicate."""

    def expand(new: Expansion, target: Node | None, args: list[Node]) -> Node:
        return quantifier(new, target, new.variable(args[0], "argument must be a simple name"), predicate=args[1])

    return expand


def all_of(new: Expansion, target: Node | None, *names: str, predicate: Node) -> Comprehension:
    """Return the comprehension that tests whether a predicate holds for all elements."""
    condition = new.call("@not_strictly_false", new.accumulator())
    step = new.call("_&&_", new.accumulator(), predicate)
    return comprehension(new, target, names, new.constant(True), step, condition=condition)


def any_of(new: Expansion, target: Node | None, *names: str, predicate: Node) -> Comprehension:
    """Return the comprehension that tests whether a predicate holds for some element."""
    condition = new.call("@not_strictly_false", new.call("!_", new.accumulator()))
    step = new.call("_||_", new.accumulator(), predicate)
    return comprehension(new, target, names, new.constant(False), step, condition=condition)


def one_of(new: Expansion, target: Node | None, *names: str, predicate: Node) -> Comprehension:
    """Return the comprehension that tests whether a predicate holds for exactly one element."""
    one_more = new.call("_+_", new.accumulator(), new.constant(1))
    step = new.call("_?_:_", predicate, one_more, new.accumulator())
    result = new.call("_==_", new.accumulator(), new.constant(1))
    return comprehension(new, target, names, new.constant(0), step, result=result)


def collect(new: Expansion, step: Node, predicate: Node | None) -> Node:
    """Return the step of a comprehension that collects results, those of some elements if there is a predicate."""
    return step if predicate is None else new.call("_?_:_", predicate, step, new.accumulator())


def map_elements(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    """Return the expansion of `map`, with or without a predicate."""
    name = new.variable(args[0], "argument is not an identifier")
    step = new.call("_+_", new.accumulator(), new.list_of(args[-1]))
    predicate = args[1] if len(args) == 3 else None
    return comprehension(new, target, (name,), new.list_of(), collect(new, step, predicate))


def _filter(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    name = new.variable(args[0], "argument is not an identifier")
    step = new.call("_+_", new.accumulator(), new.list_of(args[0]))
    return comprehension(new, target, (name,), new.list_of(), collect(new, step, args[1]))


def comprehension(
    new: Expansion,
    target: Node | None,
    names: tuple[str, ...],
    init: Node,
    step: Node,
    *,
    condition: Node | None = None,
    result: Node | None = None,
) -> Comprehension:
    """Return a comprehension over the target with one or two variables.

    Without a condition it runs to the end; without a result it results in what was collected.
    """
    assert target is not None
    return Comprehension(
        new.pos,
        target,
        names[0],
        new.dialect.accumulator,
        init,
        condition or new.constant(True),
        step,
        result or new.accumulator(),
        names[1] if len(names) > 1 else "",
    )


_UNUSED = "#unused"


def bind_variable(new: Expansion, name: str, value: Node, body: Node) -> Comprehension:
    """Return the comprehension for `let name = value in body`.

    It iterates over an empty list, with `name` as its accumulator.
    """
    never, variable = new.constant(False), Ident(new.pos, name)
    return Comprehension(new.pos, new.list_of(), _UNUSED, name, value, never, variable, body)


def _bind(new: Expansion, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return bind_variable(new, name, args[1], args[2])


def _opt_map(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    name = simple_name(args[0], "optMap() variable name must be a simple identifier")
    return _optional_map(new, target, name, args[1], wrap=True)


def _opt_flat_map(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    name = simple_name(args[0], "optFlatMap() variable name must be a simple identifier")
    return _optional_map(new, target, name, args[1], wrap=False)


def _optional_map(new: Expansion, target: Node | None, name: str, body: Node, *, wrap: bool) -> Node:
    """Return the expansion of `optMap` and `optFlatMap`; `wrap` puts the result into an optional."""
    assert target is not None
    value = Call(new.pos, "value", [], _copy_tree(target, new.pos))
    bound: Node = bind_variable(new, name, value, body)
    if wrap:
        bound = new.call("optional.of", bound)
    return new.call("_?_:_", Call(new.pos, "hasValue", [], target), bound, new.call("optional.none"))


def _copy_tree(node: Node, pos: int) -> Node:
    """Return a copy of a tree: the checker and the cost estimate write on nodes, so each should occur only once.

    Conditionals are not copied, so that chains of these macros, whose expansions these are, do not grow exponentially.
    Nodes keep their offsets, but entries of maps and fields of messages get `pos`, as in cel-go.
    """
    if is_conditional(node):
        return node
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


STANDARD_MACROS: Final[dict[MacroKey, Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _with_one_variable(all_of),
    ("exists", 2, True): _with_one_variable(any_of),
    ("exists_one", 2, True): _with_one_variable(one_of),
    ("map", 2, True): map_elements,
    ("map", 3, True): map_elements,
    ("filter", 2, True): _filter,
}
BINDINGS_MACROS: Final[dict[MacroKey, Macro]] = {("bind", 3, True): _bind}
OPTIONAL_MACROS: Final[dict[MacroKey, Macro]] = {
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
}
