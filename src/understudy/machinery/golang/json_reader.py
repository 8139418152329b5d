"""JSON read exactly as Go reads it: a tree that keeps the order, the duplicates and the spelling of a body.

This is the slow reader that `serializer.json` falls back to when an error needs its text or raw bytes have to be kept.
It accepts what encoding/json accepts, and refuses the rest with its texts (`invalid character 'x' looking for beginning
of value`). It does not know types.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from understudy.machinery.golang.text import go_quote
from understudy.machinery.util.regex import regex

MAX_DEPTH = 10000

_SKIP = regex(r"[ \t\r\n]*")
_STRING = regex(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_NUMBER = regex(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_ESCAPE = regex(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONE = regex("[\ud800-\udfff]")


class DecodeError(ValueError):
    """A body that cannot be decoded; `str(error)` is Go's text."""


class Node:
    """One JSON value of a body.

    `kind` is object, array, string, number, bool or null, as Go's errors name it. `value` is a list of (key, Node), a
    list of Node, a str, the literal of the number, a bool or None. `text[start:end]` of the body is how it was written.
    """

    __slots__ = ("end", "kind", "start", "value")

    def __init__(self, kind: str, value: Any, start: int, end: int) -> None:
        self.kind = kind
        self.value = value
        self.start = start
        self.end = end


def to_text(body: bytes) -> str:
    """Decode a body; bytes that are not UTF-8 become lone surrogates, so that they can be told from characters."""
    return body.decode("utf-8", "surrogateescape")


def to_bytes(text: str) -> bytes:
    """Encode a text that `to_text` has decoded: lone surrogates become the original bytes."""
    return text.encode("utf-8", "surrogateescape")


def _unescape(match: re.Match[str]) -> str:
    high, low, single, short = match.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    return chr(int(single, 16)) if single else _SHORT.get(short, short)


def unquote(literal: str) -> str:
    """Return the string that a JSON literal says; escapes that are not Unicode become U+FFFD."""
    text = literal[1:-1]
    if "\\" in text:
        text = _ESCAPE.sub(_unescape, text)
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def parse(text: str, max_depth: int = MAX_DEPTH) -> Node:
    """Parse a body into a tree. Raises DecodeError with the text of Go's first syntax error."""
    open_: list[Node] = []  # the containers around `at`, outermost first
    keys: list[str] = []  # for each of them the key whose value comes next
    at = _skip(text, 0)
    while True:
        if text[at : at + 1] in ("{", "["):
            if len(open_) == max_depth:
                raise _unexpected(text, at, "exceeded max depth")
            is_object = text[at] == "{"
            node = Node("object" if is_object else "array", [], at, at)
            at = _skip(text, at + 1)
            if text[at : at + 1] != ("}" if is_object else "]"):
                open_.append(node)
                key, at = _key(text, at) if is_object else ("", at)
                keys.append(key)
                continue
            node.end = at = at + 1
        else:
            node = _scalar(text, at)
            at = node.end
        while open_:  # add the complete value to its container, which may now be complete as well
            outer = open_[-1]
            outer.value.append((keys[-1], node) if outer.kind == "object" else node)
            at = _skip(text, at)
            if text[at : at + 1] == ",":
                at = _skip(text, at + 1)
                if outer.kind == "object":
                    keys[-1], at = _key(text, at)
                break
            if text[at : at + 1] != ("}" if outer.kind == "object" else "]"):
                raise _unexpected(text, at, f"after {_AFTER[outer.kind]}")
            outer.end = at = at + 1
            node = open_.pop()
            keys.pop()
        else:
            at = _skip(text, at)
            if at < len(text):
                raise _unexpected(text, at, "after top-level value")
            return node


_AFTER = {"object": "object key:value pair", "array": "array element"}


def check_depth(text: str, value: Any) -> None:
    """Raise ValueError for a value, read from a text, that nests deeper than Go reads.

    For decoders in C: since Python 3.14 these go on for as long as their stack lasts.
    """
    if len(text) <= 2 * MAX_DEPTH or text.count("{") + text.count("[") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, (dict, list))]
        if not level:
            return
    raise ValueError("exceeded max depth")


def _skip(text: str, at: int) -> int:
    return _SKIP.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _key(text: str, at: int) -> tuple[str, int]:
    """Return the key at `at`, and where its value begins."""
    if text[at : at + 1] != '"':
        raise _unexpected(text, at, "looking for beginning of object key string")
    match = _STRING.match(text, at) or _bad_string(text, at)
    colon = _skip(text, match.end())
    if text[colon : colon + 1] != ":":
        raise _unexpected(text, colon, "after object key")
    return unquote(match.group()), _skip(text, colon + 1)


def _scalar(text: str, at: int) -> Node:
    """Parse the string, number, boolean or null at `at`. Raises DecodeError."""
    first = text[at : at + 1]
    if first == '"':
        match = _STRING.match(text, at) or _bad_string(text, at)
        return Node("string", unquote(match.group()), at, match.end())
    if first in _LITERALS:
        word, value = _LITERALS[first]
        for i, char in enumerate(word):
            if text[at + i : at + i + 1] != char:
                raise _unexpected(text, at + i, f"in literal {word} (expecting '{char}')")
        return Node("null" if value is None else "bool", value, at, at + len(word))
    number = _NUMBER.match(text, at)
    if number:
        literal, end = number.group(), number.end()
        following = text[end : end + 1]
        if following == "." and not set(literal) & set(".eE"):
            raise _unexpected(text, end + 1, "after decimal point in numeric literal")
        if following in ("e", "E") and not set(literal) & set("eE"):
            signed = text[end + 1 : end + 2] in ("+", "-")
            raise _unexpected(text, end + 1 + signed, "in exponent of numeric literal")
        return Node("number", literal, at, end)
    if first == "-":
        raise _unexpected(text, at + 1, "in numeric literal")
    raise _unexpected(text, at, "looking for beginning of value")


def _bad_string(text: str, at: int) -> NoReturn:
    """Raise the error about the malformed string at `at`."""
    at += 1
    while at < len(text):
        if text[at] < " ":
            raise _unexpected(text, at, "in string literal")
        if text[at] == "\\":
            at += 1
            if text[at : at + 1] == "u":
                for _ in range(4):
                    at += 1
                    if text[at : at + 1] not in _HEX:
                        raise _unexpected(text, at, "in \\u hexadecimal character escape")
            elif text[at : at + 1] not in _ESCAPED:
                raise _unexpected(text, at, "in string escape code")
        at += 1
    raise _unexpected(text, at, "")


_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPED = frozenset('"\\/bfnrtu')


def _unexpected(text: str, at: int, where: str) -> DecodeError:
    """Return the error about the byte at `at`: Go prints bytes, as if each were a character.

    At the end of the text Go's scanner tries a space, which is wrong in the middle of a token only.
    """
    if at >= len(text) and not (where.startswith("in ") or where.endswith("literal")):
        return DecodeError("unexpected end of JSON input")
    char = chr(to_bytes(text[at])[0]) if at < len(text) else " "
    quoted = {"'": "\\'", '"': '"'}.get(char) or go_quote(char)[1:-1]
    return DecodeError(f"invalid character '{quoted}' {where}")
