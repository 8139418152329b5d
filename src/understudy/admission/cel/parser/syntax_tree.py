"""What `syntax.py` read, and how it becomes the common tree.

A tree of a faulty source has holes. They become `Missing` nodes: reading goes on around them because upstream, too,
reports reserved names, bad literals and misused macros next to the syntax errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from understudy.admission.cel.ast import Call, Const, Entry, Field, ListExpr, MapExpr, Missing, Node, Select, StructExpr
from understudy.admission.cel.errors import UNPLACED
from understudy.admission.cel.parser.build import Builder
from understudy.admission.cel.parser.tokens import Token

MAX_DEPTH = 250


class TooDeepError(Exception):
    """Operators are nested deeper than upstream's limit."""

    def __init__(self) -> None:
        super().__init__("max recursion depth exceeded")


@dataclass(slots=True)
class Leaf:
    """One token, read or imagined."""

    token: Token
    imagined: bool = False


@dataclass(slots=True)
class Branch:
    """One rule: its parts in order; `marks` tells where in them which alternative of a decision began."""

    rule: str
    pos: int
    parts: list[Branch | Leaf] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)
    failed: bool = False

    def links(self) -> list[tuple[int, list[Branch | Leaf]]]:
        """The parts after each mark, with the number of the alternative."""
        if not self.marks:
            return []
        ends = [start for start, _ in self.marks[1:]] + [len(self.parts)]
        return [(number, self.parts[start:end]) for (start, number), end in zip(self.marks, ends, strict=True)]


def read(tree: Branch, builder: Builder) -> Node:
    """The common tree of a whole source. Raises `TooDeepError`."""
    return _Reader(builder).node(tree.parts[0] if tree.parts else None)


def _tokens(parts: list[Branch | Leaf]) -> dict[str, Token]:
    """The first token of each kind among the parts."""
    found: dict[str, Token] = {}
    for part in parts:
        if isinstance(part, Leaf):
            found.setdefault(part.token.kind, part.token)
    return found


def _branches(parts: list[Branch | Leaf], rule: str = "") -> list[Branch]:
    return [part for part in parts if isinstance(part, Branch) and rule in ("", part.rule)]


