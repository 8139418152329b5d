"""Lets all connections of an event loop take turns, when much has come on several of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class LargeParts:
    """Reads large parts of requests in the order in which they came, one in a turn of the running event loop.

    The last part of a head with hundreds of thousands of lines takes 0.1 seconds.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, read: Callable[[], None]) -> None:
        """Call a function that reads a part, when it is its turn."""
        self._waiting.append(read)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._read_next)

    def _read_next(self) -> None:
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._read_next)
