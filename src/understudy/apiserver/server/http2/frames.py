"""Cuts what comes on a connection of HTTP/2 into frames, before `h2` reads them (RFC 9113, section 4).

`h2` ends a connection at a GOAWAY of either side; clients and servers that go away finish what they have begun.
"""

from __future__ import annotations

from collections.abc import Iterator

from h2.exceptions import FrameTooLargeError

HEAD = 9  # bytes of the head of a frame: three of its length, then one of its type, one of flags, four of its stream
SETTINGS, GOAWAY = 4, 7


class FrameCutter:
    """Cuts the bytes of one connection into frames."""

    def __init__(self) -> None:
        self._begun = b""  # of a frame that has not come as a whole

    def cut(self, data: bytes, longest: int) -> Iterator[tuple[int, bytes]]:
        """Yield the type and the bytes of each frame that has come as a whole.

        Raises FrameTooLargeError for one with more bytes than the longest, which `h2` would wait for.
        """
        data, at = self._begun + data, 0
        self._begun = b""
        while at + HEAD <= len(data):
            size = int.from_bytes(data[at : at + 3])
            if size > longest:
                raise FrameTooLargeError("frame too large")
            end = at + HEAD + size
            if end > len(data):
                break
            yield data[at + 3], data[at:end]
            at = end
        self._begun = data[at:]


def go_away_frame(last: int, code: int) -> bytes:
    """Return a GOAWAY frame: streams up to the last one are still answered."""
    return bytes((0, 0, 8, GOAWAY, 0, 0, 0, 0, 0)) + last.to_bytes(4) + code.to_bytes(4)
