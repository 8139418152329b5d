"""The objects of a text, for the outline of an editor."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.languageserver.outline import Entry, outline
from understudy.languageserver.parts import parts_of
from understudy.machinery.types import NamedTuple


class Symbol(NamedTuple):
    """An object: its name, its kind, and the offsets of its part of the text, and of its kind there."""

    name: str
    kind: str
    start: int
    end: int
    kind_start: int
    kind_end: int


def symbols(text: str) -> Iterator[Symbol]:
    """Yield the objects of a text, and those in Lists."""
    for part in parts_of(text):
        document = outline(part.text)
        items = document.child("items") if document.text_of("kind") == "List" else None
        for obj in items.children if items else [document]:
            if (kind := obj.child("kind")) is not None and kind.text:
                end = part.offset + len(part.text.rstrip()) if obj is document else _end(obj) + part.offset
                start = part.offset + min(child.start for child in obj.children)
                places = kind.text_start + part.offset, kind.text_end + part.offset
                yield Symbol(_name(obj), kind.text, start, end, *places)


def _name(obj: Entry) -> str:
    metadata = obj.child("metadata")
    return (metadata.text_of("name") or metadata.text_of("generateName")) if metadata else ""


def _end(obj: Entry) -> int:
    return max(max(each.end, each.text_end) for each in obj.all())
