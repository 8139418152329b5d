"""One HTTP/1.1 connection to a server, for scripts that send many requests, or requests that no library would send."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 60.0  # seconds that an answer may take
MAX_HEAD = 2**20  # bytes of an answer's head
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time: to close sends RST


class DroppedError(Exception):
    """The server closed the connection where an answer, or more of it, was due; or it took too long."""


class StatusError(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body[:300].decode(errors='replace')}")
        self.status = status


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes


@dataclass(frozen=True)
class _Head:
    status: int
    lines: bytes  # in lower case

    @property
    def closes(self) -> bool:
        """Report whether the server closes the connection after this answer."""
        return b"\r\nconnection: close" in self.lines or self.status == 101

    @property
    def is_chunked(self) -> bool:
        return b"\r\ntransfer-encoding: chunked" in self.lines

    @property
    def length(self) -> int:
        """Return the bytes of the body, -1 if the head does not say it."""
        if (at := self.lines.find(b"\r\ncontent-length: ")) < 0:
            return -1
        return int(self.lines[at + 18 : self.lines.index(b"\r\n", at + 18)])


class Connection:
    """A connection that is opened when it is needed, and again after an answer that closes it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._tls = ssl._create_unverified_context() if parts.scheme == "https" else None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, request: bytes, *, is_head: bool = False, stream_seconds: float | None = None) -> Answer:
        """Send a request and return the answer; of a watch the status, after `stream_seconds`, if they are given.

        Raises DroppedError, after PATIENCE seconds as well.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                head, reader = await self._begin(request)
                body, closes = b"", head.closes
                if is_head or head.status in (101, 204, 304):
                    pass
                elif head.is_chunked and head.status == 200 and stream_seconds is not None:
                    closes = True
                    try:
                        async with asyncio.timeout(stream_seconds):
                            body = b"".join([chunk async for chunk in _chunks(reader)])
                    except TimeoutError:
                        body = b""
                else:
                    body, closes = await _body(head, reader), closes or not (head.is_chunked or head.length >= 0)
        except (asyncio.IncompleteReadError, OSError) as why:
            self.close()
            raise DroppedError(repr(why)) from None
        if closes:
            self.close()
        return Answer(head.status, body)

    async def lines(self, request: bytes) -> AsyncIterator[bytes]:
        """Send a request and yield the lines of the answer, until the server ends it.

        Raises StatusError for an error, DroppedError if the connection is closed before the end.
        """
        try:
            head, reader = await self._begin(request)
            if head.status >= 400:
                raise StatusError(head.status, await _body(head, reader))
            rest = b""
            async for chunk in _chunks(reader):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line
            if rest:
                yield rest
        except (asyncio.IncompleteReadError, OSError) as why:
            raise DroppedError(repr(why)) from None

    async def _begin(self, request: bytes) -> tuple[_Head, asyncio.StreamReader]:
        """Send a request; return the head of the answer, and the stream that its body comes from."""
        if self._reader is None or self._writer is None:
            host, port = self._address
            self._reader, self._writer = await asyncio.open_connection(host, port, limit=MAX_HEAD, ssl=self._tls)
        self._writer.write(request)
        while True:
            lines = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            if (status := int(lines[9:12])) >= 200 or status == 101:
                return _Head(status, lines), self._reader

    def close(self, *, reset: bool = False) -> None:
        """Close the connection; with `reset` by RST, as a client that has died."""
        if self._writer is not None:
            if reset and (sock := self._writer.get_extra_info("socket")) is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._writer.transport.abort()
        self._reader = self._writer = None


async def _body(head: _Head, reader: asyncio.StreamReader) -> bytes:
    if head.length >= 0:
        return await reader.readexactly(head.length)
    if head.is_chunked:
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.read()


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks of a body."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
