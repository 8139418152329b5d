"""Reads what a client sends on a connection of HTTP/2: bytes become frames, and frames events of `h2`."""

from __future__ import annotations

from collections.abc import Iterator

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError, ProtocolError
from hpack import HPACKError

from understudy.apiserver.server.http2 import frames
from understudy.apiserver.server.http2.rules import BUFFER, LONGEST_BLOCK, Rules

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_AT_ONCE = 8 * 1024  # bytes of headers that are read in one turn of the event loop: each may be a header, of 10 µs
_FRAME, _REQUEST = 128, 2 * 1024  # as many of them as any frame counts for, and as one that begins a request, besides
_NOTHING = 16  # as many as a part of a body counts for that has no bytes


class WrongPrefaceError(Exception):
    """The client does not speak HTTP/2."""


class BrokenRuleError(Exception):
    """The client has broken a rule of the connection.

    stream  that of the frame, 0 if the frame itself is none
    unsent  frames that are still to be sent to the client
    """

    def __init__(self, code: ErrorCodes, stream: int, why: str = "", unsent: bytes = b"") -> None:
        super().__init__(why or code.name)
        self.code = code
        self.stream = stream
        self.unsent = unsent


class FrameReader:
    """Reads the frames of one connection.

    has_settings  whether the client has said how it wants it
    is_behind     whether more frames have come than are read at once
    """

    def __init__(self, http2: Rules) -> None:
        self._http2 = http2
        self._cutter = frames.FrameCutter()
        self._preface = PREFACE  # as far as it has not come
        self._head = 0, 0, 0  # stream, flags and size of the newest headers
        self._block: list[bytes] = []  # the frame that begins headers and the parts that continue them, until they end
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

        `h2` is not told that the client goes away: it would not let it be answered. Raises BrokenRuleError, and
        LargeBlockError, after which `reread` goes on.
        """
        self.is_behind = False
        left = _AT_ONCE
        try:
            while (cut := self._cutter.take(BUFFER)) is not None:
                kind, frame = cut
                yield from self._events(kind, frame)
                left -= _cost(kind, frame)
                if left <= 0:
                    self.is_behind = True
                    return
        except FrameTooLargeError:
            raise self._broken(ErrorCodes.FRAME_SIZE_ERROR) from None

    def reread(self) -> Iterator[events.Event]:
        """Yield the events of a frame whose large headers have been read, and of those that came behind it."""
        stream, flags, _ = self._head
        yield from self._receive(frames.empty_headers_frame(stream, flags))
        yield from self.read()

    def end(self) -> None:
        """Forget what has come of frames and headers that will never be whole."""
        self._cutter, self._block = frames.FrameCutter(), []

    def _events(self, kind: int, frame: bytes) -> list[events.Event]:
        if self._block:
            return self._continue(kind, frame)
        if kind == frames.SETTINGS:
            self.has_settings = True
        elif not self.has_settings:
            raise self._broken(ErrorCodes.PROTOCOL_ERROR)
        elif kind == frames.GOAWAY:
            return [events.ConnectionTerminated()]
        elif kind == frames.HEADERS:
            self._head = _stream(frame), frame[4], len(frame)
            if not frame[4] & frames.END_HEADERS:
                self._block = [frame]
                return []
        elif kind == frames.DATA and _is_nothing(frame) and self._http2.is_receiving(_stream(frame)):
            return []
        elif kind == frames.CONTINUATION:
            raise BrokenRuleError(ErrorCodes.PROTOCOL_ERROR, 0)
        return self._receive(frame)

    def _continue(self, kind: int, frame: bytes) -> list[events.Event]:
        """Return the events of a request whose headers a frame continues, when they have come to their end.

        They go to `h2` in as few frames as possible, since it reads no more than 64. Raises BrokenRuleError.
        """
        stream, flags, size = self._head
        if kind != frames.CONTINUATION or _stream(frame) != stream:
            raise BrokenRuleError(ErrorCodes.PROTOCOL_ERROR, 0)
        if size > LONGEST_BLOCK:
            raise self._broken(ErrorCodes.PROTOCOL_ERROR)
        self._head = stream, flags, size + len(frame)
        self._block.append(frame[frames.HEAD :])
        if not frame[4] & frames.END_HEADERS:
            return []
        begin, *rest = self._block
        self._block = []
        return self._receive(begin + frames.continuation_frames(stream, b"".join(rest), BUFFER))

    def _receive(self, frame: bytes) -> list[events.Event]:
        """Return the events of a frame. Raises BrokenRuleError, and LargeBlockError."""
        try:
            return self._http2.receive_data(frame)
        except ProtocolError as error:
            is_unreadable = isinstance(error.__cause__, (HPACKError, IndexError))
            code = ErrorCodes.COMPRESSION_ERROR if is_unreadable else ErrorCodes(error.error_code)
            unsent = self._http2.data_to_send()[: -frames.GOAWAY_BYTES]
            raise BrokenRuleError(code, _stream(frame), str(error), unsent) from error

    def _broken(self, code: ErrorCodes) -> BrokenRuleError:
        return BrokenRuleError(code, self._head[0])


def _stream(frame: bytes) -> int:
    """Return the number of the stream that a frame is of."""
    return int.from_bytes(frame[5 : frames.HEAD])


def _is_nothing(frame: bytes) -> bool:
    """Report whether a part of a body has no bytes, and does not end it."""
    return len(frame) == frames.HEAD and not frame[4]


def _cost(kind: int, frame: bytes) -> int:
    """Return the bytes of headers that take as long to read as a frame, and to answer."""
    match kind:
        case frames.HEADERS:
            return _REQUEST + len(frame)
        case frames.CONTINUATION:
            return _FRAME + len(frame)
        case frames.DATA if _is_nothing(frame):
            return _NOTHING
        case _:
            return _FRAME
