"""JSON as Go's encoder writes it, encoded in parts: of a hundred thousand causes of an error, no step takes long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.machinery.golang.json_writer import encode, indent
from understudy.machinery.util.pieces import PIECE, pieces

LONG_TEXT = 1 << 17  # characters of a text that is encoded in pieces


def encode_in_parts(obj: Any, *, pretty: bool = False, margin: bytes = b"\n") -> Iterator[bytes]:
    """Yield the parts of what `encode` writes, or `indent` if `pretty`: long lists and texts in pieces.

    margin  what a line begins with, the end of the line before it included
    """
    inner = margin + b"  " if pretty else b""
    colon = b": " if pretty else b":"
    if type(obj) is str and len(obj) > LONG_TEXT:
        yield b'"'
        for text in pieces(obj, LONG_TEXT):
            yield encode(text)[1:-1]
        yield b'"'
    elif type(obj) is list and len(obj) > PIECE:
        for number, some in enumerate(pieces(obj)):
            items = encode(some)
            items = indent(items)[1:-2].replace(b"\n", margin) if pretty else items[1:-1]
            yield (b"," if number else b"[") + items
        yield (margin if pretty else b"") + b"]"
    elif type(obj) is dict and obj:
        for number, (name, value) in enumerate(obj.items()):
            yield (b"," if number else b"{") + inner + encode(name) + colon
            yield from encode_in_parts(value, pretty=pretty, margin=inner)
        yield (margin if pretty else b"") + b"}"
    else:
        yield indent(encode(obj)).replace(b"\n", margin) if pretty else encode(obj)
