"""Refuses requests while too many are answered. Upstream: `WithMaxInFlightLimit`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.filters.limits.limiter import TooManyRequestsError
from understudy.apiserver.server.filters.limits.watermark import (
    MUTATING,
    READ_ONLY,
    Watermark,
    Watermarks,
    inflight_family,
    kind_of,
)
from understudy.apiserver.server.pages.exposition import Family
from understudy.apiserver.server.pages.mux import Page
from understudy.machinery.auth.users import MASTERS

_RETRY_AFTER = 1  # seconds


class MaxInFlight:
    """Limits the requests of one server that are answered at once: those that read, and those that write.

    read_only, mutating  the most at once, 0 for any number
    now                  returns the time in seconds
    """

    def __init__(self, read_only: int, mutating: int, now: Callable[[], float]) -> None:
        self._limits = {READ_ONLY: read_only, MUTATING: mutating}
        self._executing = Watermarks(now)
        self._now = now
        self.pages: Mapping[str, Page] = {}

    def admit(self, request: Request) -> None:
        """Count a request until its `leave` is called. Raises TooManyRequestsError.

        Those that last as long as their client likes do not count, and administrators are never refused.
        """
        kind = kind_of(request.info.verb)
        limit, executing = self._limits[kind], self._executing[kind]
        if request.info.long_running or not limit:
            return
        if executing.number < limit:
            executing.add(1, self._now())
            request.leave = partial(self._leave, executing)
        elif MASTERS not in request.user.groups:
            raise TooManyRequestsError(_RETRY_AFTER)

    def _leave(self, executing: Watermark) -> None:
        executing.add(-1, self._now())

    async def adjust_periodically(self, _: Callable[[float], Awaitable[None]]) -> None:
        """Return at once: the limits stay as they are."""

    def families(self) -> Iterable[Family]:
        """Return the metrics of the requests that are answered."""
        return [inflight_family(self._executing)]
