"""YAML as the real server writes it: its answers (sigs.k8s.io/yaml, that is yaml.v2 behind JSON), and the vendor
extensions in the protobuf form of OpenAPI (yaml.v3).

Both write in block style, strings quoted only where they would be read as something else. Answers have keys in natural
order ("a2" before "a10"), lists not indented below their key, long strings folded at 80 columns; extensions have keys
in the order of the JSON, and are indented by 4 columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any

from understudy.machinery.golang.json_writer import encode, go_number
from understudy.machinery.golang.text import go_scalar
from understudy.machinery.golang.yaml_reader import resolve
from understudy.machinery.util.caches import are_short, cache_results, cache_short_texts
from understudy.machinery.util.regex import regex

_WIDTH = 80
_LONGEST_SIMPLE_KEY = 128  # bytes
_BASE60 = regex(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_BREAKS = "\n\r\x85\u2028\u2029"
_BREAK, _SPACE_AND_BREAK = regex(f"[{_BREAKS}]"), regex(f" [{_BREAKS}]")
_UNPRINTABLE = regex("[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPED = regex(rf'["\\{_BREAKS}]|{_UNPRINTABLE.pattern}')
_NOT_PLAIN = regex(
    r"""^[#,\[\]{}&*!|>'"%@`]|^(---|\.\.\.)|^[?:\-]([ \t\n]|$)|.:([ \t\n]|$)|[ \t\n\0]#|^ | $""", re.DOTALL
)
_ESCAPES = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "e", '"': '"',
    "\\": "\\", "\x85": "N", "\xa0": "_", "\u2028": "L", "\u2029": "P",
}  # fmt: skip


def dump_yaml(value: Any) -> str:
    """Return the YAML document of a JSON value, with the newline at its end."""
    return _Writer().document(value)


def dump_yaml_v3(value: Any) -> str:
    """Return the YAML document of a JSON value as yaml.v3 writes what it has read as JSON."""
    return _WriterV3().document(value)


