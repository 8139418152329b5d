"""The parse tree that `antlr_parser` produces, and the visitor that turns it into the syntax tree of `ast`.

The parse tree of a faulty source has gaps, which become `Unspecified` nodes. The visitor continues around them because
cel-go reports reserved names, invalid literals and misused macros together with the syntax errors.
"""

from __future__ import annotations

from dataclasses import field

from understudy.cel.ast import (
    Call,
    Const,
    ListExpr,
    MapEntry,
    MapExpr,
    Node,
    Select,
    StructExpr,
    StructField,
    Unspecified,
)
from understudy.cel.errors import BEFORE_SOURCE, MAX_RECURSION_DEPTH, RecursionDepthError
from understudy.cel.parser.builder import NodeBuilder
from understudy.cel.parser.tokens import Token
from understudy.machinery.types import dataclass


@dataclass(slots=True)
class TerminalNode:
    """One token of the source, or one that error recovery put in because it was missing (`ErrorNode` in ANTLR)."""

    token: Token
    is_missing: bool = False


@dataclass(slots=True)
class RuleContext:
    """One application of a grammar rule, with its children in source order (`ParserRuleContext` in ANTLR).

    `alternatives` has one pair for each alternative taken in the rule: the index of its first child, and the number of
    the alternative, which counts from 1. `failed` is true if the rule ended with a syntax error.
    """

    rule: str
    pos: int
    parts: list[RuleContext | TerminalNode] = field(default_factory=list)
    alternatives: list[tuple[int, int]] = field(default_factory=list)
    failed: bool = False

    def alternative_parts(self) -> list[tuple[int, list[RuleContext | TerminalNode]]]:
        """Return for each alternative taken its number and its children."""
        if not self.alternatives:
            return []
        ends = [start for start, _ in self.alternatives[1:]] + [len(self.parts)]
        return [(number, self.parts[start:end]) for (start, number), end in zip(self.alternatives, ends, strict=True)]


def visit(tree: RuleContext, builder: NodeBuilder) -> Node:
    """Return the syntax tree of a whole source.

    Literals, names and macros that are wrong are reported to the builder's `report`. Raises `RecursionDepthError`.
    """
    return _Visitor(builder).node(tree.parts[0] if tree.parts else None)


def _first_tokens(parts: list[RuleContext | TerminalNode]) -> dict[str, Token]:
    """Return the first token of each kind among the children."""
    tokens: dict[str, Token] = {}
    for part in parts:
        if isinstance(part, TerminalNode):
            tokens.setdefault(part.token.kind, part.token)
    return tokens


def _rule_contexts(parts: list[RuleContext | TerminalNode], rule: str = "") -> list[RuleContext]:
    """Return the children that are rules, all of them or those of one rule."""
    return [part for part in parts if isinstance(part, RuleContext) and rule in ("", part.rule)]


