"""The default parser: cel-python's grammar, run by lark over the tokens of `tokens`.

The grammar is changed in three respects before it is compiled: the optional syntax (`a.?b`, `a[?b]`, `[?x]`, `{?k: v}`)
and trailing commas are added, signs follow cel-go (`!-1` is allowed, `!-x` is not), and tokens come from our own lexer,
which reads strings and numbers as cel-go does. Loading the grammar takes a moment, so the first parse does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from understudy.admission.cel.ast import (
    Call,
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
from understudy.admission.cel.parser.builder import NodeBuilder
from understudy.admission.cel.parser.tokens import EOF, Token

if TYPE_CHECKING:
    from lark import Lark


class SyntaxMismatchError(Exception):
    """The source is not CEL; `antlr_parser` says what is wrong with it."""


# Rules that replace those of cel-python's grammar; the other rules are used unchanged.
_RULES = {
    "unary": "member | nots member | negs member",
    "member_dot": 'member "." IDENT',
    "member_index": 'member "[" expr "]"',
    "member_object": 'member "{" "}" | member "{" "," "}" | member "{" fieldinits "}" | member "{" fieldinits "," "}"',
    "list_lit": '"[" "]" | "[" "," "]" | "[" listinits "]" | "[" listinits "," "]"',
    "map_lit": '"{" "}" | "{" "," "}" | "{" mapinits "}" | "{" mapinits "," "}"',
    "exprlist": 'expr | exprlist "," expr',
    "fieldinits": 'fieldinit | fieldinits "," fieldinit',
    "mapinits": 'mapinit | mapinits "," mapinit',
    "member": "member_dot | member_optdot | member_dot_arg | member_index | member_optindex | member_object | primary",
}
_MORE_RULES = r"""
nots: "!" | nots "!"
negs: "-" | negs "-"
member_optdot: member "." "?" IDENT
member_optindex: member "[" "?" expr "]"
listinits: listinit | listinits "," listinit
listinit: expr | "?" expr
fieldinit: IDENT ":" expr | "?" IDENT ":" expr
mapinit: expr ":" expr | "?" expr ":" expr
"""
# Rules that only express precedence: lark puts a single child in place of its node.
_TRANSPARENT = frozenset(
    ["expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member", "primary"]
)
_TERMINALS = {
    "IDENTIFIER": "IDENT",
    "ESC_IDENTIFIER": "ESC_IDENTIFIER",  # in no rule: Kubernetes refuses it
    "NUM_INT": "INT_LIT",
    "NUM_UINT": "UINT_LIT",
    "NUM_FLOAT": "FLOAT_LIT",
    "STRING": "STRING_LIT",
    "BYTES": "BYTES_LIT",
    "'true'": "BOOL_LIT",
    "'false'": "BOOL_LIT",
    "'null'": "NULL_LIT",
}
_KINDS = {
    "INT_LIT": "NUM_INT",
    "UINT_LIT": "NUM_UINT",
    "FLOAT_LIT": "NUM_FLOAT",
    "STRING_LIT": "STRING",
    "BYTES_LIT": "BYTES",
}


def _patched(grammar: str) -> str:
    """Return cel-python's grammar with our rules in place of its own."""
    lines: list[str] = []
    replaced = False
    for line in grammar.splitlines():
        head = re.match(r"([a-z_]+)\s*:", line)
        if head is None:
            if not (replaced and re.match(r"\s+\|", line)):
                lines.append(line)
                replaced = replaced and not line.strip()
            continue
        name = head[1]
        replaced = name in _RULES
        mark = "?" if name in _TRANSPARENT else ""
        lines.append(f"{mark}{name} : {_RULES[name]}" if replaced else mark + line)
    return "\n".join(lines) + _MORE_RULES


@cache
def _lark() -> Lark:
    """Return the compiled grammar."""
    from importlib.resources import files

    from lark import Lark
    from lark.lexer import Lexer
    from lark.lexer import Token as LarkToken

    class Ready(Lexer):
        """Hands lark the tokens it is given, under the names its grammar has for them."""

        def __init__(self, conf: Any) -> None:
            self._names = {f"'{t.pattern.value}'": t.name for t in conf.terminals if t.pattern.type == "str"}
            self._names |= _TERMINALS

        def lex(self, data: Any) -> Iterator[LarkToken]:  # type: ignore[override]
            for kind, text, pos in data:
                yield LarkToken(self._names[kind], text, start_pos=pos)

    grammar = _patched(files("celpy").joinpath("cel.lark").read_text("utf-8"))
    return Lark(grammar, start="expr", parser="lalr", lexer=Ready, keep_all_tokens=True, maybe_placeholders=False)


