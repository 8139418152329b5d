"""E-mail addresses as Go's `net/mail` parses them (RFC 5322)."""

from __future__ import annotations

import re

from understudy.machinery.golang.netip import parse_ip
from understudy.machinery.util.regex import regex

# Visible characters, with those outside ASCII (RFC 6532), and those of them that are allowed in an atom.
_VISIBLE = r"!-~\u0080-\U0010ffff"
_ATOM = regex(r"[!#-\'*+\-./0-9=?A-Z^-~\u0080-\ud7ff\ue000-\U0010ffff]+")
_QUOTED = regex(rf'"((?:[ \t!#-\[\]-~\u0080-\ud7ff\ue000-\U0010ffff]|\\[ \t{_VISIBLE}])*)"')
_LITERAL = regex(r"\[([!-Z^-~\u0080-\ud7ff\ue000-\U0010ffff]*)\]")
_SPACE = regex(r"[ \t]*")


class _NoAddress(Exception):  # noqa: N818  # never leaves this module
    """The text cannot be read as one address."""


class _Parser:
    """A reader of one text; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """Return the text that matches here, and go on behind it; None if nothing does."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match.group()

    def peek(self) -> str:
        """Return the next character, "" at the end."""
        return self.text[self.at : self.at + 1]

    def consume(self, char: str) -> bool:
        """Report whether the next character is `char`, and go on behind it."""
        consumed = self.peek() == char
        self.at += consumed
        return consumed

    def need(self, pattern: re.Pattern[str]) -> str:
        """Return the text that matches here. Raises _NoAddress."""
        text = self.take(pattern)
        if text is None:
            raise _NoAddress
        return text

    def comments(self) -> None:
        """Go on behind spaces and comments. Raises _NoAddress."""
        self.take(_SPACE)
        while self.peek() == "(":
            self.comment()
            self.take(_SPACE)

    def comment(self) -> None:
        """Go on behind a comment, which may hold others. Raises _NoAddress."""
        depth = 0
        while True:
            char = self.peek()
            if not char:
                raise _NoAddress
            self.at += 2 if char == "\\" and self.at + 1 < len(self.text) else 1
            depth += {"(": 1, ")": -1}.get(char, 0)
            if not depth:
                return

    def dot_atom(self) -> None:
        """Go on behind an atom with dots inside. Raises _NoAddress."""
        atom = self.need(_ATOM)
        if atom.startswith(".") or atom.endswith(".") or ".." in atom:
            raise _NoAddress

    def spec(self) -> None:
        """Go on behind `local@domain`. Raises _NoAddress."""
        self.take(_SPACE)
        if self.peek() == '"':
            if self.need(_QUOTED) == '""':
                raise _NoAddress
        else:
            self.dot_atom()
        if not self.consume("@"):
            raise _NoAddress
        self.take(_SPACE)
        if self.peek() != "[":
            self.dot_atom()
        elif parse_ip(self.need(_LITERAL)[1:-1]) is None:
            raise _NoAddress

    def phrase(self) -> None:
        """Go on behind the words of a display name. Raises _NoAddress if there are none."""
        words = 0
        while True:
            if words:
                self.comments()
            self.take(_SPACE)
            if not self.peek() or self.take(_QUOTED if self.peek() == '"' else _ATOM) is None:
                break
            words += 1
        if not words:
            raise _NoAddress

    def address(self, *, group: bool) -> int:
        """Go on behind an address, or a group of them, and return their number. Raises _NoAddress."""
        self.take(_SPACE)
        start = self.at
        try:
            self.spec()
        except _NoAddress:
            self.at = start
        else:
            self.take(_SPACE)
            if self.peek() == "(":
                self.comment()
            return 1
        if self.peek() != "<":
            self.phrase()
        self.take(_SPACE)
        if group and self.consume(":"):
            return self.group()
        if not self.consume("<"):
            raise _NoAddress
        self.spec()
        if not self.consume(">"):
            raise _NoAddress
        return 1

    def group(self) -> int:
        """Go on behind the addresses of a group, and return their number. Raises _NoAddress."""
        count = 0
        self.take(_SPACE)
        while not (count == 0 and self.consume(";")):
            count += self.address(group=False)
            self.comments()
            if self.consume(";"):
                break
            if not self.consume(","):
                raise _NoAddress
        self.comments()
        return count


def is_address(text: str) -> bool:
    """Report whether a text is one address, with or without a name (upstream: `mail.ParseAddress`)."""
    parser = _Parser(text)
    try:
        count = parser.address(group=True)
        parser.comments()
    except _NoAddress:
        return False
    return count == 1 and not parser.peek()
