"""The outline of a document that is being written: keys, items and texts, as far as they can be made out.

A line that is being typed is seldom valid YAML, so lines are read by their indentation, whatever stands around them.
What stands in braces or brackets is read as JSON, with the same patience. Anchors and merges are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from understudy.machinery.util.regex import regex

_KEY = regex(r"""("[^"\n]*"|'[^'\n]*'|[^\s"'#{}\[\],&*!|>%@`](?:[^:#\n]|:(?=\S)|(?<=\S)\#)*?)\s*:(?=\s|$)""")
_DASH = regex(r"-(?:\s+|$)")
_PROPERTIES = regex(r"(?:[&!]\S*\s+)*")  # anchors and tags before a value
_COMMENT = regex(r"(?:^|\s)#.*")
_QUOTED = regex(r'"(?:[^"\\\n]|\\.)*"?|' + r"'(?:[^'\n]|'')*'?")
_PLAIN = regex(r"(?:[^\s,{}\[\]:#]|:(?=\S)|\s+(?![\s#:,{}\[\]]))+")
_SPACE = regex(r"(?:\s|,|#[^\n]*)*")


class Entry:
    """A member of a mapping, an item of a list, or a text that stands alone. The document is an entry without a parent.

    step        the key, the index of an item, None for a text alone
    column      of its key or dash in its line, -1 for the document
    start, end  offsets of its key, or of the text alone
    text        its value, if that is a scalar; where that begins and ends
    has_value   whether something follows the key, be it only a colon
    is_flow     whether it stands in braces or brackets
    """

    def __init__(
        self, parent: Entry | None, step: str | int | None, column: int, start: int, end: int, *, is_flow: bool = False
    ) -> None:
        self.parent = parent
        self.step = step
        self.column = column
        self.start, self.end = start, end
        self.text, self.text_start, self.text_end = "", end, end
        self.has_value = True
        self.is_flow = is_flow
        self.children: list[Entry] = []
        if parent is not None:
            parent.children.append(self)

    def child(self, step: str) -> Entry | None:
        """Return a member by its key, None if there is none."""
        return next((child for child in self.children if child.step == step), None)

    def text_of(self, step: str) -> str:
        """Return the scalar of a member, "" if there is none."""
        child = self.child(step)
        return child.text if child else ""

    @property
    def items(self) -> int:
        """Return the number of its items."""
        return sum(isinstance(child.step, int) for child in self.children)

    @property
    def path(self) -> list[Entry]:
        """Return the entries from the first below the document to this one."""
        return [] if self.parent is None else [*self.parent.path, self]

    def all(self) -> Iterator[Entry]:
        """Yield the entry and all below it."""
        todo = [self]
        while todo:
            entry = todo.pop()
            yield entry
            todo += reversed(entry.children)

    def value(self, text: str, start: int) -> None:
        """Note the scalar that follows, with its quotes, at an offset."""
        self.text_start, self.text_end = start, start + len(text)
        self.text = text.strip("\"'") if text[:1] in ("'", '"') else text


@lru_cache(512)
def outline(text: str) -> Entry:
    """Return the document in a text."""
    document = Entry(None, None, -1, 0, 0)
    first = _SPACE.match(re.sub(r"^---", "   ", text))
    at = first.end() if first else 0
    if text[at : at + 1] in ("{", "["):
        _Flow(text).collection(at, document)
    else:
        _Block(text, document).read()
    return document


