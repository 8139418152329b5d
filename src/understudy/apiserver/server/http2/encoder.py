"""Writes the headers of answers without compressing them (HPACK, RFC 7541): a table saves bytes and doubles the CPU."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from hpack import Encoder
from hpack.hpack import encode_integer

_NO_TABLE = b"\x20"  # says that the dynamic table has room for nothing (section 6.3)
_OK = b"\x88"  # `:status: 200` in the static table
_LITERAL = b"\0"  # begins a header whose name and value follow, and which no table keeps (section 6.2.2)
_LONGEST_KNOWN = 64  # bytes of a name whose begin is kept: servers behind this one name headers as they like


class PlainEncoder(Encoder):
    """Writes each header as a literal that no table keeps."""

    def __init__(self) -> None:
        super().__init__()
        self._begin = _NO_TABLE  # of the next block

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:
        """Return a block of headers, pairs of bytes."""
        parts, self._begin = [self._begin], b""
        for name, value in headers:
            if (name, value) == (b":status", b"200"):
                parts.append(_OK)
            else:
                parts += (_known_begin if len(name) <= _LONGEST_KNOWN else _begin)(name), _string(value)
        return b"".join(parts)


def _string(data: bytes) -> bytes:
    """Return bytes behind their length (section 5.2)."""
    return bytes(encode_integer(len(data), 7)) + data if len(data) > 126 else bytes((len(data),)) + data


def _begin(name: bytes) -> bytes:
    """Return the begin of a header, with its name."""
    return _LITERAL + _string(name)


_known_begin = lru_cache(256)(_begin)
