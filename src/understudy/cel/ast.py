"""The abstract syntax tree that both parsers produce and every later stage reads.

An expression is a tree of `Node`s. Offsets count code points in the source and follow cel-go: an operator, call,
selection or aggregate has the offset of its operator, parenthesis, dot or bracket, a literal or name that of its first
character. The checker writes its results (`type`, `overloads`) onto the nodes, so a tree belongs to one compilation.
A conditional may occur in several places, since macros double what may contain many of them; every stage looks at it
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from understudy.cel.types import Type

    LiteralValue = None | bool | int | float | str | bytes


class UnsignedInt(int):
    """A `uint` literal or value; a plain `int` is CEL's signed integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Node:
    """The base of every expression: its offset, and after checking its type and the overloads of a call."""

    __slots__ = ("overloads", "pos", "type")

    def __init__(self, pos: int) -> None:
        self.pos = pos
        self.type: Type | None = None
        self.overloads: tuple[str, ...] = ()


class Const(Node):
    """A literal: None, bool, int, UnsignedInt, float, str or bytes."""

    __slots__ = ("value",)

    def __init__(self, pos: int, value: LiteralValue) -> None:
        super().__init__(pos)
        self.value = value


class Ident(Node):
    """A name; one with a leading dot is looked up in the global scope."""

    __slots__ = ("name",)

    def __init__(self, pos: int, name: str) -> None:
        super().__init__(pos)
        self.name = name


class Select(Node):
    """The selection `operand.field`, or the presence test `has(operand.field)`."""

    __slots__ = ("field", "operand", "test_only")

    def __init__(self, pos: int, operand: Node, field: str, test_only: bool = False) -> None:
        super().__init__(pos)
        self.operand = operand
        self.field = field
        self.test_only = test_only


class Call(Node):
    """A call of a function, operator (`_+_`) or method; `target` is None unless it is a method."""

    __slots__ = ("args", "function", "target")

    def __init__(self, pos: int, function: str, args: list[Node], target: Node | None = None) -> None:
        super().__init__(pos)
        self.function = function
        self.args = args
        self.target = target


class ListExpr(Node):
    """The list `[a, ?b]`; `optional` holds the indices of the `?` elements."""

    __slots__ = ("elements", "optional")

    def __init__(self, pos: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(pos)
        self.elements = elements
        self.optional = optional


class MapEntry:
    """One `key: value` of a map; its offset is that of the colon."""

    __slots__ = ("key", "optional", "pos", "value")

    def __init__(self, pos: int, key: Node, value: Node, optional: bool) -> None:
        self.pos = pos
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Node):
    """The map `{k: v, ?k: v}`."""

    __slots__ = ("entries",)

    def __init__(self, pos: int, entries: list[MapEntry]) -> None:
        super().__init__(pos)
        self.entries = entries


class StructField:
    """One `name: value` of a message literal; its offset is that of the colon."""

    __slots__ = ("name", "optional", "pos", "value")

    def __init__(self, pos: int, name: str, value: Node, optional: bool) -> None:
        self.pos = pos
        self.name = name
        self.value = value
        self.optional = optional


class StructExpr(Node):
    """The message literal `type.Name{field: value}`."""

    __slots__ = ("fields", "name")

    def __init__(self, pos: int, name: str, fields: list[StructField]) -> None:
        super().__init__(pos)
        self.name = name
        self.fields = fields


class Comprehension(Node):
    """A comprehension: the expansion of the macros `all`, `exists`, `map`, `filter`, `cel.bind`, …."""

    __slots__ = ("accu_init", "accu_var", "condition", "iter_range", "iter_var", "iter_var2", "result", "step")

    def __init__(
        self,
        pos: int,
        iter_range: Node,
        iter_var: str,
        accu_var: str,
        accu_init: Node,
        condition: Node,
        step: Node,
        result: Node,
        iter_var2: str = "",
    ) -> None:
        super().__init__(pos)
        self.iter_range = iter_range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result


class Unspecified(Node):
    """The node that stands for what could not be parsed (`UnspecifiedExpr`).

    An error is reported where one is made, so the checker never sees it.
    """

    __slots__ = ()


def children(node: Node) -> list[Node]:
    """Return the direct sub-expressions in source order; the target of a call comes before its arguments."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*([node.target] if node.target else ()), *node.args]
        case ListExpr():
            return node.elements
        case MapExpr():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return [field.value for field in node.fields]
        case Comprehension():
            return [node.iter_range, node.accu_init, node.condition, node.step, node.result]
    return []


def is_conditional(node: Node) -> bool:
    """Report whether a node is `condition ? one : other`."""
    return isinstance(node, Call) and node.function == "_?_:_"


def walk(root: Node) -> Iterator[Node]:
    """Yield every node of a tree once."""
    pending, seen = [root], set[Node]()
    while pending:
        node = pending.pop()
        if is_conditional(node):
            if node in seen:
                continue
            seen.add(node)
        yield node
        pending += children(node)


def names_in(root: Node) -> frozenset[str]:
    """Return the names that an expression uses, without leading dots: of variables, types and in comprehensions."""
    return frozenset(node.name.removeprefix(".") for node in walk(root) if isinstance(node, Ident))


def uses_name(root: Node, name: str) -> bool:
    """Report whether an expression uses the variable with a name, other than an accumulator of its own macros."""
    pending, seen = [root], set[Node]()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        if is_conditional(node):
            seen.add(node)
        if isinstance(node, Ident) and node.name.removeprefix(".") == name:
            return True
        if isinstance(node, Comprehension) and node.accu_var == name:
            pending += [node.iter_range, node.accu_init]
        else:
            pending += children(node)
    return False


def qualified_name(node: Node) -> str | None:
    """Return `a.b.c` if the node is a plain chain of selections from a name, else None."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
