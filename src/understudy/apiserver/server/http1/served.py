"""A connection of a client, whichever version of HTTP it speaks: idle ones are closed, and all end with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet

from understudy.apiserver.server.http1.ends import end_connections
from understudy.apiserver.server.http1.exchange import Exchange
from understudy.apiserver.server.http1.large_parts import LargeParts, PacedProtocol

Handler = Callable[[Exchange], Awaitable[None]]
IDLE_TIMEOUT = 90.0  # seconds after which an unused connection is closed: kube-apiserver's `IdleTimeout`


class ServedProtocol(PacedProtocol):
    """A connection that is closed when no request has come for a while."""

    def __init__(self, large_parts: LargeParts) -> None:
        super().__init__(large_parts)
        self._loop = asyncio.get_running_loop()
        self._idle_from = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def _is_busy(self) -> bool:
        """Report whether a request is being answered."""
        raise NotImplementedError

    def _close_if_idle(self) -> None:
        """Close the connection, unless a request is being answered."""
        raise NotImplementedError

    def _check_idle(self) -> None:
        """Close the connection if no request has come for a while; else look again later."""
        left = IDLE_TIMEOUT if self._is_busy() else self._idle_from + IDLE_TIMEOUT - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check_idle)
        else:
            self._close_if_idle()

    def answer_with(self, handle: Handler) -> None:
        """Let another handler answer the requests to come."""
        raise NotImplementedError

    @property
    def answering(self) -> AbstractSet[Exchange]:
        """Return the requests that are being answered, but for those that have become another protocol."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Accept no more requests, and close the connection when those that are being answered have been."""
        raise NotImplementedError

    async def shutdown(self, grace: float) -> None:
        """Close the connection. Requests that are being answered get some seconds to finish."""
        raise NotImplementedError


async def shut_down(connections: AbstractSet[ServedProtocol], grace: float) -> None:
    """End all connections; requests that are being answered get some seconds to finish."""
    await asyncio.gather(*[connection.shutdown(grace) for connection in connections])
    await end_connections(connections)
