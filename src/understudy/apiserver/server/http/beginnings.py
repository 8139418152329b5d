"""Lets requests that come at once begin a few in each turn of the event loop, so that others have theirs between."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter

from understudy.apiserver.storage.turns import SLICE

AT_ONCE = 8  # requests that have waited and begin in one turn


class Beginnings:
    """The requests of one event loop that are about to begin.

    What a request does before it first waits is done in one go: a watch takes 0.3 ms, and hundreds of them begin anew
    together when a server is reset. In one turn they begin for the time of a slice; those behind wait for the next.
    """

    def __init__(self) -> None:
        self._until = 0.0  # which time requests may begin in this turn
        self._is_counting = False  # requests have begun in this turn
        self._waiting: deque[asyncio.Future[None]] = deque()

    def must_wait(self) -> bool:
        """Report whether a request has to wait for a later turn; if not it has begun."""
        if self._is_counting:
            return bool(self._waiting) or perf_counter() >= self._until
        self._count()
        return False

    async def wait(self) -> None:
        """Wait for a turn in which the request may begin."""
        self._waiting.append(turn := asyncio.get_running_loop().create_future())
        await turn

    def _count(self) -> None:
        """Begin to count the time of requests until the next turn of the loop."""
        self._until, self._is_counting = perf_counter() + SLICE, True
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Let the next ones begin that have waited."""
        self._is_counting = False
        if not self._waiting:
            return
        for _ in range(min(AT_ONCE, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():  # else its client has gone
                turn.set_result(None)
        self._count()
