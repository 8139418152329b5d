"""The data items of a CBOR body: a tree that keeps order, duplicates, tags and types, which knows no Go types.

    item = parse(body, V1_37)       # raises DecodeError with the texts of github.com/fxamacker/cbor
    diagnose(item)                  # {"kind": 'Pod'}, as errors quote a body

No library is used. cbor2 keeps the last of duplicate keys without a word, makes one value of a text and a byte string
that differ as keys, loses where a map has a key that nothing expects, and has texts of its own for malformed bodies:
all of which is part of the answer here.
"""

from __future__ import annotations

import json
import struct
from math import isinf, isnan
from typing import Any

from understudy.machinery.golang.json_reader import DecodeError
from understudy.machinery.golang.json_writer import GoFloat, encode
from understudy.machinery.releases.version import V1_31, V1_36, ByRelease, Version
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.deep_recursion import call_deeply
from understudy.machinery.util.regex import regex

POSITIVE, NEGATIVE, BYTES, TEXT = "positive integer", "negative integer", "byte string", "UTF-8 text string"
ARRAY, MAP, TAG, PRIMITIVE = "array", "map", "tag", "primitives"
KINDS = (POSITIVE, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, PRIMITIVE)  # by major type

_BREAK = 0xFF
_INDEFINITE = 31
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}  # bytes of the argument behind a head
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_BIGNUMS = (2, 3)
_ESCAPED = regex(r"""[^ -~]|[\\'"]""")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}


class Limits(NamedTuple):
    """The size that a body may have: levels of arrays, maps and tags, elements of an array, pairs of a map."""

    levels: int
    elements: int
    pairs: int


class Simple(int):
    """A simple value that is neither a boolean nor null; no other one is accepted."""


class Item:
    """One data item.

    kind    of the value without its tags, as Go's errors name it
    tags    the outermost first
    value   an int, bytes, a list of items or of pairs of items, a bool, None, a float or a Simple
    chunks  of a string of indefinite length
    open    whether the length is indefinite
    """

    __slots__ = ("chunks", "kind", "open", "tags", "value")

    def __init__(self, kind: str, value: Any, tags: tuple[int, ...] = (), *, open_: bool = False) -> None:
        self.kind = kind
        self.value = value
        self.tags = tags
        self.open = open_
        self.chunks: list[Item] = []


_LIMITS = ByRelease({V1_36: Limits(10_000, 2**31 - 1, 2**21), V1_31: Limits(64, 1024, 1024)})


def parse(data: bytes, version: Version) -> Item:
    """Return the one data item of a body. Raises DecodeError for a body that is malformed, or larger than the release
    reads."""
    if not data:
        raise DecodeError("EOF")
    return call_deeply(_parse, data, _LIMITS[version])


def _parse(data: bytes, limits: Limits) -> Item:
    reader = _Reader(data, limits)
    item, _ = reader.item(0)
    if reader.at < len(data):
        raise DecodeError(f"cbor: {len(data) - reader.at} bytes of extraneous data starting at index {reader.at}")
    return item