class _Visitor:
    """Turns rule contexts into nodes; the method that handles a rule has the rule's name, after an underscore."""

    def __init__(self, builder: NodeBuilder) -> None:
        self._build = builder
        self._depth = 0

    def node(self, part: RuleContext | TerminalNode | None) -> Node:
        """Return the node of any expression; a gap becomes `Unspecified`."""
        # Rules that only express precedence have one child; the loop descends without a stack frame for each.
        while (
            isinstance(part, RuleContext)
            and part.rule in _PRECEDENCE_RULES
            and len(part.parts) == 1
            and not part.alternatives
        ):
            part = part.parts[0]
        if not isinstance(part, RuleContext):
            return Unspecified(BEFORE_SOURCE)
        handler = getattr(self, f"_{part.rule}")
        node: Node = handler(part)
        return node

    def _increase_depth(self, by: int) -> None:
        """Count nested operators and selections. Raises `RecursionDepthError` above the limit."""
        self._depth += by
        if self._depth > MAX_RECURSION_DEPTH:
            raise RecursionDepthError

    def _expr(self, context: RuleContext) -> Node:
        mark = _first_tokens(context.parts).get("'?'")
        operands = _rule_contexts(context.parts)
        if mark is None:
            return self.node(operands[0] if operands else None)
        self._increase_depth(1)
        padded = [*operands, None, None][:3]
        nodes = [self.node(operand) for operand in padded]
        self._depth -= 1
        return Call(mark.pos, "_?_:_", nodes)

    def _conditionalOr(self, context: RuleContext) -> Node:  # noqa: N802 - rules are named as the grammar names them
        return self._logical(context, "_||_", "||")

    def _conditionalAnd(self, context: RuleContext) -> Node:  # noqa: N802
        return self._logical(context, "_&&_", "&&")

    def _logical(self, context: RuleContext, function: str, sign: str) -> Node:
        operands = _rule_contexts(context.parts)
        ops = [part.token.pos for part in context.parts if isinstance(part, TerminalNode)]
        terms = [self.node(operand) for operand in operands]
        if not terms or len(ops) >= len(terms):
            if ops:
                self._build.report.add(context.pos, f"unexpected character, wanted '{sign}'")
            return Unspecified(context.pos)
        return self._build.logical(function, terms, ops)

    def _relation(self, context: RuleContext) -> Node:
        return self._binary_operators(context)

    def _calc(self, context: RuleContext) -> Node:
        return self._binary_operators(context)

    def _binary_operators(self, context: RuleContext) -> Node:
        """Return the node of left-associative operators; each is nested one level above those to its left."""
        operands = _rule_contexts(context.parts)
        ops = [part.token for part in context.parts if isinstance(part, TerminalNode)]
        self._increase_depth(len(ops))
        node = self.node(operands[0] if operands else None)
        for number, op in enumerate(ops, 1):
            right = self.node(operands[number] if number < len(operands) else None)
            self._depth -= 1
            node = Call(op.pos, "@in" if op.text == "in" else f"_{op.text}_", [node, right])
        return node

    def _unary(self, context: RuleContext) -> Node:
        if not context.alternatives:
            # cel-go puts this string in place of an operand that it could not parse at all.
            return Const(context.pos, "<<error>>")
        signs = [part.token for part in context.parts if isinstance(part, TerminalNode)]
        members = _rule_contexts(context.parts)
        node = self.node(members[0] if members else None)
        return Call(signs[0].pos, f"{signs[0].text}_", [node]) if len(signs) % 2 else node

    def _member(self, context: RuleContext) -> Node:
        first = context.parts[0] if context.parts else None
        links = context.alternative_parts()
        self._increase_depth(len(links))
        node = self.node(first)
        for number, parts in links:
            self._depth -= 1
            node = (self._select, self._method, self._index)[number - 1](node, parts)
        return node

    def _select(self, operand: Node, parts: list[RuleContext | TerminalNode]) -> Node:
        tokens = _first_tokens(parts)
        dot, name = tokens.get("'.'"), self._field(parts)
        if dot is None or name is None:
            return Unspecified(operand.pos)
        if "'?'" in tokens:
            return Call(dot.pos, "_?._", [operand, Const(name.pos, name.text)])
        return Select(dot.pos, operand, name.text)

    def _field(self, parts: list[RuleContext | TerminalNode]) -> Token | None:
        """Return the name of a field, None if it is missing.

        One that is not a plain name is reported, and returned as an empty name (`normalizeIdent`).
        """
        for context in _rule_contexts(parts, "escapeIdent"):
            if not context.alternatives:
                return self._bad_field(context, "unsupported ident kind")
            if context.alternatives[0][1] == 2:
                quoted = _first_tokens(context.parts)["ESC_IDENTIFIER"]
                if self._build.dialect.reads_quoted_fields:
                    return Token("IDENTIFIER", quoted.text[1:-1], quoted.pos)
                return self._bad_field(context, "unsupported syntax: '`'")
            parts = context.parts
        return _first_tokens(parts).get("IDENTIFIER")

    def _bad_field(self, context: RuleContext, message: str) -> Token:
        self._build.report.add(context.pos, message)
        return Token("IDENTIFIER", "", context.pos)

    def _method(self, operand: Node, parts: list[RuleContext | TerminalNode]) -> Node:
        tokens = _first_tokens(parts)
        name, opened = tokens.get("IDENTIFIER"), tokens.get("'('")
        if name is None or opened is None:
            return Unspecified(operand.pos)
        return self._build.call(opened.pos, name.text, self._arguments(parts), operand)

    def _index(self, operand: Node, parts: list[RuleContext | TerminalNode]) -> Node:
        tokens, index = _first_tokens(parts), _rule_contexts(parts)
        opened = tokens.get("'['")
        if opened is None:
            return Unspecified(operand.pos)
        inner = self.node(index[0] if index else None)
        return Call(opened.pos, "_[?_]" if "'?'" in tokens else "_[_]", [operand, inner])

    def _arguments(self, parts: list[RuleContext | TerminalNode]) -> list[Node]:
        return [self.node(arg) for args in _rule_contexts(parts, "exprList") for arg in _rule_contexts(args.parts)]

    def _primary(self, context: RuleContext) -> Node:
        if not context.alternatives:
            return Unspecified(BEFORE_SOURCE)
        number = context.alternatives[0][1]
        tokens = _first_tokens(context.parts)
        match _PRIMARIES[self._build.dialect.quoted_fields][number - 1]:
            case "name":
                return self._name(context, tokens)
            case "nested" | "literal":
                inner = _rule_contexts(context.parts)
                return self.node(inner[0] if inner else None)
            case "list" if "'['" in tokens:
                return self._list(context, tokens["'['"])
            case "map" if "'{'" in tokens:
                return self._map(context, tokens["'{'"])
            case "message" if "'{'" in tokens:
                return self._message(context, tokens["'{'"])
        return Unspecified(context.pos)

    def _name(self, context: RuleContext, tokens: dict[str, Token]) -> Node:
        name, dot, opened = tokens.get("IDENTIFIER"), tokens.get("'.'"), tokens.get("'('")
        if name is None:
            return Unspecified(context.pos)
        leading = None if dot is None else dot.pos
        if opened is None or self._build.reserved(name, leading):
            return self._build.ident(name, leading_dot=leading) if opened is None else Unspecified(context.pos)
        function = name.text if dot is None else f".{name.text}"
        return self._build.call(opened.pos, function, self._arguments(context.parts))

    def _list(self, context: RuleContext, opened: Token) -> Node:
        items = [item for init in _rule_contexts(context.parts, "listInit") for item in _rule_contexts(init.parts)]
        optional = frozenset(index for index, item in enumerate(items) if "'?'" in _first_tokens(item.parts))
        return ListExpr(opened.pos, [self.node(item) for item in items], optional)

    def _map(self, context: RuleContext, opened: Token) -> Node:
        entries = []
        for init in _rule_contexts(context.parts, "mapInitializerList"):
            for key, colon, value in _key_values(init.parts):
                optional = isinstance(key, RuleContext) and "'?'" in _first_tokens(key.parts)
                entries.append(MapEntry(colon.pos, self.node(key), self.node(value), optional))
        return MapExpr(opened.pos, entries)

    def _message(self, context: RuleContext, opened: Token) -> Node:
        name = ""
        for part in context.parts:
            if isinstance(part, TerminalNode):
                if part.token is opened:
                    break
                name += part.token.text
        fields = []
        for init in _rule_contexts(context.parts, "fieldInitializerList"):
            for label, colon, value in _key_values(init.parts):
                field = self._field(label.parts)
                if field is not None and field.text:
                    optional = "'?'" in _first_tokens(label.parts)
                    fields.append(StructField(colon.pos, field.text, self.node(value), optional))
        return StructExpr(opened.pos, name, fields)

    def _optExpr(self, context: RuleContext) -> Node:  # noqa: N802
        inner = _rule_contexts(context.parts)
        return self.node(inner[0] if inner else None)

    def _literal(self, context: RuleContext) -> Node:
        if context.failed or not context.parts:
            return Unspecified(context.pos)
        token, sign = context.parts[-1], ""
        assert isinstance(token, TerminalNode)
        if token.is_missing:
            return Unspecified(context.pos)
        if len(context.parts) > 1:
            sign = "-"
        return self._build.literal(token.token.kind, token.token.text, context.pos, sign)


# The alternatives of `primary` in the grammars without and with quoted fields, where calls have their own.
_PRIMARIES = (
    ("name", "nested", "list", "map", "message", "literal"),
    ("name", "name", "nested", "list", "map", "message", "literal"),
)
_PRECEDENCE_RULES = frozenset(["expr", "conditionalOr", "conditionalAnd", "relation", "calc"])


def _key_values(parts: list[RuleContext | TerminalNode]) -> list[tuple[RuleContext, Token, RuleContext]]:
    """Return the complete `key : value` groups of an initializer list."""
    contexts = _rule_contexts(parts)
    colons = [part.token for part in parts if isinstance(part, TerminalNode) and part.token.kind == "':'"]
    keys, values = contexts[::2], contexts[1::2]
    return list(zip(keys, colons, values, strict=False))