class _Reader:
    def __init__(self, builder: Builder) -> None:
        self._build = builder
        self._depth = 0

    def node(self, part: Branch | Leaf | None) -> Node:
        """Any expression; a hole is `Missing`."""
        # Rules that only order precedence are passed through without a stack frame each.
        while isinstance(part, Branch) and part.rule in _PASSED and len(part.parts) == 1 and not part.marks:
            part = part.parts[0]
        if not isinstance(part, Branch):
            return Missing(UNPLACED)
        handler = getattr(self, f"_{part.rule}")
        found: Node = handler(part)
        return found

    def _deeper(self, by: int) -> None:
        self._depth += by
        if self._depth > MAX_DEPTH:
            raise TooDeepError

    def _expr(self, branch: Branch) -> Node:
        mark = _tokens(branch.parts).get("'?'")
        operands = _branches(branch.parts)
        if mark is None:
            return self.node(operands[0] if operands else None)
        self._deeper(1)
        padded = [*operands, None, None][:3]
        nodes = [self.node(operand) for operand in padded]
        self._depth -= 1
        return Call(mark.pos, "_?_:_", nodes)

    def _conditionalOr(self, branch: Branch) -> Node:  # noqa: N802 - rules are named as the grammar names them
        return self._logical(branch, "_||_", "||")

    def _conditionalAnd(self, branch: Branch) -> Node:  # noqa: N802
        return self._logical(branch, "_&&_", "&&")

    def _logical(self, branch: Branch, function: str, sign: str) -> Node:
        operands = _branches(branch.parts)
        ops = [part.token.pos for part in branch.parts if isinstance(part, Leaf)]
        terms = [self.node(operand) for operand in operands]
        if not terms or len(ops) >= len(terms):
            if ops:
                self._build.report.add(branch.pos, f"unexpected character, wanted '{sign}'")
            return Missing(branch.pos)
        return self._build.logical(function, terms, ops)

    def _relation(self, branch: Branch) -> Node:
        return self._chain(branch)

    def _calc(self, branch: Branch) -> Node:
        return self._chain(branch)

    def _chain(self, branch: Branch) -> Node:
        """Left-associative operators; each lies one level above those to its left."""
        operands = _branches(branch.parts)
        ops = [part.token for part in branch.parts if isinstance(part, Leaf)]
        self._deeper(len(ops))
        node = self.node(operands[0] if operands else None)
        for number, op in enumerate(ops, 1):
            right = self.node(operands[number] if number < len(operands) else None)
            self._depth -= 1
            node = Call(op.pos, "@in" if op.text == "in" else f"_{op.text}_", [node, right])
        return node

    def _unary(self, branch: Branch) -> Node:
        if not branch.marks:
            # Upstream puts a string in the place of an operand it could not read at all.
            return Const(branch.pos, "<<error>>")
        signs = [part.token for part in branch.parts if isinstance(part, Leaf)]
        members = _branches(branch.parts)
        node = self.node(members[0] if members else None)
        return Call(signs[0].pos, f"{signs[0].text}_", [node]) if len(signs) % 2 else node

    def _member(self, branch: Branch) -> Node:
        first = branch.parts[0] if branch.parts else None
        node = self.node(first)
        for number, parts in branch.links():
            node = (self._select, self._method, self._index)[number - 1](node, parts)
        return node

    def _select(self, operand: Node, parts: list[Branch | Leaf]) -> Node:
        tokens = _tokens(parts)
        dot, name = tokens.get("'.'"), tokens.get("IDENTIFIER")
        if dot is None or name is None:
            return Missing(operand.pos)
        if "'?'" in tokens:
            return Call(dot.pos, "_?._", [operand, Const(name.pos, name.text)])
        return Select(dot.pos, operand, name.text)

    def _method(self, operand: Node, parts: list[Branch | Leaf]) -> Node:
        tokens = _tokens(parts)
        name, opened = tokens.get("IDENTIFIER"), tokens.get("'('")
        if name is None or opened is None:
            return Missing(operand.pos)
        return self._build.call(opened.pos, name.text, self._arguments(parts), operand)

    def _index(self, operand: Node, parts: list[Branch | Leaf]) -> Node:
        tokens, index = _tokens(parts), _branches(parts)
        opened = tokens.get("'['")
        if opened is None:
            return Missing(operand.pos)
        inner = self.node(index[0] if index else None)
        return Call(opened.pos, "_[?_]" if "'?'" in tokens else "_[_]", [operand, inner])

    def _arguments(self, parts: list[Branch | Leaf]) -> list[Node]:
        return [self.node(arg) for args in _branches(parts, "exprList") for arg in _branches(args.parts)]

    def _primary(self, branch: Branch) -> Node:
        if not branch.marks:
            return Missing(UNPLACED)
        number = branch.marks[0][1]
        tokens = _tokens(branch.parts)
        match number:
            case 1:
                return self._name(branch, tokens)
            case 2 | 6:
                inner = _branches(branch.parts)
                return self.node(inner[0] if inner else None)
            case 3 if "'['" in tokens:
                return self._list(branch, tokens["'['"])
            case 4 if "'{'" in tokens:
                return self._map(branch, tokens["'{'"])
            case 5 if "'{'" in tokens:
                return self._message(branch, tokens["'{'"])
        return Missing(branch.pos)

    def _name(self, branch: Branch, tokens: dict[str, Token]) -> Node:
        name, dot, opened = tokens.get("IDENTIFIER"), tokens.get("'.'"), tokens.get("'('")
        if name is None:
            return Missing(branch.pos)
        leading = None if dot is None else dot.pos
        if opened is None or self._build.reserved(name, leading):
            return self._build.ident(name, leading_dot=leading) if opened is None else Missing(branch.pos)
        function = name.text if dot is None else f".{name.text}"
        return self._build.call(opened.pos, function, self._arguments(branch.parts))

    def _list(self, branch: Branch, opened: Token) -> Node:
        items = [item for init in _branches(branch.parts, "listInit") for item in _branches(init.parts)]
        optional = frozenset(index for index, item in enumerate(items) if "'?'" in _tokens(item.parts))
        return ListExpr(opened.pos, [self.node(item) for item in items], optional)

    def _map(self, branch: Branch, opened: Token) -> Node:
        entries = []
        for init in _branches(branch.parts, "mapInitializerList"):
            for key, colon, value in _triples(init.parts):
                optional = isinstance(key, Branch) and "'?'" in _tokens(key.parts)
                entries.append(Entry(colon.pos, self.node(key), self.node(value), optional))
        return MapExpr(opened.pos, entries)

    def _message(self, branch: Branch, opened: Token) -> Node:
        name = ""
        for part in branch.parts:
            if isinstance(part, Leaf):
                if part.token is opened:
                    break
                name += part.token.text
        fields = []
        for init in _branches(branch.parts, "fieldInitializerList"):
            for label, colon, value in _triples(init.parts):
                tokens = _tokens(label.parts)
                if "IDENTIFIER" in tokens:
                    text = tokens["IDENTIFIER"].text
                    fields.append(Field(colon.pos, text, self.node(value), "'?'" in tokens))
        return StructExpr(opened.pos, name, fields)

    def _optExpr(self, branch: Branch) -> Node:  # noqa: N802
        inner = _branches(branch.parts)
        return self.node(inner[0] if inner else None)

    def _literal(self, branch: Branch) -> Node:
        if branch.failed or not branch.parts:
            return Missing(branch.pos)
        token, sign = branch.parts[-1], ""
        assert isinstance(token, Leaf)
        if token.imagined:
            return Missing(branch.pos)
        if len(branch.parts) > 1:
            sign = "-"
        return self._build.literal(token.token.kind, token.token.text, branch.pos, sign)


_PASSED = frozenset(["expr", "conditionalOr", "conditionalAnd", "relation", "calc"])


def _triples(parts: list[Branch | Leaf]) -> list[tuple[Branch, Token, Branch]]:
    """The complete `key : value` groups of an initializer list."""
    branches = _branches(parts)
    colons = [part.token for part in parts if isinstance(part, Leaf) and part.token.kind == "':'"]
    keys, values = branches[::2], branches[1::2]
    return list(zip(keys, colons, values, strict=False))
