"""Ends connections for good: TLS would wait until the other side agrees, for half a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

_PATIENCE = 1.0  # seconds in which the other side may read what was sent, and as many for the event loop to close
_PAUSE = 0.001


class Ending(Protocol):
    """A connection that is to end."""

    @property
    def is_closed(self) -> bool:
        """Report whether the event loop has closed the connection."""

    def has_unsent(self) -> bool:
        """Report whether some of what was sent has not been written."""

    def end(self) -> None:
        """End the connection now, unless it is closed. What is unsent is lost."""


class EndingProtocol(asyncio.Protocol):
    """The protocol of a connection that can be ended."""

    transport: asyncio.Transport | None = None
    is_closed = False

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the event loop has closed the connection."""
        self.is_closed = True

    def has_unsent(self) -> bool:
        """Report whether some of what was sent has not been written."""
        return self.transport is not None and self.transport.get_write_buffer_size() > 0

    def end(self) -> None:
        """End the connection now, unless it is closed. What is unsent is lost."""
        if self.transport is not None:
            self.transport.abort()


async def end_connections(connections: Iterable[Ending]) -> None:
    """End connections for good, each when what was sent on it has been written, at the latest after a second.

    The event loop must not end before it has closed them: uvloop's `close` would fail.
    """
    left, clock = list(connections), asyncio.get_running_loop().time
    late = clock() + _PATIENCE
    while left and clock() < late + _PATIENCE:
        await asyncio.sleep(_PAUSE)  # the loop writes what has just been sent, and closes what has been ended
        left = [each for each in left if not each.is_closed]
        for each in left:
            if clock() >= late or not each.has_unsent():
                each.end()
