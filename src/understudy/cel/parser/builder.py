"""The rules that both parsers share: literals, macro expansion, balanced `&&` and `||`, reserved names.

Each parser recognizes the source in its own way and calls a `NodeBuilder`, so that these rules exist once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence

from understudy.cel.ast import Call, Const, Ident, Node, UnsignedInt, Unspecified
from understudy.cel.errors import Report
from understudy.cel.parser.dialect import Dialect
from understudy.cel.parser.macros import Expansion, Macro, MacroError, MacroKey
from understudy.cel.parser.tokens import Token
from understudy.machinery.util.regex import regex

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)

_INT_MIN, _INT_MAX, _UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class NodeBuilder:
    """Makes the nodes of one source text, and reports what is wrong with them to `report`."""

    def __init__(self, report: Report, macros: Mapping[MacroKey, Macro], dialect: Dialect) -> None:
        self.report = report
        self.dialect = dialect
        self._macros = macros

    def call(self, pos: int, function: str, args: list[Node], target: Node | None = None) -> Node:
        """Return a call, or the expansion of the macro with that name and number of arguments.

        `pos` is the offset of the opening parenthesis; `target` is the object of a method call.
        """
        macro = self._macros.get((function, len(args), target is not None))
        if macro is not None:
            try:
                expanded = macro(Expansion(pos, self.dialect), target, args)
            except MacroError as error:
                self.report.add(error.pos, str(error))
                return Unspecified(error.pos)
            if expanded is not None:
                return expanded
        return Call(pos, function, args, target)

    def ident(self, token: Token, *, leading_dot: int | None) -> Node:
        """Return a name used as a variable; `leading_dot` is the offset of a dot before it, or None."""
        if self.reserved(token, leading_dot):
            return Unspecified(token.pos)
        return Ident(token.pos, token.text if leading_dot is None else f".{token.text}")

    def reserved(self, token: Token, leading_dot: int | None) -> bool:
        """Report a name that may not be a variable or function, and return whether it is one."""
        if token.text not in RESERVED:
            return False
        self.report.add(token.pos if leading_dot is None else leading_dot, f"reserved identifier: {token.text}")
        return True

    def logical(self, function: str, terms: Sequence[Node], ops: Sequence[int]) -> Node:
        """Return `a && b && c` as a balanced tree, which keeps long chains shallow (`balancer` in cel-go).

        `terms` has one node more than `ops`, the offsets of the operators.
        """

        def tree(low: int, high: int) -> Node:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else tree(low, middle - 1)
            right = terms[middle + 1] if middle == high else tree(middle + 1, high)
            return Call(ops[middle], function, [left, right])

        return terms[0] if len(terms) == 1 else tree(0, len(ops) - 1)

    def literal(self, kind: str, text: str, pos: int, sign: str = "") -> Node:
        """Return the node of a literal token; `pos` is the offset of the sign if there is one."""
        match kind:
            case "NUM_INT":
                value = _integer(sign + text)
                if not _INT_MIN <= value <= _INT_MAX:
                    return self._bad(pos, "invalid int literal")
                return Const(pos, value)
            case "NUM_UINT":
                value = _integer(text[:-1])
                if value > _UINT_MAX:
                    return self._bad(pos, "invalid uint literal")
                return Const(pos, UnsignedInt(value))
            case "NUM_FLOAT":
                number = float(sign + text)
                return self._bad(pos, "invalid double literal") if math.isinf(number) else Const(pos, number)
            case "STRING":
                return self._string(pos, text)
            case "BYTES":
                return Const(pos, unescape_bytes(text[1:])) if _bytes_ok(text) else self._bad(pos, _UNESCAPE)
        return Const(pos, {"true": True, "false": False, "null": None}[text])

    def _string(self, pos: int, text: str) -> Node:
        try:
            return Const(pos, unescape(text, surrogates=self.dialect.surrogates))
        except ValueError:
            return self._bad(pos, _UNESCAPE if self.dialect.surrogates else "invalid unicode code point")

    def _bad(self, pos: int, message: str) -> Node:
        """Report an error and return the node that stands for the invalid literal."""
        self.report.add(pos, message)
        return Unspecified(pos)


_UNESCAPE = "unable to unescape string"


def _integer(text: str) -> int:
    """Return the value of a decimal or hexadecimal literal; one far out of range keeps only enough digits to be so."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    digits = digits.lstrip("0")
    # Python refuses to read more than 4300 digits, and a number with more than 20 is out of range.
    return sign * int(digits[:21] or "0")


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = regex(r"\\([xX]..|u....|U........|[0-3]..|.)", re.DOTALL)


def _body(text: str) -> tuple[str, bool]:
    """Return the text between the quotes with newlines normalized, and whether the literal is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def unescape(text: str, *, surrogates: bool) -> str:
    """Return the value of a string literal given with its quotes and prefix. Raises ValueError for a bad code point.

    With `surrogates`, that of a lone surrogate is read as U+FFFD, since Go encodes it so.
    """
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(lambda match: _code_point(match[1], surrogates), body)


def _code_point(escape: str, surrogates: bool) -> str:
    """Return the character of an escape sequence given without its backslash. Raises ValueError if there is none."""
    if len(escape) == 1:
        return _ESCAPES.get(escape, escape)
    code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
    if code > sys.maxunicode:
        raise ValueError(escape)
    if not 0xD800 <= code <= 0xDFFF:
        return chr(code)
    if surrogates:
        return "\ufffd"
    raise ValueError(escape)


def _bytes_ok(text: str) -> bool:
    """Report whether a bytes literal has no Unicode escapes, which are only for strings."""
    body, raw = _body(text[1:])
    return raw or not any(match[1][0] in "uU" for match in _ESCAPE.finditer(body) if len(match[1]) > 1)


def unescape_bytes(text: str) -> bytes:
    """Return the value of a bytes literal given without its `b`; numeric escapes are single octets."""
    body, raw = _body(text)
    if raw:
        return body.encode()
    out, last = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        out += body[last : match.start()].encode()
        last = match.end()
        escape = match[1]
        if len(escape) == 1:
            out += _ESCAPES.get(escape, escape).encode()
        else:
            out.append((int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)) & 0xFF)
    return bytes(out + body[last:].encode())