class _Block:
    """Reads lines by their indentation."""

    def __init__(self, text: str, document: Entry) -> None:
        self._text = text
        self._open = [document]  # entries that the next line may belong to, each further right than those before
        self._skip_deeper_than: int | None = None  # column of the key of a literal text, whose lines are deeper
        self._skip_to = 0  # offset of what is not read yet

    def read(self) -> None:
        offset = 0
        for line in self._text.splitlines(keepends=True):
            if offset >= self._skip_to:
                self._line(line.rstrip(), offset)
            offset += len(line)

    def _line(self, line: str, offset: int) -> None:
        column = len(line) - len(line.lstrip(" "))
        if self._skip_deeper_than is not None:
            if not line or column > self._skip_deeper_than:
                return
            self._skip_deeper_than = None
        if line.startswith("---"):
            line, column = f"   {line[3:]}", 3 + len(line[3:]) - len(line[3:].lstrip())
        if not line[column:] or line[column] in "#%" or line.startswith("..."):
            return
        while dash := _DASH.match(line, column):
            self._item(column, offset + column)
            column = dash.end()
        if key := _KEY.match(line, column):
            self._key(key, line, offset)
        elif rest := line[column:]:
            self._alone(rest, column, offset)

    def _item(self, column: int, offset: int) -> None:
        parent = self._parent_of(column)
        self._open.append(Entry(parent, parent.items, column, offset, offset + 1))

    def _parent_of(self, column: int) -> Entry:
        """Return the entry to which an item belongs: lists may begin in the column of their key."""
        while self._open[-1].column > column or (
            self._open[-1].column == column and isinstance(self._open[-1].step, int)
        ):
            self._open.pop()
        return self._open[-1]

    def _close_to(self, column: int) -> Entry:
        """Return the entry to which a key in a column belongs."""
        while self._open[-1].column >= column:
            self._open.pop()
        return self._open[-1]

    def _key(self, key: re.Match[str], line: str, offset: int) -> None:
        column = key.start()
        parent = self._close_to(column)
        entry = Entry(parent, key[1].strip("\"'"), column, offset + column, offset + key.end(1))
        self._open.append(entry)
        at = key.end() + 1
        rest = line[at:].lstrip()
        self._value(rest, entry, offset + len(line) - len(rest))

    def _value(self, rest: str, entry: Entry, offset: int) -> None:
        """Read what follows a key or stands alone after a dash, at an offset."""
        properties = _PROPERTIES.match(rest)
        if properties and properties.end():
            offset, rest = offset + properties.end(), rest[properties.end() :]
        if rest[:1] in ("{", "["):
            self._skip_to = _Flow(self._text).collection(offset, entry)
        elif rest[:1] in ("|", ">"):
            self._skip_deeper_than = entry.column
        elif quoted := _QUOTED.match(rest):
            entry.value(quoted[0], offset)
        else:
            entry.value(_COMMENT.sub("", rest).rstrip(), offset)

    def _alone(self, rest: str, column: int, offset: int) -> None:
        """Read a line without a key."""
        parent = self._close_to(column)
        if rest[:1] in ("|", ">", "{", "["):
            self._value(rest, parent, offset + column)
            return
        text = _COMMENT.sub("", rest).rstrip()
        entry = Entry(parent, None, column, offset + column, offset + column + len(text))
        entry.value(text, offset + column)
        if not parent.text:
            parent.text = entry.text


class _Flow:
    """Reads collections in braces and brackets."""

    def __init__(self, text: str) -> None:
        self._text = text

    def collection(self, at: int, entry: Entry) -> int:
        """Read the collection that begins at an offset into an entry; return the offset of its end.

        One that does not end is read to the end of its first line, so that it does not swallow what follows. It does
        not recurse.
        """
        whole = _end_of_collection(self._text, at)
        line_end = self._text.find("\n", at)
        end = whole or (len(self._text) if line_end < 0 or not entry.path else line_end)
        open_ = [(entry, self._text[at] == "{")]
        at += 1
        while open_:
            at = self._space(at)
            if at >= end:
                return end
            parent, is_mapping = open_[-1]
            char = self._text[at]
            if char in "}]":
                open_.pop()
                at += 1
                continue
            member = self._member(at, parent, is_mapping)
            at = self._space_or_value(member)
            if self._text[at : at + 1] in ("{", "[") and at < end:
                open_.append((member, self._text[at] == "{"))
                at += 1
            elif member.has_value:
                at = self._scalar(at, member)
            at = max(at, member.start + 1)
        return at

    def _member(self, at: int, parent: Entry, is_mapping: bool) -> Entry:
        """Read a key, or begin an item."""
        if not is_mapping:
            return Entry(parent, parent.items, at, at, at, is_flow=True)
        end = self._token(at)
        entry = Entry(parent, self._text[at:end].strip("\"'"), at, at, end, is_flow=True)
        entry.has_value = self._text[self._space(end) : self._space(end) + 1] == ":"
        return entry

    def _space_or_value(self, member: Entry) -> int:
        """Return the offset of the value of a member, or of what follows it if it has none."""
        if isinstance(member.step, int) or not member.has_value:
            return member.end
        colon = self._text.index(":", member.end)
        value = re.compile(r"\s*").match(self._text, colon + 1)
        return value.end() if value else colon + 1

    def _scalar(self, at: int, member: Entry) -> int:
        if self._text[at : at + 1] in (",", "}", "]", ""):
            return at
        end = self._token(at)
        member.value(self._text[at:end], at)
        return end

    def _space(self, at: int) -> int:
        space = _SPACE.match(self._text, at)
        return space.end() if space else at

    def _token(self, at: int) -> int:
        """Return the end of a scalar."""
        token = _QUOTED.match(self._text, at) or _PLAIN.match(self._text, at)
        return token.end() if token else at + 1


def _end_of_collection(text: str, at: int) -> int:
    """Return the offset behind the collection that begins at an offset, 0 if it does not end."""
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "\"'" and (quoted := _QUOTED.match(text, at)):
            at = quoted.end()
            continue
        depth += (char in "{[") - (char in "}]")
        at += 1
        if not depth:
            return at
    return 0