def parse(tokens: list[Token], builder: NodeBuilder) -> Node:
    """Return the tree of a token list that ends in EOF. Raises `SyntaxMismatchError` if the grammar does not match."""
    from lark.exceptions import UnexpectedInput

    try:
        tree = _lark().parse(list(_with_signs(tokens)))
    except UnexpectedInput:
        raise SyntaxMismatchError from None
    return _Adapter(builder).node(tree)


_OPERAND_ENDS = frozenset(("IDENTIFIER", "NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES"))
_OPERAND_ENDS |= {"')'", "']'", "'}'", "'true'", "'false'", "'null'"}


def _with_signs(tokens: list[Token]) -> Iterator[Token]:
    """Join a single minus to the number after it: cel-go reads a negative literal, not the negation of a literal."""
    before, sign = "", None
    for token in tokens:
        if token.kind == EOF:
            break
        if sign is not None:
            if token.kind in ("NUM_INT", "NUM_FLOAT"):
                token = Token(token.kind, f"-{token.text}", sign.pos)
            else:
                yield sign
            sign = None
        elif token.kind == "'-'" and before not in _OPERAND_ENDS and before != "unary -":
            sign = token
            before = "unary -"
            continue
        yield token
        unary = token.kind == "'-'" and (before == "unary -" or before not in _OPERAND_ENDS)
        before = "unary -" if unary else token.kind
    if sign is not None:
        yield sign


