"""The place at which somebody types or points: what is there, and which schema says what belongs there."""

from __future__ import annotations

from understudy.languageserver.outline import Entry, outline
from understudy.languageserver.schema import Schema, Schemas
from understudy.machinery.types import dataclass
from understudy.machinery.util.regex import regex

MARK = "\ue000"  # stands in a text for the word that is being typed; nobody writes it
_WORD_BEFORE = regex(r"[\w./$-]*\Z")
_WORD_AFTER = regex(r"[\w./$-]*")
_COLON_AFTER = regex(r"""["']?[ \t]*:""")


@dataclass(frozen=True)
class Typed:
    """The word that is being typed.

    start, end  its offsets, without quotes
    entry       its entry in the outline: a key, a value, or a text alone, which may become either
    quoted      whether it stands in quotes
    has_colon   whether a colon follows
    """

    start: int
    end: int
    entry: Entry
    quoted: bool
    has_colon: bool

    @property
    def is_value(self) -> bool:
        """Report whether the word is the value of its entry."""
        return self.entry.step is not None and MARK in self.entry.text


def typed_at(text: str, offset: int) -> Typed | None:
    """Return the word at an offset, None in comments and literal texts."""
    before, after = _WORD_BEFORE.search(text, 0, offset), _WORD_AFTER.match(text, offset)
    start = before.start() if before else offset
    end = after.end() if after else offset
    marked = outline(f"{text[:start]}{MARK}{text[end:]}")
    for entry in marked.all():
        if MARK in str(entry.step) or (MARK in entry.text and not _alone(entry)):
            quoted = text[start - 1 : start] in ('"', "'")
            return Typed(start, end, entry, quoted, _COLON_AFTER.match(text, end) is not None)
    return None


def _alone(entry: Entry) -> bool:
    """Report whether a text alone, which is an entry of its own, is the text of an entry."""
    return any(child.step is None for child in entry.children)


def entry_at(text: str, offset: int) -> Entry | None:
    """Return the key or value at an offset, None if there is none."""
    for entry in outline(text).all():
        if entry.parent is not None and isinstance(entry.step, str):
            if entry.start <= offset <= entry.end or entry.text_start <= offset < entry.text_end:
                return entry
    return None


def schema_at(entry: Entry, schemas: Schemas) -> tuple[Schema | None, Entry]:
    """Return the schema of an entry's value, None if it is unknown; and the object that it is part of."""
    document = entry.path[0].parent if entry.path else entry
    assert document is not None
    schema, obj = schemas.of(document.text_of("apiVersion"), document.text_of("kind")), document
    for each in entry.path:
        if each.step is None:
            continue
        schema = schema.step(each.step) if schema else None
        if schema and schema.holds_any_object:
            obj = each
            schema = schemas.of(each.text_of("apiVersion"), each.text_of("kind"))
    return schema, obj
