"""Frames of SPDY/3.1, as bytes. Upstream: `Framer` of github.com/moby/spdystream.

https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/, less what Kubernetes does not use: priorities,
settings and windows are passed over.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum

from understudy.machinery.types import NamedTuple

CONTROL = 0x80000000  # the bit of control frames
VERSION = 3
FIN = 0x01  # flag of a sender's last frame
PROTOCOL_ERROR, CANCEL = 1, 5  # reasons of RST_STREAM
_HEAD = struct.Struct(">II")
_TWO = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
_MOST_HEADERS = 1 << 20  # bytes of a block of headers
_NAMES = """
    options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow
    authorization cache-control connection content-base content-encoding content-language content-length
    content-location content-md5 content-range content-type date etag expect expires from host if-match
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie
    keep-alive origin
"""
_VALUES = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return _LENGTH.pack(len(data)) + data


# The text that the compression of headers begins with: section 2.6.10.1 of the specification.
DICTIONARY = b"".join(_counted(name.replace("_", " ")) for name in _NAMES.split()) + _VALUES.encode()


class Kind(IntEnum):
    """The types of control frames, and 0 for frames of data."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Frame(NamedTuple):
    """A frame that was read.

    stream   number of its stream; of a PING the number that is sent back
    headers  by their names in lower case
    """

    kind: Kind
    stream: int
    is_last: bool = False
    data: bytes = b""
    headers: Mapping[str, str] = {}


class SpdyError(Exception):
    """A frame that breaks the protocol."""


class FrameReader:
    """Reads the frames that one side sends."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that data completes. Raises SpdyError."""
        self._data += data
        received, at = self._data, 0
        try:
            while at + _HEAD.size <= len(received):
                first, second = _HEAD.unpack_from(received, at)
                begin, end = at + _HEAD.size, at + _HEAD.size + (second & 0xFFFFFF)
                if end > len(received):
                    break
                is_last, payload = bool(second >> 24 & FIN), bytes(received[begin:end])
                at = end
                if first & CONTROL:
                    yield from self._control(first & ~CONTROL, is_last, payload)
                else:
                    yield Frame(Kind.DATA, first, is_last, payload)
        finally:
            del received[:at]

    def _control(self, version_and_kind: int, is_last: bool, payload: bytes) -> Iterator[Frame]:
        if version_and_kind >> 16 != VERSION:
            raise SpdyError(f"version {version_and_kind >> 16}")
        try:
            kind = Kind(version_and_kind & 0xFFFF)
        except ValueError:
            return
        if kind in (Kind.SETTINGS, Kind.WINDOW_UPDATE):
            return
        if len(payload) < _LENGTH.size:
            raise SpdyError(f"{kind.name} of {len(payload)} bytes")
        (stream,) = _LENGTH.unpack_from(payload)
        if kind is Kind.PING:
            yield Frame(kind, stream)
            return
        before = {Kind.SYN_STREAM: 10, Kind.SYN_REPLY: 4, Kind.HEADERS: 4}.get(kind)
        headers = {} if before is None else self._headers(payload[before:])
        yield Frame(kind, stream & ~CONTROL, is_last, headers=headers)

    def _headers(self, block: bytes) -> Mapping[str, str]:
        """Return the headers of a compressed block. Raises SpdyError."""
        try:
            text = self._inflater.decompress(block, _MOST_HEADERS)
            if self._inflater.unconsumed_tail:
                raise SpdyError("too many headers")
            (count,), at, words = _LENGTH.unpack_from(text), _LENGTH.size, []
            for _ in range(2 * count):
                (length,) = _LENGTH.unpack_from(text, at)
                at += _LENGTH.size + length
                words.append(text[at - length : at].decode("utf-8", "surrogateescape"))
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"headers: {error}") from None
        return dict(zip(words[::2], words[1::2], strict=True))


class FrameWriter:
    """Makes the frames of one side."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(9, zdict=DICTIONARY)

    def begin(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return the frame that opens a stream (SYN_STREAM)."""
        return _control(Kind.SYN_STREAM, _TWO.pack(stream, 0) + b"\0\0" + self._compressed(headers))

    def accept(self, stream: int) -> bytes:
        """Return the frame that accepts a stream (SYN_REPLY)."""
        return _control(Kind.SYN_REPLY, _LENGTH.pack(stream) + self._compressed({}))

    def data(self, stream: int, data: bytes, *, is_last: bool = False) -> bytes:
        """Return a frame with bytes of a stream."""
        return _HEAD.pack(stream, (FIN << 24 if is_last else 0) | len(data)) + data

    def reset(self, stream: int, reason: int) -> bytes:
        """Return the frame that breaks off a stream (RST_STREAM)."""
        return _control(Kind.RST_STREAM, _TWO.pack(stream, reason))

    def ping(self, number: int) -> bytes:
        """Return the frame that is sent back as it is (PING)."""
        return _control(Kind.PING, _LENGTH.pack(number))

    def go_away(self, last_stream: int) -> bytes:
        """Return the frame that takes no more streams than those up to a number (GOAWAY)."""
        return _control(Kind.GOAWAY, _TWO.pack(last_stream, 0))

    def _compressed(self, headers: Mapping[str, str]) -> bytes:
        words = (word for name, value in headers.items() for word in (name.lower(), value))
        block = _LENGTH.pack(len(headers)) + b"".join(map(_counted, words))
        return self._deflater.compress(block) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: Kind, payload: bytes) -> bytes:
    return _HEAD.pack(CONTROL | VERSION << 16 | kind, len(payload)) + payload
