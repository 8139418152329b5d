"""The shards that a list or watch asks for: objects whose uid or namespace has a hash in some ranges (KEP-5866).

Upstream: `k8s.io/apimachinery/pkg/sharding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.machinery.types import NamedTuple

_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1  # of FNV-1a, 64 bits


class Shards(NamedTuple):
    """Ranges of hashes, each from its first to before its last, of a field of metadata: "uid" or "namespace"."""

    field: str
    ranges: tuple[tuple[int, int], ...]

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Report whether the object of some metadata is in one of the shards."""
        hashed = fnv1a(metadata.get(self.field) or "")
        return any(start <= hashed < end for start, end in self.ranges)

    def __str__(self) -> str:
        """Return the selector as lists tell of it, each range as a call."""
        return " || ".join(
            f"shardRange(object.metadata.{self.field}, '0x{start:016x}', '0x{end:016x}')" for start, end in self.ranges
        )


def fnv1a(text: str) -> int:
    """Return the hash of a text by FNV-1a with 64 bits."""
    hashed = _OFFSET
    for byte in text.encode():
        hashed = (hashed ^ byte) * _PRIME & _MASK
    return hashed
