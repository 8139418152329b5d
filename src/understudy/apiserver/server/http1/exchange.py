"""One request of a connection, and the way its answer goes back: whole, in chunks, or as another protocol."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from multidict import CIMultiDict, istr

from understudy.apiserver.endpoints.request import Delivery
from understudy.apiserver.server.http1.body import Body
from understudy.apiserver.server.http1.connection import Connection, ImpairedConnection, reset
from understudy.apiserver.server.http1.head import (
    CONNECTION,
    CONTENT_LENGTH,
    HTTP_1_0,
    HTTP_1_1,
    TRANSFER_ENCODING,
    Head,
)
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.golang.times import http_date

# Go's phrases for a status (`http.StatusText`); Python words three of them differently from 3.13 on, one always.
PHRASES = {
    **{status.value: status.phrase for status in HTTPStatus},
    418: "I'm a teapot",
    413: "Request Entity Too Large",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
}
WITHOUT_BODY = (204, 304)
DATE = istr("Date")
date_of = lru_cache(1)(http_date)  # the value of a Date header, of which there is one a second
_LARGE = 16 * 1024  # bytes of a body that is not copied once more to follow its head
_PARTS = 8  # of a large body that are sent at once


class Exchange(ABC):
    """A request, and its answer.

    closes     whether the connection closes behind the answer
    has_begun  whether the head of the answer has been sent
    """

    __slots__ = ("body", "closes", "has_begun", "headers", "method", "target", "version")

    def __init__(self, head: Head, body: Body) -> None:
        self.method, self.target, self.version, self.headers, _, self.closes, _ = head
        self.body = body
        self.has_begun = False

    @property
    @abstractmethod
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""

    def peer(self) -> str:
        """Return the address of the client."""
        name = None if self.transport is None else self.transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @abstractmethod
    async def send(self, status: int, headers: CIMultiDict[str], parts: Sequence[bytes] = (b"",)) -> None:
        """Send a whole answer, whose body is in one part or more. One to HEAD has no body."""

    @abstractmethod
    async def send_continue(self) -> None:
        """Tell the client to send its body."""

    @abstractmethod
    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        """Send the head of an answer whose body comes piece by piece."""

    @abstractmethod
    async def send_chunk(self, data: bytes) -> None:
        """Send the next bytes of a body."""

    def send_chunk_now(self, data: bytes) -> bool:
        """Send the next bytes of a body if the client has room for them now; report whether they are sent."""
        return False

    @abstractmethod
    async def end(self) -> None:
        """End a body that came piece by piece."""

    @abstractmethod
    def impair(self, delivery: Delivery) -> None:
        """Let the answer be sent slowly, or only in part."""

    @abstractmethod
    def reset(self) -> None:
        """Break off the answer."""


class Http1Exchange(Exchange):
    """A request of HTTP/1.1 or 1.0, and its answer.

    in_chunks  whether its body comes in chunks, of which there may be more
    """

    __slots__ = ("_connection", "in_chunks")

    def __init__(self, connection: Connection, head: Head, body: Body) -> None:
        super().__init__(head, body)
        self._connection = connection
        self.in_chunks = False

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport of the connection, None if the client went away."""
        return self._connection.transport

    async def send(self, status: int, headers: CIMultiDict[str], parts: Sequence[bytes] = (b"",)) -> None:
        """Send a whole answer, whose body is in one part or more. One to HEAD has no body."""
        if self.method == "HEAD" or status in WITHOUT_BODY:
            parts = (b"",)
        else:
            headers[CONTENT_LENGTH] = str(sum(map(len, parts)))
        head = self._head(status, headers)
        if len(parts) == 1 and len(parts[0]) <= _LARGE:
            return await self._connection.write(head + parts[0])
        await self._connection.write(head, *parts[:_PARTS])
        turns = Turns()  # of all clients that get large answers, however fast they read
        for at in range(_PARTS, len(parts), _PARTS):
            if at == _PARTS or turns.is_over:
                await turns.next()
            await self._connection.write(*parts[at : at + _PARTS])
        return None

    def send_now(self, status: int, headers: CIMultiDict[str], content: bytes) -> None:
        """Send a whole answer without waiting. One to HEAD has no body."""
        headers[CONTENT_LENGTH] = str(len(content))
        self._connection.write_now(self._head(status, headers) + (b"" if self.method == "HEAD" else content))

    async def send_continue(self) -> None:
        """Tell the client to send its body."""
        await self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send_page(self, page: str) -> None:
        """Send an answer that is written already, from its status line on, and close the connection."""
        self.closes = self.has_begun = True
        await self._connection.write(page.encode())
        await self._connection.end_writing()

    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        """Send the head of an answer whose body comes in chunks; HTTP/1.0 knows none, and ends with the connection."""
        if self.version == HTTP_1_1:
            headers[TRANSFER_ENCODING] = "chunked"
            self.in_chunks = True
        else:
            self.closes = True
        await self._connection.write(self._head(status, headers))

    def send_chunk(self, data: bytes) -> Coroutine[Any, Any, None]:
        """Send the next bytes of a body."""
        return self._connection.write(_chunk(data) if self.version == HTTP_1_1 else data)

    def send_chunk_now(self, data: bytes) -> bool:
        return self._connection.write_if_ready(_shared_chunk(data) if self.version == HTTP_1_1 else data)

    async def end(self) -> None:
        """End a body in chunks."""
        self.in_chunks = False
        if self.version == HTTP_1_1:
            await self._connection.write(b"0\r\n\r\n")

    async def upgrade(self, headers: Mapping[str, str], receive: Callable[[bytes], None]) -> None:
        """Switch to another protocol: `receive` gets what the client sends, `send_raw` sends."""
        self.closes = True
        await self._connection.write(_encoded("HTTP/1.1 101 Switching Protocols", headers.items()))
        self._connection.upgrade(receive)

    async def send_raw(self, data: bytes) -> None:
        """Send bytes of another protocol."""
        await self._connection.write(data)

    def impair(self, delivery: Delivery) -> None:
        """Let the answer be sent slowly, or only in part."""
        self._connection = ImpairedConnection(self._connection, delivery)

    def reset(self) -> None:
        """Reset the connection, without a word about its end."""
        self.closes = True
        reset(self._connection.transport)

    def send_raw_now(self, data: bytes) -> None:
        """Send bytes of another protocol without waiting: nothing more is read of a client that reads too slowly."""
        self._connection.write_now(data)

    def hold(self, is_full: bool) -> None:
        """Let a client that speaks another protocol wait, or go on: too much of what it has sent is not read yet."""
        self._connection.hold(is_full)

    def _head(self, status: int, headers: CIMultiDict[str]) -> bytes:
        self.has_begun = True
        headers[DATE] = date_of(int(time.time()))
        if self.closes != (self.version == HTTP_1_0):  # each version says what the other means without a word
            headers[CONNECTION] = "close" if self.closes else "keep-alive"
        line = f"HTTP/{self.version[0]}.{self.version[1]} {status} {PHRASES.get(status, '')}"
        return _encoded(line, headers.items())


def _chunk(data: bytes) -> bytes:
    """Return bytes of a body as HTTP/1.1 sends them."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_shared_chunk = lru_cache(4)(_chunk)  # events, which all watchers get one after the other


def _encoded(line: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return the bytes of a head. Raises ValueError for a header with a line end, which would begin another one."""
    lines = [line, *[f"{name}: {value}" for name, value in headers]]
    text = "\r\n".join(lines)
    if text.count("\n") >= len(lines) or text.count("\r") >= len(lines):
        raise ValueError(f"line end in a header: {text!r}")
    return f"{text}\r\n\r\n".encode("utf-8", "surrogateescape")
