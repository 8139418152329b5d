"""Cuts what a client sends into requests, in place of aiohttp's parser: that one refuses much that Go's server accepts.

aiohttp's protocol (`web.RequestHandler`) feeds it, and expects the methods of its own parser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

from understudy.apiserver.server.http1.body import Body, ChunkedReader, SizedReader
from understudy.apiserver.server.http1.head import CHUNKED, Head, HeadReader, RefusedError, read_plain_head

HEADER_TIMEOUT = 32.0  # seconds that the head of a request may take: kube-apiserver's `ReadHeaderTimeout`
_HEAD_END = b"\r\n\r\n"
_NEWLINES = b"\r\n"
_MAX_NEWLINES = 4  # that may follow the body of a POST: some old clients send too many bytes

Messages = list[tuple[RawRequestMessage | _ErrInfo, StreamReader]]


class RequestParser:
    """The parser of one connection."""

    def __init__(self, protocol: BaseProtocol, loop: asyncio.AbstractEventLoop, give_up: Callable[[], None]) -> None:
        self._protocol = protocol
        self._loop = loop
        self._give_up = give_up  # is called when a head takes too long
        self._head: HeadReader | None = None  # reads the head that has begun, unless it came at once
        self._body: SizedReader | ChunkedReader | None = None
        self._upgrades = False  # the request asks for a WebSocket: what follows it may be no HTTP
        self._stopped = False  # what follows is not read
        self._newlines = 0  # line ends that may precede the request
        self._timer: asyncio.TimerHandle | None = None

    def feed_data(self, data: bytes) -> tuple[Messages, bool, bytes]:
        """Read requests from data; return them with their bodies, whether HTTP ends behind them, and what is left.

        A refused request is the last.
        """
        messages: Messages = []
        start = 0
        try:
            while start < len(data) and not self._stopped:
                start = self._read_head(data, start, messages) if self._body is None else self._read_body(data, start)
                if self._upgrades and self._body is None:
                    return messages, True, data[start:]
        except RefusedError as refusal:
            self._stopped = True
            self._head_ended()
            messages.append((_ErrInfo(400, refusal, str(refusal)), EMPTY_PAYLOAD))
        return messages, False, b""

    def _read_head(self, data: bytes, start: int, messages: Messages) -> int:
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
            messages.append((head.message, self._begin_body(head)))
        return start

    def _read_odd_head(self, data: bytes, start: int) -> tuple[Head | None, int]:
        if self._head is None:
            self._head = HeadReader()
            self._newlines = 0
            self._timer = self._loop.call_later(HEADER_TIMEOUT, self._give_up)
        head, start = self._head.read(data, start)
        if head is not None:
            self._head_ended()
        return head, start

    def _head_ended(self) -> None:
        self._head = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin_body(self, head: Head) -> StreamReader:
        """Return the body behind a head, which is read from now on."""
        message = head.message
        self._upgrades = message.upgrade
        self._newlines = _MAX_NEWLINES if message.method == "POST" else 0
        if not head.length:
            return EMPTY_PAYLOAD
        body = Body(self._protocol, self._loop)
        self._body = ChunkedReader(body) if head.length == CHUNKED else SizedReader(body, head.length)
        return body

    def _read_body(self, data: bytes, start: int) -> int:
        assert self._body is not None
        start = self._body.read(data, start)
        if self._body.body.is_eof():
            self._stopped = bool(self._body.body.error)
            self._body = None
        return start

    def set_upgraded(self, upgraded: bool) -> None:
        """Read HTTP again behind a request whose WebSocket was refused."""
        self._upgrades = upgraded

    def pause_reading(self) -> None:
        """Do nothing: what came in one piece is read to its end, and the protocol pauses the connection."""

    def message_consumed(self) -> None:
        """Do nothing: the protocol counts the requests that wait, and pauses the connection."""
