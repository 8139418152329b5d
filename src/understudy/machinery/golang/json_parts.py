"""JSON as Go's encoder writes it, encoded in parts: of a hundred thousand causes of an error, no step takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from understudy.machinery.golang.json_writer import encode, indent
from understudy.machinery.util.pieces import PIECE, pieces

LONG_TEXT = 1 << 17  # characters of a text that is encoded in pieces
SHARED_TEXT = 1 << 12  # characters of a text that is encoded once, however often it is in a list


def encode_in_parts(obj: Any, *, pretty: bool = False) -> Iterator[bytes]:
    """Yield the parts of what `encode` writes, or `indent` if `pretty`: long lists and texts in pieces.

    A long text that many items of a list have is one object in the parts: each of twenty thousand causes may show the
    list of twenty thousand scopes that caused it.
    """
    return _joined(_Parts(pretty).of(obj, b"\n"))


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield parts, short ones that follow each other as one."""
    short, size = list[bytes](), 0
    for part in parts:
        if len(part) > SHARED_TEXT or size > LONG_TEXT:
            yield b"".join(short)
            short, size = [], 0
        if len(part) > SHARED_TEXT:
            yield part
        else:
            short.append(part)
            size += len(part)
    yield b"".join(short)


class _Parts:
    """Encodes one value. `margin` is what a line begins with, the end of the line before it included."""

    def __init__(self, pretty: bool) -> None:
        self._pretty = pretty
        self._colon = b": " if pretty else b":"
        self._shared: dict[str, list[bytes]] = {}

    def of(self, obj: Any, margin: bytes) -> Iterator[bytes]:
        """Yield the parts of a value."""
        if type(obj) is str and len(obj) > SHARED_TEXT:
            if obj not in self._shared:
                self._shared[obj] = [b'"', *(encode(text)[1:-1] for text in pieces(obj, LONG_TEXT)), b'"']
            yield from self._shared[obj]
        elif type(obj) is list and (len(obj) > PIECE or any(map(_has_long_text, obj))):
            yield from self._items(obj, margin)
        elif type(obj) is dict and obj:
            yield from self._fields(obj, margin)
        elif self._pretty:
            yield indent(encode(obj)).replace(b"\n", margin)
        else:
            yield encode(obj)

    def _items(self, items: list[Any], margin: bytes) -> Iterator[bytes]:
        """Yield the parts of a list: many short items at once, those with a long text one by one."""
        inner = margin + b"  " if self._pretty else b""
        before = b"["
        for some in pieces(items):
            if any(map(_has_long_text, some)):
                for item in some:
                    yield before + inner
                    yield from self.of(item, inner)
                    before = b","
            else:
                encoded = encode(some)
                yield before + (indent(encoded)[1:-2].replace(b"\n", margin) if self._pretty else encoded[1:-1])
            before = b","
        yield (margin if self._pretty else b"") + b"]"

    def _fields(self, obj: dict[str, Any], margin: bytes) -> Iterator[bytes]:
        inner = margin + b"  " if self._pretty else b""
        for number, (name, value) in enumerate(obj.items()):
            yield (b"," if number else b"{") + inner + encode(name) + self._colon
            yield from self.of(value, inner)
        yield (margin if self._pretty else b"") + b"}"


def _has_long_text(item: Any) -> bool:
    """Report whether an item of a list is a long text, or an object with one."""
    texts = item.values() if type(item) is dict else (item,)
    return any(type(text) is str and len(text) > SHARED_TEXT for text in texts)
