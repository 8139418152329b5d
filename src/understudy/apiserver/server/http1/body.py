"""Reads the body of a request: bytes of a known number, or chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from understudy.apiserver.server.http1.head import FieldReader, MalformedHeaderError
from understudy.machinery.util.regex import regex

BUFFER = 64 * 1024  # bytes that may wait to be read; then the client must wait
_MAX_LINES = 4096  # bytes of the line in front of a chunk, and of all trailers: the buffer of Go's server
_MAX_EXCESS = 16 * 1024  # bytes that chunks may take besides their data
_CRLF = b"\r\n"
_HEXADECIMAL = regex(b"[0-9A-Fa-f]*")
_PLAIN_SIZE = regex(rb"([0-9A-Fa-f]{1,6})(?:;[^\r\n]{0,64})?\r\n")  # the line in front of most chunks


class Body:
    """The body of a request, as far as it has come.

    length       bytes that it has, or CHUNKED
    is_complete  whether all has come, or what follows cannot be read
    error        why the body cannot be read to its end, "" if it can
    """

    __slots__ = ("_drained", "_parts", "_size", "_waiter", "error", "is_complete", "length")

    def __init__(self, drained: Callable[[], None], length: int = 0) -> None:
        """Make a body of which nothing has come; `drained` is called when one that was full has been read."""
        self.length = length
        self._drained = drained
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self.is_complete = False
        self.error = ""

    @property
    def is_full(self) -> bool:
        """Report whether so much waits to be read that the client must wait."""
        return self._size > BUFFER

    def feed(self, data: bytes, complete: bool = False) -> None:
        """Add what has come; `complete` if nothing follows."""
        if data:
            self._parts.append(data)
            self._size += len(data)
        self.is_complete = complete
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def read(self) -> bytes:
        """Return the bytes that came since the last call: at least one, or b"" at the end."""
        while not self._parts and not self.is_complete:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def take(self) -> bytes:
        """Return the bytes that came since the last call, without waiting for more."""
        data, was_full = b"".join(self._parts), self.is_full
        self._parts.clear()
        self._size = 0
        if was_full:
            self._drained()
        return data

    async def read_all(self) -> bytes:
        """Return all that has not been read yet."""
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)


class SizedReader:
    """Reads a body whose length in bytes is known."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._left = body.length

    def read(self, data: bytes, start: int) -> int:
        """Read from data[start:], and return where it goes on behind the body."""
        part = data[start : start + self._left]
        self._left -= len(part)
        self.body.feed(part, complete=not self._left)
        return start + len(part)


class _MalformedChunkError(Exception):
    """A part of a chunked body that is no chunk; the text is Go's."""


class ChunkedReader:
    """Reads a body in chunks, and its trailers. Upstream: `chunkedReader`, `body.readTrailer`."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._data = b""
        self._at = 0  # where data goes on
        self._parts: list[bytes] = []
        self._excess = 0
        self._reading = self._read()

    def read(self, data: bytes, start: int) -> int:
        """Read from data[start:], and return where it goes on behind the body."""
        self._data, self._at = data, start
        ended = False
        try:
            next(self._reading)
        except StopIteration:
            ended = True
        except (_MalformedChunkError, MalformedHeaderError) as error:
            self.body.error = str(error)
            ended = True
        self.body.feed(b"".join(self._parts), complete=ended)
        self._parts.clear()
        self._data = b""
        return self._at

    def _read(self) -> Generator[None, None, None]:
        while left := (yield from self._read_size()):
            while left:
                part = yield from self._take(left)
                self._parts.append(part)
                left -= len(part)
            end = yield from self._take(1)
            if end + (yield from self._take(1)) != _CRLF:
                raise _MalformedChunkError("malformed chunked encoding")
        yield from self._read_trailers()

    def _take_whole_chunks(self) -> None:
        """Read the chunks that the data holds from begin to end, as far as they are plain: there may be a million."""
        data, at, parts = self._data, self._at, self._parts
        while line := _PLAIN_SIZE.match(data, at):
            begin, size = line.end(), int(line[1], 16)
            end = begin + size
            if not size or data[end : end + 2] != _CRLF:
                break
            if begin - at > 16 or self._excess:
                self._count_excess(begin - at, size)
            parts.append(data[begin:end])
            at = self._at = end + 2

    def _count_excess(self, length: int, size: int) -> None:
        """Refuse chunks whose lines, of some length in bytes, are too long for the bytes that they hold."""
        self._excess = max(self._excess + length - 16 - 2 * size, 0)
        if self._excess > _MAX_EXCESS:
            raise _MalformedChunkError("chunked encoding contains too much non-data")

    def _read_size(self) -> Generator[None, None, int]:
        """Read the line in front of the next chunk that is not read as a whole."""
        self._take_whole_chunks()
        line = yield from self._read_line("header line too long", _MAX_LINES)
        if _CRLF[:1] not in line:
            raise _MalformedChunkError("chunked line ends with bare LF")
        if line.index(_CRLF[:1]) != len(line) - 2:
            raise _MalformedChunkError("invalid CR in chunked line")
        digits = line[:-2].rstrip(b" \t").partition(b";")[0]
        if not digits:
            raise _MalformedChunkError("empty hex number for chunk length")
        valid = _HEXADECIMAL.match(digits)
        if len(digits) > 16 and valid and valid.end() >= 17:
            raise _MalformedChunkError("http chunk length too large")
        if valid is None or valid.end() < len(digits):
            raise _MalformedChunkError("invalid byte in chunk length")
        size = int(digits, 16)
        self._count_excess(len(line), size)
        return size

    def _read_trailers(self) -> Generator[None, None, None]:
        fields, left = FieldReader(), _MAX_LINES
        while True:
            line = yield from self._read_line("http: suspiciously long trailer after chunked body", left)
            left -= len(line)
            if fields.add(line[:-1].removesuffix(b"\r").decode("utf-8", "surrogateescape")):
                return

    def _read_line(self, too_long: str, limit: int) -> Generator[None, None, bytes]:
        """Read a line with its end. Raises _MalformedChunkError with the text if it has more bytes than the limit."""
        line = b""
        while line[-1:] != b"\n":
            if len(line) >= limit:
                raise _MalformedChunkError(too_long)
            yield from self._more()
            end = self._data.find(b"\n", self._at) + 1
            line += yield from self._take(min(end - self._at if end else limit, limit - len(line)))
        return line

    def _take(self, limit: int) -> Generator[None, None, bytes]:
        """Read at least one byte, and at most as many as the limit."""
        yield from self._more()
        part = self._data[self._at : self._at + limit]
        self._at += len(part)
        return part

    def _more(self) -> Generator[None, None, None]:
        """Wait until there is data."""
        while self._at == len(self._data):
            yield