class _Reader:
    """Reads items from `data`, from `at` on."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.at = 0
        self._data = data
        self._limits = limits

    def item(self, depth: int) -> tuple[Item, int]:
        """Return the next item, and the depth of what is in it. `depth` is that around it."""
        kind, additional, argument = self._head()
        tags: tuple[int, ...] = ()
        while kind == TAG:
            tags = (*tags, argument)
            depth = self._deeper(depth) if len(tags) > 1 else depth
            if self.at == len(self._data):
                raise DecodeError("unexpected EOF")
            if argument in _BIGNUMS:
                raise _unacceptable(TAG, "bignum")
            kind, additional, argument = self._head()
        if kind in (POSITIVE, NEGATIVE):
            return Item(kind, argument if kind == POSITIVE else -1 - argument, tags), depth
        if kind == PRIMITIVE:
            return Item(kind, self._primitive(additional, argument), tags), depth
        if kind in (BYTES, TEXT):
            return self._string(kind, additional, argument, tags), depth
        return self._container(kind, additional, argument, tags, self._deeper(depth))

    def _deeper(self, depth: int) -> int:
        if depth >= self._limits.levels:
            raise DecodeError(f"cbor: exceeded max nested level {self._limits.levels}")
        return depth + 1

    def _head(self) -> tuple[str, int, int]:
        """Return kind, additional information and argument of the next head."""
        if self.at == len(self._data):
            raise DecodeError("unexpected EOF")
        major, additional = divmod(self._data[self.at], 32)
        kind = KINDS[major]
        self.at += 1
        if additional < 24:
            return kind, additional, additional
        if additional not in _SIZES:
            return kind, additional, self._no_argument(kind, additional)
        argument = int.from_bytes(self._take(_SIZES[additional]))
        if kind == PRIMITIVE and additional == 24 and argument < 32:
            raise DecodeError(f"cbor: invalid simple value {argument} for type {kind}")
        if kind == PRIMITIVE and additional in _FLOATS:
            _check_float(_float(additional, argument))
        return kind, additional, argument

    def _no_argument(self, kind: str, additional: int) -> int:
        """Check a head of indefinite length, which has no argument."""
        if additional == _INDEFINITE and kind == PRIMITIVE:
            raise DecodeError('cbor: unexpected "break" code')
        if additional != _INDEFINITE or kind in (POSITIVE, NEGATIVE, TAG):
            raise DecodeError(f"cbor: invalid additional information {additional} for type {kind}")
        return 0

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise DecodeError("unexpected EOF")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def _breaks(self) -> bool:
        """Report whether a break code is next, and pass it."""
        if self.at == len(self._data):
            raise DecodeError("unexpected EOF")
        is_next = self._data[self.at] == _BREAK
        self.at += is_next
        return is_next

    def _string(self, kind: str, additional: int, size: int, tags: tuple[int, ...]) -> Item:
        if additional != _INDEFINITE:
            if size >= 2**63:
                raise DecodeError(f"cbor: {kind} length {size} is too large, causing integer overflow")
            return Item(kind, self._take(size), tags)
        string = Item(kind, b"", tags, open_=True)
        while not self._breaks():
            major, chunk_additional = divmod(self._data[self.at], 32)
            if KINDS[major] != kind:
                raise DecodeError(f"cbor: wrong element type {KINDS[major]} for indefinite-length {kind}")
            if chunk_additional == _INDEFINITE:
                raise DecodeError(f"cbor: indefinite-length {kind} chunk is not definite-length")
            string.chunks.append(self.item(0)[0])
        string.value = b"".join(chunk.value for chunk in string.chunks)
        return string

    def _container(self, kind: str, additional: int, size: int, tags: tuple[int, ...], depth: int) -> tuple[Item, int]:
        items, deepest, is_open = list[Item](), depth, additional == _INDEFINITE
        if not is_open:
            self._check_size(kind, size)
        count = size * 2 if kind == MAP else size
        while not self._breaks() if is_open else len(items) < count:
            item, below = self.item(depth)
            items.append(item)
            deepest = max(deepest, below)
            if is_open and (kind == ARRAY or len(items) % 2 == 0):
                self._check_size(kind, len(items) if kind == ARRAY else len(items) // 2)
        if len(items) % 2 and kind == MAP:
            raise DecodeError('cbor: unexpected "break" code')
        value = items if kind == ARRAY else list(zip(items[::2], items[1::2], strict=True))
        return Item(kind, value, tags, open_=is_open), deepest

    def _check_size(self, kind: str, size: int) -> None:
        if size >= 2**63:
            raise DecodeError(f"cbor: {kind} length {size} is too large, it would cause integer overflow")
        if kind == ARRAY and size > self._limits.elements:
            raise DecodeError(f"cbor: exceeded max number of elements {self._limits.elements} for CBOR array")
        if kind == MAP and size > self._limits.pairs:
            raise DecodeError(f"cbor: exceeded max number of key-value pairs {self._limits.pairs} for CBOR map")

    def _primitive(self, additional: int, argument: int) -> Any:
        if additional in _FLOATS:
            return _float(additional, argument)
        return {20: False, 21: True, 22: None}.get(argument, Simple(argument))


def _float(additional: int, bits: int) -> float:
    value: float = struct.unpack(_FLOATS[additional], bits.to_bytes(_SIZES[additional]))[0]
    return value


def _check_float(value: float) -> None:
    if isnan(value) or isinf(value):
        raise _unacceptable(PRIMITIVE, f"floating-point {'NaN' if isnan(value) else 'infinity'}")


def _unacceptable(kind: str, what: str) -> DecodeError:
    """Return the error for an item that is well-formed, but that no object may have (`UnacceptableDataItemError`)."""
    return DecodeError(f"cbor: data item of cbor type {kind} is not accepted by protocol: {what}")


def unrecognized(value: Simple) -> DecodeError:
    """Return the error for a simple value, such as `undefined`."""
    return _unacceptable(PRIMITIVE, f"simple value {value:d} is not recognized")


def diagnose(item: Item) -> str:
    """Return an item in diagnostic notation (RFC 8949, section 8)."""
    return call_deeply(_diagnosed, item)


# Comprehensions are not limited in depth as `map` is, which recurses in C.
def _diagnosed(item: Item) -> str:
    begin, end = "".join(f"{tag}(" for tag in item.tags), ")" * len(item.tags)
    return f"{begin}{_bare_diagnosed(item)}{end}"


def _bare_diagnosed(item: Item) -> str:
    mark, value = "_ " if item.open else "", item.value
    if item.kind == ARRAY:
        return f"[{mark}{', '.join([_diagnosed(child) for child in value])}]"
    if item.kind == MAP:
        return f"{{{mark}{', '.join([f'{_diagnosed(key)}: {_diagnosed(child)}' for key, child in value])}}}"
    if item.kind in (BYTES, TEXT):
        return _string_diagnosed(item)
    if isinstance(value, Simple):
        return "undefined" if value == 23 else f"simple({value:d})"
    if isinstance(value, float):
        return _float_diagnosed(value)
    return str(value) if item.kind != PRIMITIVE else json.dumps(value)


def _string_diagnosed(item: Item) -> str:
    if item.chunks:
        return f"(_ {', '.join(map(_diagnosed, item.chunks))})"
    quote = '"' if item.kind == TEXT else "'"
    if item.open:
        return f"{quote}{quote}_"
    try:
        text = item.value.decode()
    except UnicodeDecodeError:
        return f"h'{item.value.hex()}'"
    if not text and item.kind == BYTES:
        return "h''"
    return f"{quote}{_ESCAPED.sub(lambda match: _escaped(match[0], quote), text)}{quote}"


def _escaped(char: str, quote: str) -> str:
    """Return a character of a quoted text, escaped if it has to be: always as UTF-16, unless it is ASCII."""
    if char in _SHORT or char == quote:
        return _SHORT.get(char, f"\\{char}")
    if char in "\"'":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _float_diagnosed(value: float) -> str:
    text = encode(GoFloat(value)).decode()
    digits, e, exponent = text.partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{e}{exponent}"
