"""The documents of a text, the objects in them, and where in the text their fields are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from understudy.machinery.golang.yaml_reader import Node, load_yaml
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex
from understudy.offline.validator import is_list

_SOURCE = regex(r"# Source: (\S.*)")  # `helm template` writes it at the head of each document

# One step of a path: a field, or an index or key in brackets.
_STEP = regex(r"\[(?P<key>.*?)\](?=[.\[]|$)|(?P<field>[^.\[]+)")


class Document(NamedTuple):
    """A document of a text, as `load_yaml` returns it, and the template from which Helm has made it, or ""."""

    value: Any
    duplicates: list[str]
    root: Node
    source: str


class Place(NamedTuple):
    """The place of a field: its key, or an item of a list itself, and its value.

    is_exact  whether it is the field, not the nearest one above it that the text has
    """

    key: Node
    value: Node
    is_exact: bool


def documents_in(text: str) -> list[Document]:
    """Return the documents of a text with their sources. Raises YAMLError."""
    parsed = load_yaml(text)
    lines = text.splitlines() if "# Source: " in text else []
    return [Document(*each, _source(lines, each.root.line)) for each in parsed]


def _source(lines: Sequence[str], line: int) -> str:
    """Return the template that Helm names above a document which begins on a line, "" if there is none."""
    for above in reversed(lines[: line - 1]):
        if above.startswith("---"):
            break
        if match := _SOURCE.fullmatch(above.strip()):
            return match[1]
    return ""


def objects_in(document: Document) -> Iterator[tuple[Any, Node | None]]:
    """List the object of a document with its YAML node; of a List the items, and those of Lists in it, with theirs."""
    todo: list[tuple[Any, Node | None]] = [(document.value, document.root)]
    while todo:
        obj, node = todo.pop()
        if not is_list(obj):
            yield obj, node
            continue
        _, items = _step(node, "items") or (None, None)
        members = (_step(items, str(i)) for i in range(len(obj["items"])))
        nodes = [member[1] if member else None for member in members]
        todo += reversed([*zip(obj["items"], nodes, strict=True)])


def line_of(field: str, node: Node | None) -> int:
    """Return the line of a field, or of the nearest field above it that the text has; 0 if there is no text."""
    return place_of(field, node).key.line if node else 0


def place_of(field: str, node: Node) -> Place:
    """Return the place of a field, or of the nearest field above it that the text has."""
    place = Place(node, node, True)
    for step in _STEP.finditer(field):
        member = _step(place.value, step["field"] or step["key"])
        place = Place(*member, place.is_exact) if member else place._replace(is_exact=False)
    return place


def _step(node: Node | None, name: str) -> tuple[Node, Node] | None:
    """Return (key, value) of a member of a mapping, the item twice of a list, None if there is none."""
    if node and node.kind == "alias":
        (node,) = node.children
    if node and node.kind == "sequence" and name.isdecimal() and int(name) < len(node.children):
        item = node.children[int(name)]
        return item, item
    if node and node.kind == "mapping":
        for key, member in zip(node.children[::2], node.children[1::2], strict=True):
            if key.text == name:
                return key, member
    return None
