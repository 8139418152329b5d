"""The lexer of CEL: splits an expression into the same tokens as cel-go's ANTLR lexer, and reports the same errors.

An error quotes the text that is no token, up to and including the character at which the lexer gave up; scanning goes
on after that character. For example, `a & b` is reported with `'& '`.
"""

from __future__ import annotations

import re
from typing import Final

from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

EOF: Final = "<EOF>"


class Token(NamedTuple):
    """One token: its kind, its text, and its offset in code points.

    `kind` is the quoted text of punctuation and keywords (`'+'`, `'in'`), else IDENTIFIER, NUM_INT, STRING, …; EOF has
    no text.
    """

    kind: str
    text: str
    pos: int


_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"""[\s\S]*?"""',
        r"[rR]'''[\s\S]*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_EXPONENT = r"[eE][+-]?[0-9]+"

_TOKEN = rf"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<STRING>[bB]?(?:{_STRING.replace(" ", "[ ]")}))
  | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)
  | (?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<punctuation>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """
_PLAIN = regex(_TOKEN, re.VERBOSE)
_WITH_QUOTED_FIELDS = regex(rf"{_TOKEN} | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_./ -]+`)", re.VERBOSE)
_KEYWORDS = frozenset(("in", "true", "false", "null"))

# The start of a string literal that is not closed: escapes and plain characters, then at most an incomplete escape. A
# quoted field has no escapes.
_HALF_ESCAPE = r"\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?"
_OPEN_STRING = {quote: regex(rf"{quote}(?:{_ESCAPE}|[^\\{quote}\n\r])*(?:{_HALF_ESCAPE})?") for quote in ('"', "'")} | {
    "`": regex("`[A-Za-z0-9_./ -]*")
}


class UnrecognizedText(NamedTuple):
    """A piece of the source that is no token."""

    pos: int
    text: str

    @property
    def message(self) -> str:
        """Return the lexer's error message for the piece."""
        return f"token recognition error at: '{self.text}'"


def scan(source: str, *, quoted_fields: bool) -> tuple[list[Token], list[UnrecognizedText]]:
    """Return all tokens, ended by one EOF token, and the pieces of the source that are no token.

    quoted_fields  whether text in backticks is a token
    """
    tokens: list[Token] = []
    errors: list[UnrecognizedText] = []
    pos, end, match_at = 0, len(source), (_WITH_QUOTED_FIELDS if quoted_fields else _PLAIN).match
    while pos < end:
        match = match_at(source, pos)
        if match is None:
            stop = _error_end(source, pos, quoted_fields)
            errors.append(UnrecognizedText(pos, source[pos:stop]))
            pos = stop
            continue
        kind, text = match.lastgroup or "", match.group()
        if kind == "punctuation" or (kind == "IDENTIFIER" and text in _KEYWORDS):
            kind = f"'{text}'"
        elif kind == "STRING" and text[0] in "bB":
            kind = "BYTES"
        if kind != "space":
            tokens.append(Token(kind, text, pos))
        pos = match.end()
    tokens.append(Token(EOF, "", end))
    return tokens, errors


def _error_end(source: str, pos: int, quoted_fields: bool) -> int:
    """Return the offset at which scanning resumes: after the character at which the longest attempt failed."""
    char = source[pos]
    if char in _OPEN_STRING and (char != "`" or quoted_fields):
        match = _OPEN_STRING[char].match(source, pos)
        assert match is not None
        failed = match.end()
    else:
        failed = pos + 1 if char in "&|=" else pos
    return min(failed + 1, len(source))
