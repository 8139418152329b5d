"""Leases of keys that etcd deletes after some time. Upstream: `lease_manager.go` in k8s.io/apiserver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

REUSED_FOR = 60  # seconds that a lease is given to new keys, at most
REUSED_PART = 20  # nor longer than this part of its time
KEYS = 1000  # that a lease is given to, at most


class Leases:
    """Gives keys that are to live equally long, and are written at about the same time, one lease.

    grant  makes a new lease of so many seconds, and returns its name
    """

    def __init__(self, grant: Callable[[int], Awaitable[int]], now: Callable[[], float] = monotonic) -> None:
        self._grant = grant
        self._now = now
        self._lock = asyncio.Lock()
        self._lease = 0
        self._end = 0.0
        self._keys = 0

    async def get(self, seconds: int) -> int:
        """Return a lease of this time or a little more."""
        async with self._lock:
            now, longer = self._now(), min(seconds // REUSED_PART, REUSED_FOR)
            self._keys += 1
            if not now + seconds < self._end <= now + seconds + longer or self._keys > KEYS:
                self._lease = await self._grant(seconds + longer)
                self._end, self._keys = now + seconds + longer, 1
            return self._lease
