"""Lets all connections of an event loop take turns, when much has come on several of them, and their clients wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from understudy.apiserver.server.http1.ends import EndingProtocol


class LargeParts:
    """Reads large parts of requests in the order in which they came, one piece in each turn of the event loop.

    The last piece of a head with hundreds of thousands of lines takes 0.1 seconds.
    """

    def __init__(self) -> None:
        self._waiting: deque[Iterator[None]] = deque()

    def add(self, pieces: Iterator[None]) -> None:
        """Read a part when it is its turn: each step of the iterator reads a piece."""
        self._waiting.append(pieces)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._read_next)

    def _read_next(self) -> None:
        is_read = True
        try:
            is_read = next(self._waiting[0], _END) is _END
        finally:
            if is_read:
                self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._read_next)


_END = object()


class PacedProtocol(EndingProtocol):
    """A connection that reads a lot of data in several turns, and whose client waits meanwhile.

    part  bytes that are read in one turn
    """

    part: int
    _receive: Callable[[bytes], None]

    def __init__(self, large_parts: LargeParts) -> None:
        self._large_parts = large_parts
        self._waiting_parts = 0  # of what has come, to be read when it is their turn
        self._is_paused = False

    def data_received(self, data: bytes) -> None:
        """Read what the client has sent, a lot of it in several turns. Until all is read nothing more comes."""
        if self.transport is None or (len(data) <= self.part and not self._waiting_parts):
            self._receive(data)
            return
        self._waiting_parts += 1
        self._regulate()
        self._large_parts.add(self._receive_in_turns(data))

    def _receive_in_turns(self, data: bytes) -> Iterator[None]:
        """Read what has come, and yield after each part of it, but nothing once the client is gone."""
        for begin in range(0, len(data), self.part):
            if self.transport is None:
                return
            self._receive(data[begin : begin + self.part])
            yield
        self._waiting_parts -= 1
        self._regulate()

    def _regulate(self) -> None:
        """Let the client wait as long as too much of what it has sent is not read yet."""
        raise NotImplementedError

    def _pause_reading(self, is_full: bool) -> None:
        """Read nothing more, or go on."""
        if self.transport is None or self.transport.is_closing():
            return
        self._is_paused = is_full
        if is_full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()
