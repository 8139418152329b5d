"""DER, read as Go's encoding/asn1 reads it into its types, with the texts of its errors.

A shape says what is expected: `read(data, sequence("tbsCertificateRequest", INTEGER, ANY, …))` answers a Value, whose
`parts` are those of a sequence. Errors are ValueErrors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_PARAMETERS = (
    "{{optional:{optional} explicit:false application:false private:false defaultValue:<nil> tag:{tag} "
    "stringType:0 timeType:0 set:false omitEmpty:false}}"
)
_MOST_LENGTH = 1 << 23
_CONTEXT = 2
NULL = b"\x05\x00"


class Header(NamedTuple):
    """`start`: where the content begins."""

    of: int  # class: 0 universal, 2 context-specific
    tag: int
    compound: bool
    length: int
    start: int


@dataclass(frozen=True)
class Shape:
    """`name`: of the Go type; `tag`: the universal one, None for any; `context`: the tag that stands in its place."""

    name: str
    tag: int | None
    parts: tuple[Shape, ...] = ()
    many: Shape | None = None  # of a sequence's or set's elements
    context: int | None = None
    optional: bool = False

    @property
    def compound(self) -> bool:
        return bool(self.parts or self.many)


INTEGER, OID, BITS = Shape("int", 2), Shape("ObjectIdentifier", 6), Shape("BitString", 3)
ANY, OPTIONAL = Shape("RawValue", None), Shape("RawValue", None, optional=True)


def sequence(name: str, *parts: Shape) -> Shape:
    """A Go struct: its fields one after the other."""
    return Shape(name, 16, parts)


@dataclass
class Value:
    """`whole` with header, `content` without; of a bit string its bytes."""

    whole: bytes
    content: bytes
    parts: list[Value]


ABSENT = Value(b"", b"", [])


def _syntax(text: str) -> ValueError:
    return ValueError(f"asn1: syntax error: {text}")


def _structure(text: str) -> ValueError:
    return ValueError(f"asn1: structure error: {text}")


def header(data: bytes, offset: int) -> Header:
    """What stands before the content of the element at an offset, which is inside of the data."""
    first = data[offset]
    offset += 1
    tag = first & 0x1F
    if tag == 0x1F:
        tag, offset = _base_128(data, offset)
    length, offset = _length(data, offset)
    return Header(first >> 6, tag, bool(first & 0x20), length, offset)


def _base_128(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for i in range(offset, min(offset + 5, len(data))):
        value = value << 7 | data[i] & 0x7F
        if not data[i] & 0x80:
            if value < 0x1F:
                raise _syntax("non-minimal tag")
            return value, i + 1
    raise _syntax("truncated base 128 integer")


def _length(data: bytes, offset: int) -> tuple[int, int]:
    if offset >= len(data):
        raise _syntax("truncated tag or length")
    count, offset = data[offset], offset + 1
    if count < 0x80:
        return count, offset
    if count == 0x80:
        raise _syntax("indefinite length found (not DER)")
    length = 0
    for i in range(offset, offset + count - 0x80):
        if i >= len(data):
            raise _syntax("truncated tag or length")
        if length >= _MOST_LENGTH:
            raise _structure("length too large")
        length = length << 8 | data[i]
        if not length:
            raise _structure("superfluous leading zeros in length")
    if length < 0x80:
        raise _structure("non-minimal length")
    return length, offset + count - 0x80


def read(data: bytes, shape: Shape) -> tuple[Value, bytes]:
    """A value and what follows it."""
    value, end = _read(data, 0, shape)
    return value, data[end:]


def _read(data: bytes, offset: int, shape: Shape) -> tuple[Value, int]:
    if offset == len(data):
        if shape.optional:
            return ABSENT, offset
        raise _syntax("sequence truncated")
    found = header(data, offset)
    expected = shape.tag if shape.context is None else shape.context
    wanted = (0 if shape.context is None else _CONTEXT, expected, shape.compound)
    if expected is not None and (found.of, found.tag, found.compound) != wanted:
        raise _mismatch(expected, found, shape)
    end = found.start + found.length
    if end > len(data):
        raise _syntax("data truncated")
    value = Value(data[offset:end], data[found.start : end], [])
    _fill(value, shape)
    return value, end


def _mismatch(expected: int, found: Header, shape: Shape) -> ValueError:
    compound, tag = str(found.compound).lower(), "<nil>" if shape.context is None else "0xc000000000"
    told = f"{{class:{found.of} tag:{found.tag} length:{found.length} isCompound:{compound}}}"
    parameters = _PARAMETERS.format(optional=str(shape.optional).lower(), tag=tag)
    return _structure(f"tags don't match ({expected} vs {told}) {parameters} {shape.name} @{found.start}")


def _fill(value: Value, shape: Shape) -> None:
    content = value.content
    if shape.many:
        value.parts = list(_elements(content, shape.many))
    elif shape.parts:
        offset = 0
        for part in shape.parts:
            found, offset = _read(content, offset, part)
            value.parts.append(found)
    elif shape.tag == INTEGER.tag:
        _check_integer(content)
    elif shape.tag == OID.tag and not content:
        raise _syntax("zero length OBJECT IDENTIFIER")
    elif shape.tag == BITS.tag:
        value.content = _bits(content)


def _elements(content: bytes, shape: Shape) -> Iterator[Value]:
    """The elements of a sequence or set; first all are looked at from outside."""
    offset = 0
    while offset < len(content):
        found = header(content, offset)
        if shape.tag is not None and (found.of, found.tag, found.compound) != (0, shape.tag, shape.compound):
            raise _structure("sequence tag mismatch")
        offset = found.start + found.length
        if offset > len(content):
            raise _syntax("truncated sequence")
    offset = 0
    while offset < len(content):
        value, offset = _read(content, offset, shape)
        yield value


def _check_integer(content: bytes) -> None:
    if not content:
        raise _structure("empty integer")
    if len(content) > 1 and (content[0], content[1] >> 7) in ((0, 0), (0xFF, 1)):
        raise _structure("integer not minimally-encoded")
    if len(content) > 8:
        raise _structure("integer too large")


def _bits(content: bytes) -> bytes:
    if not content:
        raise _syntax("zero length BIT STRING")
    padding = content[0]
    if padding > 7 or (len(content) == 1 and padding) or content[-1] & ((1 << padding) - 1):
        raise _syntax("invalid padding bits in BIT STRING")
    number = int.from_bytes(content[1:], "big") >> padding
    return number.to_bytes(len(content) - 1, "big")
