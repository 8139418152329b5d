"""Conditions of a source file, each broken in the ways that a slip would break it.

    if a and b < limit:     True · False · a or b < limit · a · b < limit · b <= limit · b >= limit

Only conditions inside of functions count: those of a module are decided while it is imported. `Mutant.apply` exchanges
the code of the functions that live in this process; no file is written.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

SHOWN = 100  # characters of a condition

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


@dataclass(frozen=True)
class Place:
    """The place of an expression in a tree: a field of its parent, and the index there if that is a list."""

    parent: ast.AST
    field: str
    index: int | None = None

    def get(self) -> ast.expr:
        """Return the expression that stands here."""
        value = getattr(self.parent, self.field)
        node = value if self.index is None else value[self.index]
        assert isinstance(node, ast.expr)
        return node

    def put(self, node: ast.expr) -> None:
        """Put another expression here."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Mutant:
    """A source file with one condition broken; `lines` are those of the condition."""

    path: Path
    lines: range
    before: str
    after: str
    original: CodeType
    compile: Callable[[], CodeType]

    def apply(self) -> int:
        """Exchange the code of the functions of this process that hold the condition; return how many these are."""
        changed = {old.replace(co_flags=0): new for old, new in changed_code(self.original, self.compile())}
        exchanged = 0
        gc.unfreeze()  # `gc.get_objects` lists no frozen ones, and tests may freeze what they imported
        for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
            code = function.__code__
            if code.co_filename == str(self.path) and (new := changed.get(code.replace(co_flags=0))) is not None:
                function.__code__ = new.replace(co_flags=code.co_flags)  # `types.coroutine` sets flags
                exchanged += 1
        return exchanged


def changed_code(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the pairs of code that differ, of a module and of what is defined in it."""
    if old != new:
        yield old, new
        inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
        for old_inner, new_inner in zip(*inner, strict=True):
            yield from changed_code(old_inner, new_inner)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a source file, in the order of its lines."""
    tree = ast.parse(path.read_text())
    original = compile(tree, str(path), "exec", dont_inherit=True)

    def mutant(place: Place, replacement: ast.expr, after: str) -> Mutant:
        node = place.get()

        def compiled() -> CodeType:
            place.put(ast.fix_missing_locations(ast.copy_location(replacement, node)))
            try:
                return compile(tree, str(path), "exec", dont_inherit=True)
            finally:
                place.put(node)

        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        return Mutant(path, lines, shown(node), after, original, compiled)

    listed = [mutant(place, *each) for place, role in conditions(tree) for each in broken(place.get(), role)]
    yield from sorted(listed, key=lambda each: each.lines.start)


def shown(node: ast.expr) -> str:
    """Return the text of an expression, cut if it is long."""
    text = ast.unparse(node)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


# --- where conditions are


def conditions(tree: ast.Module) -> Iterator[tuple[Place, str]]:
    """Yield the places of conditions inside of functions, each with its role: "test", "and", "or" or "value"."""
    for place in inside_functions(tree, is_inside=False):
        node = place.get()
        match place.parent:
            case _ if isinstance(node, ast.Constant):  # while True
                pass
            case ast.If() | ast.While() | ast.IfExp() if place.field == "test":
                yield place, "test"
            case ast.comprehension() if place.field == "ifs":
                yield place, "test"
            case ast.match_case() if place.field == "guard":
                yield place, "test"
            case ast.BoolOp(op=op) if not is_default(node):
                yield place, "and" if isinstance(op, ast.And) else "or"
            case ast.UnaryOp(op=ast.Not()) | ast.Assert():
                pass
            case _ if isinstance(node, ast.Compare | ast.BoolOp) or is_negation(node):
                yield place, "value"


def inside_functions(node: ast.AST, is_inside: bool) -> Iterator[Place]:
    """Yield the place of every expression below a node that a function evaluates when it is called."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        inside = is_inside or (isinstance(node, Function) and field == "body")
        children: list[tuple[Any, int | None]] = [(value, None)]
        if isinstance(value, list):
            children = [(each, i) for i, each in enumerate(value)]
        for child, index in children:
            if isinstance(child, ast.expr) and inside:
                yield Place(node, field, index)
            if isinstance(child, ast.AST):
                yield from inside_functions(child, inside)


def is_default(node: ast.expr) -> bool:
    """Report whether an operand is a literal, as in `x or {}`: it is a default, and no condition."""
    return isinstance(node, ast.Constant | ast.Dict | ast.List | ast.Tuple | ast.JoinedStr)


def is_negation(node: ast.expr) -> bool:
    """Report whether an expression is `not x`."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


# --- how they are broken


def broken(node: ast.expr, role: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield the replacements of a condition: the expression, and its text."""
    for value in {"and": (True,), "or": (False,)}.get(role, (True, False)):
        yield constant(node, value), str(value)
    match node:
        case ast.BoolOp(op=junction, values=values) if not any(is_default(each) for each in values):
            swapped = ast.BoolOp(ast.Or() if isinstance(junction, ast.And) else ast.And(), values)
            yield swapped, shown(swapped)
        case ast.Compare(left=left, ops=ops, comparators=others):
            for table in (MOVED, NEGATED):
                for i, op in enumerate(ops):
                    if type(op) in table:
                        changed = ast.Compare(left, [*ops[:i], table[type(op)](), *ops[i + 1 :]], others)
                        yield changed, shown(changed)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand, shown(operand)


def constant(node: ast.expr, value: bool) -> ast.expr:
    """Return an expression that has a constant value, and mentions the same variables.

    The compiler must not know the value, so that the functions around it keep their closures. A condition that assigns
    a variable is evaluated, others are not.
    """
    differs = ast.NotEq() if value else ast.Eq()
    if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
        return ast.Compare(ast.List([node], ast.Load()), [differs], [ast.List([], ast.Load())])
    known = ast.Compare(ast.Name("__name__", ast.Load()), [differs], [ast.Constant("")])
    return ast.BoolOp(ast.Or() if value else ast.And(), [known, node])
