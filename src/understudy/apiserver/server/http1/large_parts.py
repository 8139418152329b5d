"""Lets all connections of an event loop take turns, when much has come on several of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator


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
