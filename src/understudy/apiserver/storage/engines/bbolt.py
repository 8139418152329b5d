"""Reads bbolt files, the B+trees in which etcd keeps its data. Knows nothing of etcd, and never writes.

A file is an array of pages. Pages 0 and 1 are meta pages: the valid one with the higher transaction names the root of
the tree of buckets. A page begins with a header, and elements that say where their keys and values are:

    header   id 8, flags 2, count 2, overflow 4 (further pages that belong to this one)
    meta     magic 4, version 4, page size 4, flags 4, root page 8, sequence 8, free list 8, pages 8, transaction 8,
             FNV-1a of what is before 8
    branch   elements of: position 4 (from the element on), key size 4, page 8
    leaf     elements of: flags 4 (the value is a bucket), position 4, key size 4, value size 4

The value of a bucket is its root page and a sequence, 8 bytes each. A small bucket has root page 0: its only page
follows inside the value. All numbers are little-endian, as on every machine that etcd supports.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct

from understudy.machinery.types import NamedTuple

_HEADER, _META, _BUCKET = Struct("<QHHI"), Struct("<IIIIQQQQQQ"), Struct("<QQ")
_BRANCH, _LEAF = Struct("<IIQ"), Struct("<IIII")
_MAGIC, _VERSION = 0xED0CDAED, 2
_IS_BRANCH, _IS_LEAF = 1, 2
_PAGE_SIZES = [1 << bits for bits in range(9, 25)]  # the second meta page is after one page, whose size may be unknown
_ELEMENT = 16  # bytes of an element of a branch or leaf
_FNV_BASIS, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


class DamagedFileError(Exception):
    """A file that is not a whole bbolt file; the text says what is wrong with it."""


# Where an element of a leaf has its key and its value: begin, middle and end, as offsets in the file.
Span = tuple[int, int, int]


class _Meta(NamedTuple):
    """The facts of a meta page; `pages` counts those that the file must have."""

    page_size: int
    root: int
    pages: int
    transaction: int


class BoltFile:
    """A bbolt file, open for reading.

    data  the bytes of the file, from which a Span takes keys and values
    size  the bytes that belong to it, as its meta page says: more may follow
    """

    def __init__(self, path: Path) -> None:
        """Open a file. Raises OSError, DamagedFileError."""
        with path.open("rb") as file:
            try:
                self.data = mmap(file.fileno(), 0, access=ACCESS_READ)
            except ValueError:
                raise DamagedFileError("it is empty") from None
        metas = [meta for at in (0, *_PAGE_SIZES) if (meta := _meta(self.data, at)) is not None]
        if not metas:
            raise DamagedFileError("it has no valid meta page, so it is no bbolt file")
        self._meta = max(metas, key=lambda meta: meta.transaction)
        self.size = self._meta.pages * self._meta.page_size
        if len(self.data) < self.size:
            raise DamagedFileError(f"it is cut off after {len(self.data)} of {self.size} bytes")

    def bucket(self, name: bytes) -> Iterator[Span]:
        """Return the elements of a bucket at the top, in the order of their keys. Raises DamagedFileError, also for a
        bucket that the file does not have."""
        for begin, middle, end in self._elements(self._meta.root):
            if self.data[begin:middle] == name:
                root, _ = _BUCKET.unpack_from(self.data, middle)
                return self._elements(root) if root else iter(self._leaf(middle + _BUCKET.size, end))
        raise DamagedFileError(f"it has no bucket {name.decode()!r}")

    def _elements(self, root: int) -> Iterator[Span]:
        """Yield the elements of a tree."""
        waiting, seen, size = [root], set[int](), self._meta.page_size
        while waiting:
            page = waiting.pop()
            if page in seen or not 2 <= page < self._meta.pages:
                raise DamagedFileError(f"a tree names page {page}, which cannot belong to it")
            seen.add(page)
            at = page * size
            number, flags, count, overflow = _HEADER.unpack_from(self.data, at)
            end = at + (overflow + 1) * size
            if number != page or flags not in (_IS_BRANCH, _IS_LEAF) or end > self.size:
                raise DamagedFileError(f"page {page} is no page of a tree")
            if flags == _IS_LEAF:
                yield from self._leaf(at, end)
            else:
                waiting += self._children(at, end, count)

    def _children(self, at: int, end: int, count: int) -> list[int]:
        """Return the pages that a branch names, the last one first."""
        first = at + _HEADER.size
        if first + count * _ELEMENT > end:
            raise DamagedFileError(f"the page at byte {at} has more elements than room")
        return [page for _, _, page in _BRANCH.iter_unpack(self.data[first : first + count * _ELEMENT])][::-1]

    def _leaf(self, at: int, end: int) -> list[Span]:
        """Return the elements of a leaf between two offsets."""
        _, _, count, _ = _HEADER.unpack_from(self.data, at)
        place = at + _HEADER.size
        if place + count * _ELEMENT > end:
            raise DamagedFileError(f"the page at byte {at} has more elements than room")
        spans = []
        for _, position, key_size, value_size in _LEAF.iter_unpack(self.data[place : place + count * _ELEMENT]):
            begin = place + position
            middle = begin + key_size
            if middle + value_size > end:
                raise DamagedFileError(f"an element of the page at byte {at} ends behind the page")
            spans.append((begin, middle, middle + value_size))
            place += _ELEMENT
        return spans


def _meta(data: mmap, page: int) -> _Meta | None:
    """Return the facts of a valid meta page, None for anything else."""
    at = page + _HEADER.size
    if at + _META.size > len(data):
        return None
    magic, version, page_size, _, root, _, _, pages, transaction, checksum = _META.unpack_from(data, at)
    if (magic, version) != (_MAGIC, _VERSION) or page_size not in _PAGE_SIZES:
        return None
    return _Meta(page_size, root, pages, transaction) if checksum == _fnv(data[at : at + _META.size - 8]) else None


def _fnv(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of some bytes."""
    value = _FNV_BASIS
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFF_FFFF_FFFF_FFFF
    return value
