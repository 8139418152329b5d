"""DER, parsed as Go's encoding/asn1 parses it into its types, with the texts of its errors.

A Shape describes the expected type: `read(data, sequence("tbsCertificateRequest", INTEGER, ANY, …))` returns a Value
with one part per field. Errors are ValueErrors.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.machinery.types import NamedTuple, dataclass

_PARAMETERS = (
    "{{optional:{optional} explicit:false application:false private:false defaultValue:<nil> tag:{tag} "
    "stringType:0 timeType:0 set:false omitEmpty:false}}"
)
_MOST_LENGTH = 1 << 23
_CONTEXT = 2
NULL = b"\x05\x00"


class Header(NamedTuple):
    """The tag and length of an element (Go: `tagAndLength`). `class_` is 0 for universal tags, 2 for context-specific
    ones; `start` is where the content begins."""

    class_: int
    tag: int
    compound: bool
    length: int
    start: int


@dataclass(frozen=True)
class Shape:
    """An expected type: `name` of the Go type, `tag` the universal tag (None for any), `context` the context-specific
    tag that takes its place.

    `parts` are the fields of a sequence, `element` is the type of the elements of a SEQUENCE OF or SET OF.
    """

    name: str
    tag: int | None
    parts: tuple[Shape, ...] = ()
    element: Shape | None = None
    context: int | None = None
    optional: bool = False

    @property
    def compound(self) -> bool:
        """Report whether the content is made of elements."""
        return bool(self.parts or self.element)


INTEGER, OID, BITS = Shape("int", 2), Shape("ObjectIdentifier", 6), Shape("BitString", 3)
ANY, OPTIONAL = Shape("RawValue", None), Shape("RawValue", None, optional=True)


def sequence(name: str, *parts: Shape) -> Shape:
    """Return the shape of a Go struct: its fields one after the other."""
    return Shape(name, 16, parts)


@dataclass
class Value:
    """A parsed element: `whole` with its header, `content` without it (for a bit string, its bytes), `parts` of a
    sequence or set."""

    whole: bytes
    content: bytes
    parts: list[Value]


ABSENT = Value(b"", b"", [])


def _syntax(text: str) -> ValueError:
    return ValueError(f"asn1: syntax error: {text}")


def _structure(text: str) -> ValueError:
    return ValueError(f"asn1: structure error: {text}")


def header(data: bytes, offset: int) -> Header:
    """Parse the header of the element at an offset, which is inside of the data. Raises ValueError."""
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
    """Parse the first element of `data`. Returns it and the rest of the data. Raises ValueError."""
    value, end = _read(data, 0, shape)
    return value, data[end:]


def _read(data: bytes, offset: int, shape: Shape) -> tuple[Value, int]:
    if offset == len(data):
        if shape.optional:
            return ABSENT, offset
        raise _syntax("sequence truncated")
    actual = header(data, offset)
    expected = shape.tag if shape.context is None else shape.context
    expected_header = (0 if shape.context is None else _CONTEXT, expected, shape.compound)
    if expected is not None and (actual.class_, actual.tag, actual.compound) != expected_header:
        raise _mismatch(expected, actual, shape)
    end = actual.start + actual.length
    if end > len(data):
        raise _syntax("data truncated")
    value = Value(data[offset:end], data[actual.start : end], [])
    _fill(value, shape)
    return value, end


def _mismatch(expected: int, actual: Header, shape: Shape) -> ValueError:
    compound, tag = str(actual.compound).lower(), "<nil>" if shape.context is None else "0xc000000000"
    actual_text = f"{{class:{actual.class_} tag:{actual.tag} length:{actual.length} isCompound:{compound}}}"
    parameters = _PARAMETERS.format(optional=str(shape.optional).lower(), tag=tag)
    return _structure(f"tags don't match ({expected} vs {actual_text}) {parameters} {shape.name} @{actual.start}")


def _fill(value: Value, shape: Shape) -> None:
    content = value.content
    if shape.element:
        value.parts = list(_elements(content, shape.element))
    elif shape.parts:
        offset = 0
        for part in shape.parts:
            part_value, offset = _read(content, offset, part)
            value.parts.append(part_value)
    elif shape.tag == INTEGER.tag:
        _check_integer(content)
    elif shape.tag == OID.tag and not content:
        raise _syntax("zero length OBJECT IDENTIFIER")
    elif shape.tag == BITS.tag:
        value.content = _bits(content)


def _elements(content: bytes, shape: Shape) -> Iterator[Value]:
    """Parse the elements of a sequence or set. Like Go, it checks the headers of all of them first."""
    offset = 0
    while offset < len(content):
        head = header(content, offset)
        if shape.tag is not None and (head.class_, head.tag, head.compound) != (0, shape.tag, shape.compound):
            raise _structure("sequence tag mismatch")
        offset = head.start + head.length
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
