"""Cuts what comes on a connection of HTTP/2 into frames, before `h2` reads them (RFC 9113, section 4).

`h2` ends a connection at a GOAWAY of either side; clients and servers that go away finish what they have begun.
"""

from __future__ import annotations

from collections.abc import Iterable

from h2.exceptions import FrameTooLargeError

HEAD = 9  # bytes of the head of a frame: three of its length, then one of its type, one of flags, four of its stream
DATA, HEADERS, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 4, 7, 9
GOAWAY_BYTES = HEAD + 8  # of a whole frame that tells nothing more
END_STREAM, END_HEADERS = 1, 4  # flags of HEADERS


class FrameCutter:
    """Cuts the bytes of one connection into frames."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0  # where the next frame begins

    def add(self, data: bytes) -> None:
        """Add bytes that have come."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def take(self, longest: int) -> tuple[int, bytes] | None:
        """Return the type and the bytes of the next frame, None if it has not come as a whole.

        Raises FrameTooLargeError for one with more bytes than the longest, which `h2` would wait for.
        """
        data, at = self._data, self._at
        if at + HEAD > len(data):
            return None
        size = int.from_bytes(data[at : at + 3])
        if size > longest:
            raise FrameTooLargeError("frame too large")
        end = at + HEAD + size
        if end > len(data):
            return None
        self._at = end
        return data[at + 3], data[at:end]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame of a stream, of stream 0 for one about the whole connection."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def empty_headers_frame(stream: int, flags: int) -> bytes:
    """Return a HEADERS frame without headers that ends them, and the request if the flags say so."""
    return frame(HEADERS, flags & END_STREAM | END_HEADERS, stream)


def settings_frame(settings: Iterable[tuple[int, int]]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(code.to_bytes(2) + value.to_bytes(4) for code, value in settings))


def continuation_frames(stream: int, rest: bytes, longest: int) -> bytes:
    """Return the frames of the rest of headers, which end them."""
    starts = range(0, max(len(rest), 1), longest)
    return b"".join(
        frame(CONTINUATION, END_HEADERS if at == starts[-1] else 0, stream, rest[at : at + longest]) for at in starts
    )


def go_away_frame(last: int, code: int) -> bytes:
    """Return a GOAWAY frame: streams up to the last one are still answered."""
    return frame(GOAWAY, 0, 0, last.to_bytes(4) + code.to_bytes(4))
