"""Reads what a client sends on a connection of HTTP/2: bytes become frames, and frames events of `h2`."""

from __future__ import annotations

from collections.abc import Iterator

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError

from understudy.apiserver.server.http2 import frames
from understudy.apiserver.server.http2.rules import BUFFER, LONGEST_BLOCK, Rules

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_AT_ONCE = 8 * 1024  # bytes of headers that are read in one turn of the event loop: each may be a header, of 10 µs
_FRAME, _REQUEST = 128, 2 * 1024  # as many of them as any frame counts for, and as one that begins a request, besides


class WrongPrefaceError(Exception):
    """The client does not speak HTTP/2."""


class BrokenRuleError(Exception):
    """The client has broken a rule that is not `h2`'s; `stream` is the newest stream."""

    def __init__(self, code: ErrorCodes, stream: int) -> None:
        super().__init__(code.name)
        self.code = code
        self.stream = stream


class FrameReader:
    """Reads the frames of one connection.

    has_settings  whether the client has said how it wants it
    is_behind     whether more frames have come than are read at once
    """

    def __init__(self, http2: Rules) -> None:
        self._http2 = http2
        self._cutter = frames.FrameCutter()
        self._preface = PREFACE  # as far as it has not come
        self._head = b"\0\0\0\0", 0, 0  # stream, flags and size of the newest headers
        self.has_settings = False
        self.is_behind = False

    def add(self, data: bytes) -> None:
        """Add bytes that have come. Raises WrongPrefaceError."""
        if self._preface:
            begin, data = data[: len(self._preface)], data[len(self._preface) :]
            if not self._preface.startswith(begin):
                raise WrongPrefaceError
            self._preface = self._preface[len(begin) :]
            self._http2.receive_data(begin)
        self._cutter.add(data)

    def read(self) -> Iterator[events.Event]:
        """Yield the events of the frames that have come as a whole, of so many as are read at once.

        `h2` is not told that the client goes away: it would not let it be answered. Raises BrokenRuleError,
        LargeBlockError, after which `reread` goes on, and ProtocolError.
        """
        self.is_behind = False
        left = _AT_ONCE
        try:
            while (cut := self._cutter.take(BUFFER)) is not None:
                kind, frame = cut
                yield from self._events(kind, frame)
                left -= _cost(kind, len(frame))
                if left <= 0:
                    self.is_behind = True
                    return
        except FrameTooLargeError:
            raise self._broken(ErrorCodes.FRAME_SIZE_ERROR) from None

    def reread(self) -> Iterator[events.Event]:
        """Yield the events of a frame whose large headers have been read, and of those that came behind it."""
        stream, flags, _ = self._head
        yield from self._http2.receive_data(frames.empty_headers_frame(stream, flags))
        yield from self.read()

    def _events(self, kind: int, frame: bytes) -> list[events.Event]:
        if kind == frames.SETTINGS:
            self.has_settings = True
        elif not self.has_settings:
            raise self._broken(ErrorCodes.PROTOCOL_ERROR)
        elif kind == frames.GOAWAY:
            return [events.ConnectionTerminated()]
        elif kind == frames.HEADERS:
            self._head = frame[5 : frames.HEAD], frame[4], len(frame)
        elif kind == frames.CONTINUATION:
            stream, flags, size = self._head
            self._head = stream, flags, size + len(frame)
            if size > LONGEST_BLOCK:
                raise self._broken(ErrorCodes.PROTOCOL_ERROR)
        return self._http2.receive_data(frame)

    def _broken(self, code: ErrorCodes) -> BrokenRuleError:
        return BrokenRuleError(code, int.from_bytes(self._head[0]))


def _cost(kind: int, size: int) -> int:
    """Return the bytes of headers that take as long to read as a frame, and to answer."""
    match kind:
        case frames.HEADERS:
            return _REQUEST + size
        case frames.CONTINUATION:
            return _FRAME + size
        case _:
            return _FRAME
