"""Waiting for a watch of etcd to have told everything up to a revision, and asking it whether it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count

FIRST, LATER = 0.005, 0.1  # seconds until a watch is asked, and asked again


class Progress:
    """The revision up to which everything is known, and who waits for a later one.

    ask  asks the watch, if there is one
    """

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self.revision = 0
        self._ask = ask
        self._expected = 0
        self._asking: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = count()

    def advance(self, revision: int) -> None:
        """Know everything up to a revision."""
        self.revision = revision
        while self._waiting and self._waiting[0][0] <= revision:
            future = heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def expect(self, revision: int) -> None:
        """See to it that a revision is reached, even if none of its writes is one that is watched."""
        self._expected = max(self._expected, revision)
        if self.revision < revision and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask_until_reached())

    async def _ask_until_reached(self) -> None:
        pause = FIRST  # mostly the writes come by themselves
        while True:
            await asyncio.sleep(pause)
            if self.revision >= self._expected:
                return
            await self._ask()
            pause = LATER

    async def reach(self, revision: int, seconds: float) -> None:
        """Wait until everything up to a revision is known. Raises TimeoutError."""
        if revision > self.revision:
            future = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (revision, next(self._count), future))
            self.expect(revision)
            await asyncio.wait_for(future, seconds)

    def close(self) -> None:
        """Ask no more; those who wait are cancelled."""
        if self._asking is not None:
            self._asking.cancel()
        for *_, future in self._waiting:
            future.cancel()
