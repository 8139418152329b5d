"""The documents of a manifest, kept as JSON until each of them is wanted.

Decoded, a List of many objects takes many times the room of its text, and as nodes of YAML far more. So the items of a
List are read one by one, and each is kept as the bytes of its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from understudy.machinery.golang.json_reader import check_depth
from understudy.machinery.golang.json_scalars import loads
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.golang.yaml_reader import (
    ConvertedNode,
    Document,
    Node,
    YAMLError,
    convert,
    refuse_infinite,
    roots,
)
from understudy.machinery.patch.patch_body import finite_float, has_surrogates, json_decoder
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.regex import regex

_SPACE = regex(r"[ \t\r\n]*")
_decode_next = json_decoder(finite_float).raw_decode


class PackedDocument(NamedTuple):
    """A document of a manifest that is not empty.

    head        JSON of the document; that of its items is null if they are packed
    items       JSON of each of its items, None if it has no list of that name
    duplicates  an error line for each repeated key ("line 5: …")
    line        the line on which it begins
    """

    head: bytes
    items: list[bytes] | None
    duplicates: list[str]
    line: int

    @property
    def value(self) -> Any:
        """Return the document as it was written, without the items that are packed."""
        return loads(self.head)

    def unpacked(self) -> Iterator[Any]:
        """Yield the items."""
        return map(loads, self.items or ())


def packed_documents(text: str) -> list[PackedDocument]:
    """Return the documents of YAML or JSON. Raises YAMLError."""
    if text.lstrip().startswith("{"):
        try:
            return [_packed_json(text)]
        except (ValueError, RecursionError):
            pass  # YAML in braces, or what YAML has the errors of
    documents = map(convert, roots(text.encode(errors="surrogatepass"), _convert_item))
    return [packed for each in documents if (packed := _packed(each)) is not None]


def _pack(value: Any) -> bytes:
    """Return the JSON of a value, in a copy: what orjson returns keeps the room that it wrote it in, 4 KiB at least."""
    return bytes(memoryview(encode(value)))


# --- YAML


def _convert_item(around: Sequence[Node]) -> None:
    """Convert an item of the root's list `items` that has just been read, in its place.

    Nodes with anchors are left, since others may be them, and so is an item that cannot be converted: its error is
    told when the document turns out to be YAML.
    """
    if len(around) != 2 or around[0].kind != "mapping" or around[1].kind != "sequence":
        return
    root, items = around
    item = items.children[-1]
    if root.anchor or items.anchor or item.anchor or len(root.children) % 2 or root.children[-2].text != "items":
        return
    try:
        document = convert(item)
        refuse_infinite(document)
    except YAMLError:
        return
    items.children[-1] = ConvertedNode(item, _pack(document.value), document.duplicates)


def _packed(document: Document) -> PackedDocument | None:
    """Return a document packed, None for an empty one. Raises YAMLError."""
    value, items = document.value, None
    if value is None:
        return None
    refuse_infinite(document)
    if isinstance(value, dict) and isinstance(value.get("items"), list):
        items = [each if isinstance(each, bytes) else _pack(each) for each in value["items"]]
        value["items"] = None
    return PackedDocument(_pack(value), items, document.duplicates, document.root.line)


# --- JSON


def _packed_json(text: str) -> PackedDocument:
    """Return an object that is all of a text. Raises ValueError for what is no JSON, or unusual.

    It is unusual to have no members, keys twice, or escapes of surrogates.
    """
    if has_surrogates(text):
        raise ValueError("surrogates")
    value: dict[str, Any] = {}
    items, end = None, ","
    at = _skip_token(text, 0, "{")
    while end == ",":
        key, at = _decode(text, at)
        if not isinstance(key, str) or key in value:
            raise ValueError(key)
        at = _skip_token(text, at, ":")
        if key == "items" and text.startswith("[", at):
            value[key], (items, at) = None, _packed_items(text, _skip_token(text, at, "["))
        else:
            value[key], at = _decode(text, at)
        end, at = text[at : at + 1], _skip_token(text, at, "," if text.startswith(",", at) else "}")
    if at != len(text):
        raise ValueError("more than an object")
    return PackedDocument(_pack(value), items, [], text.count("\n", 0, text.index("{")) + 1)


def _packed_items(text: str, at: int) -> tuple[list[bytes], int]:
    """Return the JSON of the items of a list, the first of which is at `at`, and what follows the list."""
    items, end = [], ","
    while end == ",":
        start = at
        item, at = _decode(text, start)
        items.append(_pack(item))
        end, at = text[at : at + 1], _skip_token(text, at, "," if text.startswith(",", at) else "]")
    return items, at


def _decode(text: str, at: int) -> tuple[Any, int]:
    """Return the value at `at`, and where the next token begins. Raises ValueError."""
    value, end = _decode_next(text, at)
    check_depth(text[at:end], value)
    return value, _skip(text, end)


def _skip_token(text: str, at: int, token: str) -> int:
    """Skip a token; return where the next one begins. Raises ValueError if it is not there."""
    at = _skip(text, at)
    if not text.startswith(token, at):
        raise ValueError(token)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
