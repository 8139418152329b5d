"""The default parser: recursive descent over the tokens of `tokens`, for expressions without syntax errors.

One function for each rule of cel-go's grammar (CEL.g4). It gives up at the first mistake, which `antlr_parser` reports
then. It also counts how deep operators and selections nest, since cel-go limits that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from understudy.cel.ast import Call, Const, ListExpr, MapEntry, MapExpr, Node, Select, StructExpr, StructField
from understudy.cel.errors import MAX_RECURSION_DEPTH, RecursionDepthError
from understudy.cel.parser.builder import NodeBuilder
from understudy.cel.parser.tokens import EOF, Token

T = TypeVar("T")


class SyntaxMismatchError(Exception):
    """The source is not CEL; `antlr_parser` says what is wrong with it."""


_RELATIONS = frozenset(("'<'", "'<='", "'>='", "'>'", "'=='", "'!='", "'in'"))
_SUMS, _PRODUCTS = frozenset(("'+'", "'-'")), frozenset(("'*'", "'/'", "'%'"))
_SIGNED = frozenset(("NUM_INT", "NUM_FLOAT"))
_LITERALS = _SIGNED | {"NUM_UINT", "STRING", "BYTES", "'true'", "'false'", "'null'"}


def surely_within_limits(tokens: Sequence[Token]) -> bool:
    """Report whether no grammar rule can be applied within itself too often; a rough count, on the safe side.

    Between two brackets there may be sums, products in these and their operands; a condition goes on behind its colon.
    """
    depth = deepest = conditions = 0
    for kind, _, _ in tokens:
        if kind in _OPENING:
            depth += 1
            deepest = max(deepest, depth)
        elif kind in _CLOSING:
            depth -= 1
        elif kind == "'?'":
            conditions += 1
    return 3 * (deepest + 1) + conditions < MAX_RECURSION_DEPTH


_OPENING, _CLOSING = frozenset(("'('", "'['", "'{'")), frozenset(("')'", "']'", "'}'"))


def parse(tokens: Sequence[Token], builder: NodeBuilder) -> Node:
    """Return the tree of a token list that ends in EOF. Raises `SyntaxMismatchError`, and `RecursionDepthError` if
    operators nest deeper than cel-go allows."""
    parser = _Parser(tokens, builder)
    node = parser.expr()
    parser.take(EOF)
    if parser.height > MAX_RECURSION_DEPTH:
        raise RecursionDepthError
    return node


class _Parser:
    """Reads the rules; `height` is how deep operators and selections nest in what was read last.

    Operators associate to the left: each lifts all to its left by one.
    """

    def __init__(self, tokens: Sequence[Token], builder: NodeBuilder) -> None:
        self._tokens = tokens
        self._build = builder
        self._at = 0
        self.height = 0

    def take(self, kind: str) -> Token:
        """Return the next token and go on behind it. Raises `SyntaxMismatchError` unless it is of a kind."""
        token = self._tokens[self._at]
        if token.kind != kind:
            raise SyntaxMismatchError
        self._at += 1
        return token

    def _takes(self, kind: str) -> bool:
        """Report whether the next token is of a kind, and go on behind it if it is."""
        if self._tokens[self._at].kind != kind:
            return False
        self._at += 1
        return True

    def expr(self) -> Node:
        """Read a condition with its alternatives, or any other expression."""
        condition = self._or()
        mark = self._tokens[self._at]
        if mark.kind != "'?'":
            return condition
        self._at += 1
        height = self.height
        yes = self._or()
        self.take("':'")
        height = max(height, self.height)
        no = self.expr()
        self.height = max(height, self.height) + 1
        return Call(mark.pos, "_?_:_", [condition, yes, no])

    def _or(self) -> Node:
        return self._logical("'||'", "_||_", self._and)

    def _and(self) -> Node:
        return self._logical("'&&'", "_&&_", self._relation)

    def _logical(self, kind: str, function: str, read: Callable[[], Node]) -> Node:
        first = read()
        if self._tokens[self._at].kind != kind:
            return first
        terms, ops, height = [first], [], self.height
        while (op := self._tokens[self._at]).kind == kind:
            self._at += 1
            ops.append(op.pos)
            terms.append(read())
            height = max(height, self.height)
        self.height = height
        return self._build.logical(function, terms, ops)

    def _relation(self) -> Node:
        return self._operators(_RELATIONS, self._sum)

    def _sum(self) -> Node:
        return self._operators(_SUMS, self._product)

    def _product(self) -> Node:
        return self._operators(_PRODUCTS, self._unary)

    def _operators(self, kinds: frozenset[str], read: Callable[[], Node]) -> Node:
        node = read()
        while (op := self._tokens[self._at]).kind in kinds:
            self._at += 1
            height = self.height
            right = read()
            self.height = max(height, self.height) + 1
            node = Call(op.pos, "@in" if op.text == "in" else f"_{op.text}_", [node, right])
        return node

    def _unary(self) -> Node:
        first = self._tokens[self._at]
        if first.kind not in ("'!'", "'-'") or self._is_sign():
            return self._member()
        count = 0
        while self._takes(first.kind):
            count += 1
        # A minus is the sign of the number behind it only if it is the first one.
        node = self._member() if first.kind == "'!'" else self._links(self._primary())
        return Call(first.pos, f"{first.text}_", [node]) if count % 2 else node

    def _is_sign(self) -> bool:
        """Report whether a minus and a number follow: cel-go reads a negative literal, not a negation."""
        return self._tokens[self._at].kind == "'-'" and self._tokens[self._at + 1].kind in _SIGNED

    def _member(self) -> Node:
        if not self._is_sign():
            return self._links(self._primary())
        sign, number = self._tokens[self._at : self._at + 2]
        self._at += 2
        self.height = 0
        return self._links(self._build.literal(number.kind, number.text, sign.pos, "-"))

    def _links(self, node: Node) -> Node:
        """Read the selections, method calls and indexes behind an operand."""
        while True:
            link = self._tokens[self._at]
            if link.kind == "'.'":
                self._at += 1
                height = self.height
                self.height = 0
                node = self._dot(node, link.pos)
            elif link.kind == "'['":
                self._at += 1
                height = self.height
                function = "_[?_]" if self._takes("'?'") else "_[_]"
                node = Call(link.pos, function, [node, self.expr()])
                self.take("']'")
            else:
                return node
            self.height = max(height + 1, self.height)

    def _dot(self, node: Node, pos: int) -> Node:
        """Read what follows the dot behind an operand."""
        optional = self._takes("'?'")
        name = self.take("IDENTIFIER")
        if optional:
            return Call(pos, "_?._", [node, Const(name.pos, name.text)])
        opened = self._tokens[self._at]
        if opened.kind != "'('":
            return Select(pos, node, name.text)
        return self._build.call(opened.pos, name.text, self._arguments(), node)

    def _arguments(self) -> list[Node]:
        """Read arguments in parentheses."""
        self.take("'('")
        args: list[Node] = []
        height = 0
        if not self._takes("')'"):
            while True:
                args.append(self.expr())
                height = max(height, self.height)
                if not self._takes("','"):
                    break
            self.take("')'")
        self.height = height
        return args

    def _primary(self) -> Node:
        token = self._tokens[self._at]
        self.height = 0
        if token.kind == "IDENTIFIER" or token.kind == "'.'":
            return self._name()
        self._at += 1
        if token.kind in _LITERALS:
            return self._build.literal(token.kind, token.text, token.pos)
        if token.kind == "'('":
            node = self.expr()
            self.take("')'")
            return node
        if token.kind == "'['":
            items = self._items("']'", lambda: (self._takes("'?'"), self.expr()))
            optional = frozenset(index for index, (is_optional, _) in enumerate(items) if is_optional)
            return ListExpr(token.pos, [item for _, item in items], optional)
        if token.kind == "'{'":
            return MapExpr(token.pos, self._items("'}'", self._map_entry))
        raise SyntaxMismatchError

    def _items(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Read what is between brackets, with commas between and perhaps one behind."""
        items: list[T] = []
        height = 0
        while not self._takes(closing):
            if items or self._tokens[self._at].kind == "','":
                self.take("','")
                if self._takes(closing):
                    break
                if not items:  # a comma alone
                    raise SyntaxMismatchError
            items.append(read())
            height = max(height, self.height)
        self.height = height
        return items

    def _map_entry(self) -> MapEntry:
        optional = self._takes("'?'")
        key = self.expr()
        height = self.height
        colon = self.take("':'")
        value = self.expr()
        self.height = max(height, self.height)
        return MapEntry(colon.pos, key, value, optional)

    def _struct_field(self) -> StructField:
        optional = self._takes("'?'")
        name = self.take("IDENTIFIER")
        colon = self.take("':'")
        return StructField(colon.pos, name.text, self.expr(), optional)

    def _name(self) -> Node:
        """Read a variable, the call of a function, or a message such as `a.b.C{…}`."""
        dot = self._tokens[self._at]
        leading_dot = dot.pos if self._takes("'.'") else None
        name = self.take("IDENTIFIER")
        opened = self._tokens[self._at]
        if opened.kind == "'('":
            if self._build.reserved(name, leading_dot):
                raise SyntaxMismatchError
            function = name.text if leading_dot is None else f".{name.text}"
            return self._build.call(opened.pos, function, self._arguments())
        if opened.kind in ("'{'", "'.'") and (end := self._end_of_message_name()):
            text = "".join(token.text for token in self._tokens[self._at : end])
            brace = self._tokens[end]
            self._at = end + 1
            full = f"{'' if leading_dot is None else '.'}{name.text}{text}"
            return StructExpr(brace.pos, full, self._items("'}'", self._struct_field))
        return self._build.ident(name, leading_dot=leading_dot)

    def _end_of_message_name(self) -> int:
        """Return the index of the brace behind a dotted name, 0 if there is none."""
        at = self._at
        while self._tokens[at].kind == "'.'" and self._tokens[at + 1].kind == "IDENTIFIER":
            at += 2
        return at if self._tokens[at].kind == "'{'" else 0
