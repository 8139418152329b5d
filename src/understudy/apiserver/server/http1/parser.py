"""Cuts what a client sends into requests, as Go's `net/http` does: it accepts much that HTTP libraries refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from understudy.apiserver.server.http1.body import BUFFER, Body, ChunkedReader, SizedReader
from understudy.apiserver.server.http1.head import CHUNKED, Head, HeadReader, RefusedError, read_plain_head
from understudy.machinery.errors import without_frames

HEADER_TIMEOUT = 32.0  # seconds that the head of a request may take: kube-apiserver's `ReadHeaderTimeout`
_HEAD_END = b"\r\n\r\n"
_NEWLINES = b"\r\n"
_MAX_NEWLINES = 4  # that may follow the body of a POST: some old clients send too many bytes

# A request, or why it is refused, and the body.
Received = tuple[Head | RefusedError, Body]


def _do_nothing() -> None:
    """Do nothing when a head takes too long or a body has been read: the connection has ended."""


NO_BODY = Body(lambda: None)
NO_BODY.is_complete = True


class RequestParser:
    """The parser of one connection.

    give_up  is called when a head takes too long
    drained  is called when a body has been read of which so much waited that the client must wait
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, give_up: Callable[[], None], drained: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._give_up = give_up
        self._drained = drained
        self._head: HeadReader | None = None  # reads the head that has begun, unless it came in one piece
        self._body: SizedReader | ChunkedReader | None = None
        self._tail: bytearray | None = None  # what follows a request for a WebSocket: it may be no HTTP
        self._stopped = False  # what follows is not read
        self._newlines = 0  # line ends that may precede the request
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> list[Received]:
        """Read requests from data and return them. A refused one is the last.

        Behind a request for a WebSocket nothing is read until `resume` or `take_tail`.
        """
        requests: list[Received] = []
        start = 0
        try:
            while start < len(data) and not self._stopped:
                if self._body is not None:
                    start = self._read_body(data, start)
                elif self._tail is None:
                    start = self._read_head(data, start, requests)
                else:
                    self._tail += data[start:]
                    break
        except RefusedError as refusal:
            self._stopped = True
            self._stop_timer()
            requests.append((without_frames(refusal), NO_BODY))
        return requests

    @property
    def has_begun_head(self) -> bool:
        """Report whether a part of a head has come, and not the rest; a refused one has none."""
        return self._head is not None and not self._stopped

    @property
    def is_full(self) -> bool:
        """Report whether so much waits to be read that the client must wait."""
        return self._body.body.is_full if self._body is not None else len(self._tail or b"") > BUFFER

    def resume(self) -> list[Received]:
        """Read HTTP again behind a request whose WebSocket was refused; return the requests that came meanwhile."""
        tail = self.take_tail()
        return self.feed(tail) if tail else []

    def take_tail(self) -> bytes:
        """Return the bytes that came behind a request for a WebSocket."""
        tail, self._tail = self._tail or b"", None
        return bytes(tail)

    def _read_head(self, data: bytes, start: int, requests: list[Received]) -> int:
        """Read from data[start:] to the end of a head, and return where data goes on. Raises RefusedError."""
        while self._newlines and start < len(data) and data[start] in _NEWLINES:
            self._newlines -= 1
            start += 1
        head: Head | None = None
        if self._head is None:
            end = data.find(_HEAD_END, start) + len(_HEAD_END)
            if end >= len(_HEAD_END):
                head = read_plain_head(data, start, end)
        if head is not None:
            start = end
        elif start < len(data):
            head, start = self._read_odd_head(data, start)
        if head is not None:
            requests.append((head, self._begin_body(head)))
        return start

    def _read_odd_head(self, data: bytes, start: int) -> tuple[Head | None, int]:
        if self._head is None:
            self._head = HeadReader()
            self._newlines = 0
            self._timer = self._loop.call_later(HEADER_TIMEOUT, self._give_up)
        head, start = self._head.read(data, start)
        if head is not None:
            self._head = None
            self._stop_timer()
        return head, start

    def end(self) -> None:
        """Read nothing more, and call nobody."""
        self._stopped = True
        self._stop_timer()
        self._give_up = self._drained = _do_nothing
        self._body = None  # it calls who reads

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_body(self, head: Head) -> Body:
        """Return the body behind a head, which is read from now on."""
        if head.upgrades:
            self._tail = bytearray()
        self._newlines = _MAX_NEWLINES if head.method == "POST" else 0
        if not head.length:
            return NO_BODY
        body = Body(self._drained, head.length)
        self._body = ChunkedReader(body) if head.length == CHUNKED else SizedReader(body)
        return body

    def _read_body(self, data: bytes, start: int) -> int:
        assert self._body is not None
        start = self._body.read(data, start)
        if self._body.body.is_complete:
            self._stopped = bool(self._body.body.error)
            self._body = None
        return start