class _Adapter:
    """Turns lark's tree into nodes; left-recursive chains are walked in loops, because they may be thousands long."""

    def __init__(self, builder: NodeBuilder) -> None:
        self._build = builder

    def node(self, tree: Any) -> Node:
        """Return the node of any expression."""
        data: str = str(tree.data)
        if data in _BINARY_RULES:
            return self._binary(tree)
        if data in ("conditionalor", "conditionaland"):
            return self._logical(tree)
        if data.startswith("member_"):
            return self._member(tree)
        handler = getattr(self, f"_{data}")
        node: Node = handler(tree.children)
        return node

    def _expr(self, parts: list[Any]) -> Node:
        condition, mark, yes, _, no = parts
        return Call(mark.start_pos, "_?_:_", [self.node(condition), self.node(yes), self.node(no)])

    def _logical(self, tree: Any) -> Node:
        rule, terms, ops = tree.data, [], []
        while getattr(tree, "data", None) == rule:
            left, op, right = tree.children
            terms.append(right)
            ops.append(op.start_pos)
            tree = left
        nodes = [self.node(term) for term in (tree, *reversed(terms))]
        return self._build.logical("_||_" if rule == "conditionalor" else "_&&_", nodes, ops[::-1])

    def _binary(self, tree: Any) -> Node:
        pending = []
        while str(getattr(tree, "data", "")) in _BINARY_RULES:
            head, right = tree.children
            left, op = head.children
            pending.append((op, right))
            tree = left
        node = self.node(tree)
        for op, right in reversed(pending):
            function = "@in" if op.value == "in" else f"_{op.value}_"
            node = Call(op.start_pos, function, [node, self.node(right)])
        return node

    def _unary(self, parts: list[Any]) -> Node:
        signs, operand = parts
        count, first = 0, signs
        while True:
            count += 1
            first = signs.children[0]
            if len(signs.children) == 1:
                break
            signs = first
        node = self.node(operand)
        return Call(first.start_pos, f"{first.value}_", [node]) if count % 2 else node

    def _member(self, tree: Any) -> Node:
        pending = []
        while str(tree.data).startswith("member_"):
            pending.append(tree)
            tree = tree.children[0]
        links = pending[::-1]
        objects = [index for index, link in enumerate(links) if link.data == "member_object"]
        if objects:
            node: Node = self._message(tree, links[: objects[0] + 1])
            links = links[objects[0] + 1 :]
        else:
            node = self.node(tree)
        for link in links:
            node = getattr(self, f"_link_{str(link.data)[7:]}")(node, link.children)
        return node

    def _message(self, head: Any, links: list[Any]) -> Node:
        """Return the message of `a.b.C{…}`.

        cel-python accepts any operand before the brace, cel-go only a dotted name.
        """
        if head.data not in ("ident", "dot_ident") or any(link.data != "member_dot" for link in links[:-1]):
            raise SyntaxMismatchError
        name = "".join(token.value for token in head.children)
        name += "".join(f".{link.children[2].value}" for link in links[:-1])
        _, opened, *rest = links[-1].children
        fields = [
            StructField(colon.start_pos, field.value, self.node(value), bool(mark))
            for *mark, field, colon, value in self._items(rest[0], "fieldinits")
        ]
        return StructExpr(opened.start_pos, name, fields)

    def _link_object(self, node: Node, parts: list[Any]) -> Node:
        raise SyntaxMismatchError

    def _link_dot(self, node: Node, parts: list[Any]) -> Node:
        _, dot, name = parts
        return Select(dot.start_pos, node, name.value)

    def _link_optdot(self, node: Node, parts: list[Any]) -> Node:
        _, dot, _, name = parts
        return Call(dot.start_pos, "_?._", [node, Const(name.start_pos, name.value)])

    def _link_dot_arg(self, node: Node, parts: list[Any]) -> Node:
        _, _, name, opened, *args, _ = parts
        return self._build.call(opened.start_pos, name.value, self._args(args), node)

    def _link_index(self, node: Node, parts: list[Any]) -> Node:
        return Call(parts[1].start_pos, "_[_]", [node, self.node(parts[2])])

    def _link_optindex(self, node: Node, parts: list[Any]) -> Node:
        return Call(parts[1].start_pos, "_[?_]", [node, self.node(parts[3])])

    def _items(self, tree: Any, rule: str) -> list[list[Any]]:
        """Return the children of each element of a comma-separated list."""
        items = []
        while getattr(tree, "data", None) == rule:
            items.append(tree.children[-1].children)
            tree = tree.children[0] if len(tree.children) > 1 else None
        return items[::-1]

    def _args(self, parts: list[Any]) -> list[Node]:
        args: list[Any] = []
        tree: Any = parts[0] if parts else None
        while getattr(tree, "data", None) == "exprlist":
            args.append(tree.children[-1])
            tree = tree.children[0] if len(tree.children) > 1 else None
        return [self.node(arg) for arg in reversed(args)]

    def _ident(self, parts: list[Any]) -> Node:
        return self._build.ident(_token(parts[0]), leading_dot=None)

    def _dot_ident(self, parts: list[Any]) -> Node:
        return self._build.ident(_token(parts[1]), leading_dot=parts[0].start_pos)

    def _ident_arg(self, parts: list[Any]) -> Node:
        return self._global_call(None, parts[0], parts[1], parts[2:-1])

    def _dot_ident_arg(self, parts: list[Any]) -> Node:
        return self._global_call(parts[0].start_pos, parts[1], parts[2], parts[3:-1])

    def _global_call(self, dot: int | None, name: Any, opened: Any, args: list[Any]) -> Node:
        if self._build.reserved(_token(name), dot):
            return Ident(name.start_pos, name.value)
        function = name.value if dot is None else f".{name.value}"
        return self._build.call(opened.start_pos, function, self._args(args))

    def _paren_expr(self, parts: list[Any]) -> Node:
        return self.node(parts[1])

    def _list_lit(self, parts: list[Any]) -> Node:
        items = self._items(parts[1], "listinits")
        optional = frozenset(index for index, item in enumerate(items) if len(item) > 1)
        return ListExpr(parts[0].start_pos, [self.node(item[-1]) for item in items], optional)

    def _map_lit(self, parts: list[Any]) -> Node:
        entries = [
            MapEntry(colon.start_pos, self.node(key), self.node(value), bool(mark))
            for *mark, key, colon, value in self._items(parts[1], "mapinits")
        ]
        return MapExpr(parts[0].start_pos, entries)

    def _literal(self, parts: list[Any]) -> Node:
        token = parts[0]
        text, sign = token.value, ""
        if text.startswith("-"):
            text, sign = text[1:], "-"
        return self._build.literal(_KINDS.get(token.type, text), text, token.start_pos, sign)


_BINARY_RULES = frozenset(("relation", "addition", "multiplication"))


def _token(token: Any) -> Token:
    return Token("IDENTIFIER", token.value, token.start_pos)
