"""The protobuf wire format, and the envelopes that Kubernetes puts around a message.

A body is `k8s\\0` and a runtime.Unknown: apiVersion, kind and the message itself. A watch sends frames: four bytes of
length, big endian, and a WatchEvent whose object is a body again. Errors have the texts of generated Go code. Nothing
here knows what messages mean; `protobuf` does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache

from understudy.machinery.golang.json_reader import DecodeError

MAGIC = b"k8s\0"
VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)

_EOF = "unexpected EOF"
_OVERFLOW = "proto: integer overflow"
_NEGATIVE = "proto: negative length found during unmarshaling"


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the varint at `at`. Returns it as an unsigned 64-bit integer, and where it ends. Raises DecodeError."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift >= 64:
            raise DecodeError(_OVERFLOW)
    raise DecodeError(_EOF)


def _span(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return begin and end of the bytes whose length is at `at`."""
    size, at = read_varint(data, at, end)
    if size >= 1 << 63 or at + size >= 1 << 63:
        raise DecodeError(_NEGATIVE)
    if at + size > end:
        raise DecodeError(_EOF)
    return at, at + size


def _after(data: bytes, at: int, end: int, wire: int) -> int:
    """Return the end of an unknown field that begins at `at`, groups included (gogo: `skipGenerated`)."""
    depth = 0
    while True:
        if wire == VARINT:
            at = read_varint(data, at, end)[1]
        elif wire == BYTES:
            at = _span(data, at, end)[1]
        elif wire in (FIXED32, FIXED64):
            at += 8 if wire == FIXED64 else 4
        elif wire == START_GROUP:
            depth += 1
        elif wire == END_GROUP and depth:
            depth -= 1
        else:
            raise DecodeError(
                "proto: unexpected end of group" if wire == END_GROUP else f"proto: illegal wireType {wire}"
            )
        if at > end:
            raise DecodeError(_EOF)
        if not depth:
            return at
        tag, at = read_varint(data, at, end)
        wire = tag & 7


def read_fields(
    data: bytes, known: Mapping[int, tuple[str, tuple[int, ...]]], message: str
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, integer, bytes) of the fields of a message, in order; only the one of the two values that the wire
    type has is set.

    `known` maps field numbers to the Go name and the allowed wire types; other fields are skipped. Raises DecodeError.
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag < 0x80:  # nearly always true; a call here, or for the length below, would cost too much
            at += 1
        else:
            tag, at = read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        expected = known.get(number)
        if expected is None or wire not in expected[1]:
            at = _unexpected(data, at, end, tag, expected, message)
        elif wire == BYTES:
            if at < end and data[at] < 0x80 and at + 1 + data[at] <= end:
                begin, at = at + 1, at + 1 + data[at]
            else:
                begin, at = _span(data, at, end)
            yield number, 0, data[begin:at]
        elif wire == VARINT:
            value, at = read_varint(data, at, end)
            yield number, value, b""
        else:
            if at + 8 > end:
                raise DecodeError(_EOF)
            at += 8
            yield number, 0, data[at - 8 : at]


def _unexpected(
    data: bytes, at: int, end: int, tag: int, expected: tuple[str, tuple[int, ...]] | None, message: str
) -> int:
    """Skip an unknown field, and return where it ends. Raises DecodeError for a wrong wire type and for an illegal
    tag."""
    number, wire = (tag >> 3) & 0xFFFF_FFFF, tag & 7
    if wire == END_GROUP:
        raise DecodeError(f"proto: {message}: wiretype end group for non-group")
    if not 0 < number < 1 << 31:
        number -= 1 << 32 if number else 0
        raise DecodeError(f"proto: {message}: illegal tag {number} (wire type {tag})")
    if expected is not None:
        raise DecodeError(f"proto: wrong wireType = {wire} for field {expected[0]}")
    return _after(data, at, end, wire)


def encode_varint(value: int) -> bytes:
    """Encode an integer as a varint; negative ones as 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_length = lru_cache(1 << 14)(encode_varint)


def length_delimited(tag: bytes, payload: bytes) -> bytes:
    """Encode a field of bytes: tag, length, payload."""
    return tag + _length(len(payload)) + payload


# --- runtime.Unknown

_UNKNOWN = {
    1: ("TypeMeta", (BYTES,)),
    2: ("Raw", (BYTES,)),
    3: ("ContentEncoding", (BYTES,)),
    4: ("ContentType", (BYTES,)),
}
_TYPE_META = {1: ("APIVersion", (BYTES,)), 2: ("Kind", (BYTES,))}


def open_envelope(body: bytes) -> tuple[str, str, bytes]:
    """Return (apiVersion, kind, message) of a body. Raises DecodeError."""
    if not body:
        raise DecodeError("empty data")
    if not body.startswith(MAGIC):
        raise DecodeError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if body == MAGIC:
        raise DecodeError("empty body")
    names, message = {1: "", 2: ""}, b""
    for number, _, payload in read_fields(body[len(MAGIC) :], _UNKNOWN, "Unknown"):
        if number == 1:
            names |= {n: text.decode(errors="replace") for n, _, text in read_fields(payload, _TYPE_META, "TypeMeta")}
        elif number == 2:
            message = payload
    return names[1], names[2], message


def make_envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """Return the body that holds a message."""
    before, after = around_message(api_version, kind, len(message))
    return before + message + after


def around_message(api_version: str, kind: str, size: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after a message of some size in a body."""
    type_meta = length_delimited(b"\x0a", api_version.encode()) + length_delimited(b"\x12", kind.encode())
    return MAGIC + length_delimited(b"\x0a", type_meta) + b"\x12" + encode_varint(size), b"\x1a\x00\x22\x00"


# --- watches


def watch_frame(event: str, body: bytes) -> bytes:
    """Return one frame of a watch: `event` is ADDED, MODIFIED, …, `body` an object in its envelope."""
    message = length_delimited(b"\x0a", event.encode()) + length_delimited(b"\x12", length_delimited(b"\x0a", body))
    return struct.pack(">I", len(message)) + message


_WATCH_EVENT = {1: ("Type", (BYTES,)), 2: ("Object", (BYTES,))}
_RAW_EXTENSION = {1: ("Raw", (BYTES,))}


def read_watch_frame(data: bytes, at: int) -> tuple[str, bytes, int] | None:
    """Return (event, body, end) of the frame that begins at `at`, or None if `data` has not all of it. Raises
    DecodeError."""
    begin = at + 4
    if begin > len(data):
        return None
    (size,) = struct.unpack_from(">I", data, at)
    if begin + size > len(data):
        return None
    event, body = "", b""
    for number, _, payload in read_fields(data[begin : begin + size], _WATCH_EVENT, "WatchEvent"):
        if number == 1:
            event = payload.decode()
        else:
            body = b"".join(raw for _, _, raw in read_fields(payload, _RAW_EXTENSION, "RawExtension"))
    return event, body, begin + size