class _Writer:
    """The emitter of one document (go-yaml: `emitter`).

    `column` is where the next character goes. `begun` is true where a collection may begin: at the start of a line or
    behind "- ". Indents are those of the collection that a node is in.
    """

    best_indent = 2

    def __init__(self) -> None:
        self.out: list[str] = []
        self.column = 0
        self.begun = True

    def document(self, value: Any) -> str:
        """Return a document."""
        self.node(value, -2)
        if self.column:
            self.newline()
        return "".join(self.out)

    def put(self, text: str, *, begun: bool = False) -> None:
        """Write a text on the current line."""
        self.out.append(text)
        self.column += len(text)
        self.begun = begun

    def newline(self) -> None:
        """End the current line."""
        self.out.append("\n")
        self.column = 0
        self.begun = True

    def line(self, indent: int) -> None:
        """Go to `indent`, on a new line unless the current one has only indicators yet."""
        if not self.begun or self.column > indent:
            self.newline()
        self.put(" " * (indent - self.column), begun=True)

    def node(self, value: Any, indent: int, *, after_key: bool = False) -> None:
        """Write a value. `after_key`: behind the colon of its key, where lists are not indented further."""
        if isinstance(value, (dict, list)) and value:
            self.collection(value, indent if after_key and isinstance(value, list) else indent + 2)
        else:
            self.put(" " if after_key else "")
            self.scalar(value, max(indent, 0) + 2)

    def collection(self, value: dict[str, Any] | list[Any], indent: int) -> None:
        """Write a mapping or a sequence that is not empty."""
        if isinstance(value, dict):
            self.mapping(value, indent)
        else:
            self.sequence(value, indent)

    def inner(self, indent: int) -> int:
        """Return the indent of the value below a key."""
        return indent + 2

    def mapping(self, value: dict[str, Any], indent: int) -> None:
        """Write the keys and values of a mapping; long keys and those with line breaks get a `?`."""
        for key in self.keys(value):
            self.line(indent)
            simple = _is_simple(key)
            if not simple:
                self.put("? ", begun=True)
            self.text(key, self.inner(indent), key=simple)
            if not simple:
                self.line(indent)
            item = value[key]
            self.put(":")
            if not simple and isinstance(item, (dict, list)) and item:
                self.put(" ", begun=True)
                self.collection(item, self.inner(indent))
            else:
                self.node(item, indent, after_key=True)

    def keys(self, value: dict[str, Any]) -> Iterable[str]:
        """Return the keys of a mapping in the order in which they are written."""
        keys = tuple(value)
        return (_kept_order if are_short(keys) else _natural_order)(keys) if len(keys) > 1 else keys

    def sequence(self, value: list[Any], indent: int) -> None:
        """Write the items of a sequence, each behind "- "."""
        for item in value:
            self.line(indent)
            self.put("- ", begun=True)
            self.node(item, indent)

    def scalar(self, value: Any, indent: int) -> None:
        """Write a scalar or an empty collection."""
        if isinstance(value, str):
            self.text(value, indent)
        elif value is None:
            self.put("null")
        elif isinstance(value, bool):
            self.put("true" if value else "false")
        elif isinstance(value, (dict, list)):
            self.put("{}" if isinstance(value, dict) else "[]")
        elif isinstance(value, float) or not -(2**63) <= value < 2**64:  # yaml.v2 reads no larger integers
            self.put(go_scalar(float(value)))
        else:
            self.put(str(value))

    def text(self, text: str, indent: int, *, key: bool = False) -> None:
        """Write a string, plain, quoted or as a literal block."""
        style = _style(text)
        if style == "|" and not key:
            self.literal(text, indent)
        elif style in ("|", '"'):
            self.quoted(text, indent, folds=not key)
        else:
            self.words(text.replace("'", "''") if style else text, indent, style, folds=not key)

    def may_fold(self, text: str) -> bool:
        """Report whether a string here may have a space beyond the width."""
        return " " in text and self.column + 10 * len(text) > _WIDTH  # an escape has up to ten characters

    def words(self, text: str, indent: int, quote: str, *, folds: bool) -> None:
        """Write a string plain or in single quotes: a single space beyond the width becomes a line break."""
        if not (folds and self.may_fold(text)):
            self.put(f"{quote}{text}{quote}")
            return
        self.put(quote)
        for i, char in enumerate(text):
            lone = char == " " and 0 < i < len(text) - 1 and text[i - 1] != " " and text[i + 1] != " "
            if lone and folds and self.column > _WIDTH:
                self.line(indent)
            else:
                self.put(char)
        self.put(quote)

    def quoted(self, text: str, indent: int, *, folds: bool) -> None:
        """Write a string in double quotes, with escapes."""
        if not (folds and self.may_fold(text)):
            self.put(f'"{_ESCAPED.sub(lambda char: _escape(char[0]), text)}"')
            return
        self.put('"')
        for i, char in enumerate(text):
            if char in '"\\' or char in _BREAKS or _UNPRINTABLE.match(char):
                self.put(_escape(char))
            elif char == " " and folds and self.column > _WIDTH and 0 < i < len(text) - 1 and text[i - 1] != " ":
                self.line(indent)
                self.put("\\" if text[i + 1] == " " else "")
            else:
                self.put(char)
        self.put('"')

    def literal(self, text: str, indent: int) -> None:
        """Write a string as a literal block (`|`)."""
        hint = str(self.best_indent) if text[0] in " \n" else ""
        if not text.endswith("\n"):
            hint += "-"
        elif text == "\n" or text.endswith("\n\n"):
            hint += "+"
        self.put(f"|{hint}")
        for each in text.split("\n"):
            self.newline()
            if each:
                self.put(" " * indent + each)


