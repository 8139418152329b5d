"""The macros of cel-go's extensions: comprehensions with two variables, and `sortBy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from understudy.cel.ast import Call, Comprehension, Ident, ListExpr, MapExpr, Node, Select
from understudy.cel.parser.macros import (
    OVERWRITES_ACCUMULATOR,
    Expansion,
    Macro,
    MacroError,
    MacroKey,
    all_of,
    any_of,
    bind_variable,
    collect,
    comprehension,
    map_elements,
    one_of,
    simple_name,
)


def _two_names(new: Expansion, args: list[Node]) -> tuple[str, str]:
    """Return the names of two iteration variables (`extractIterVars`). Raises `MacroError`."""
    first, second = (simple_name(arg, "argument must be a simple name") for arg in args[:2])
    if first == second:
        raise MacroError(args[1].pos, f"duplicate variable name: {first}")
    for arg, name in zip(args[:2], (first, second), strict=True):
        if name in ("__result__", new.dialect.accumulator):
            raise MacroError(arg.pos, OVERWRITES_ACCUMULATOR)
    return first, second


def _with_two_variables(quantifier: Callable[..., Comprehension]) -> Macro:
    """Return the macro of a quantifier whose arguments are two variables and a predicate."""

    def expand(new: Expansion, target: Node | None, args: list[Node]) -> Node:
        return quantifier(new, target, *_two_names(new, args), predicate=args[2])

    return expand


def _transform_list(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    names = _two_names(new, args)
    step = new.call("_+_", new.accumulator(), new.list_of(args[-1]))
    return comprehension(new, target, names, new.list_of(), collect(new, step, _predicate(args)))


def _transform_map(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    names = _two_names(new, args)
    step = new.call("cel.@mapInsert", new.accumulator(), Ident(new.pos, names[0]), args[-1])
    return comprehension(new, target, names, MapExpr(new.pos, []), collect(new, step, _predicate(args)))


def _transform_map_entry(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    names = _two_names(new, args)
    step = new.call("cel.@mapInsert", new.accumulator(), args[-1])
    return comprehension(new, target, names, MapExpr(new.pos, []), collect(new, step, _predicate(args)))


def _predicate(args: list[Node]) -> Node | None:
    """Return the predicate of a transformation, None if it has none."""
    return args[2] if len(args) == 4 else None


_SORT_INPUT = "@__sortBy_input__"


def _sort_by(new: Expansion, target: Node | None, args: list[Node]) -> Node:
    """Return the expansion of `sortBy`: bind the list, map it to its sort keys, and sort it by them."""
    assert target is not None
    if not isinstance(target, (ListExpr, Select, Ident, Comprehension, Call)):
        raise MacroError(
            target.pos, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = map_elements(new, Ident(new.pos, _SORT_INPUT), args)
    ordered = Call(new.pos, "@sortByAssociatedKeys", [keys], Ident(new.pos, _SORT_INPUT))
    return bind_variable(new, _SORT_INPUT, target, ordered)


TWO_VARIABLE_MACROS: Final[dict[MacroKey, Macro]] = {
    ("all", 3, True): _with_two_variables(all_of),
    ("exists", 3, True): _with_two_variables(any_of),
    ("existsOne", 3, True): _with_two_variables(one_of),
    ("exists_one", 3, True): _with_two_variables(one_of),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
LIST_MACROS: Final[dict[MacroKey, Macro]] = {("sortBy", 2, True): _sort_by}