class _WriterV3(_Writer):
    """The emitter of yaml.v3, for nodes without a style."""

    best_indent = 4

    def keys(self, value: dict[str, Any]) -> Iterable[str]:
        return value

    def inner(self, indent: int) -> int:
        return self.best_indent * (indent // self.best_indent + 1)

    def node(self, value: Any, indent: int, *, after_key: bool = False) -> None:
        inner = self.inner(indent) if after_key else indent + 2
        if isinstance(value, (dict, list)) and value:
            self.collection(value, inner)
        else:
            self.put(" " if after_key else "")
            self.scalar(value, inner if indent >= 0 else self.best_indent)

    def scalar(self, value: Any, indent: int) -> None:
        if isinstance(value, (int, float)):  # numbers keep the text that they have in JSON
            self.put(encode(go_number(value) if isinstance(value, float) else value).decode())
        else:
            super().scalar(value, indent)

    def text(self, text: str, indent: int, *, key: bool = False) -> None:
        unprintable = _UNPRINTABLE.search(text.replace("\t", ""))
        special = unprintable or _SPACE_AND_BREAK.search(text)
        if "\n" in text and not (key or special or text.endswith(" ")):
            self.literal(text, indent)
        elif "\n" in text or "\t" in text or special or not _stays_text_in_v3(text):
            self.quoted(text, indent, folds=False)
        elif _NOT_PLAIN.search(text) or _BREAK.search(text):
            self.words(text.replace("'", "''"), indent, "'", folds=False)
        else:
            self.words(text, indent, "", folds=False)


@cache_short_texts(4096)
def _is_simple(key: str) -> bool:
    """Report whether a key can stand before its colon without a `?`."""
    return len(key.encode(errors="replace")) <= _LONGEST_SIMPLE_KEY and not _BREAK.search(key)


@cache_short_texts(4096)
def _style(text: str) -> str:
    """Return the quotes of a string, "" for a plain one, "|" for a literal block, which no key can be."""
    special = _UNPRINTABLE.search(text) or _SPACE_AND_BREAK.search(text)
    if "\n" in text:
        return '"' if special or text.endswith(" ") else "|"
    if special or not _stays_text(text):
        return '"'
    return "'" if _NOT_PLAIN.search(text) or _BREAK.search(text) else ""


def _stays_text(text: str) -> bool:
    """Report whether a text without quotes would be read as a string."""
    return resolve(text)[0] == "!!str" and not _BASE60.fullmatch(text)


def _stays_text_in_v3(text: str) -> bool:
    """Report whether yaml.v3 would read a text without quotes as a string: it knows two words only for bools."""
    tag, _ = resolve(text)
    return tag == "!!str" or (tag == "!!bool" and text.lower() not in ("true", "false"))


def _escape(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return f"\\{_ESCAPES[char]}"
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _compare_keys(a: str, b: str) -> int:
    """Compare keys in natural order (go-yaml: `keyList.Less`): letters after everything else, numbers by their
    value."""
    for i, (left, right) in enumerate(zip(a, b, strict=False)):
        if left == right:
            continue
        if left.isalpha() and right.isalpha():
            return -1 if left < right else 1
        if left.isalpha() or right.isalpha():
            return -1 if right.isalpha() else 1
        return _compare_numbers(a, b, i)
    return len(a) - len(b)


def _natural_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return keys in natural order."""
    return tuple(sorted(keys, key=cmp_to_key(_compare_keys)))


_kept_order = cache_results(1024, _natural_order)


def _compare_numbers(a: str, b: str, at: int) -> int:
    """Compare keys whose first difference, at `at`, is not a letter."""
    start = 0
    if "0" in (a[at], b[at]):  # zeros within a number count, leading ones do not
        digits = re.search(r"\d*$", a[:at])
        start = int(bool(digits and digits.group().strip("0")))
    ends, values = [], []
    for text in (a, b):
        end, value = at, start
        while end < len(text) and text[end].isdigit():
            value = value * 10 + int(text[end])
            end += 1
        ends.append(end)
        values.append(value)
    for left, right in (values, ends):
        if left != right:
            return -1 if left < right else 1
    return -1 if a[at] < b[at] else 1
