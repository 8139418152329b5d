"""Ends connections for good: TLS would wait until the other side agrees, for half a minute."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
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


class LentSocket(socket.socket):
    """A socket that an event loop closes by its file descriptor.

    uvloop does not tell this object if the peer resets the connection while it is made. The descriptor, which by then
    may be that of another file, must neither be closed nor used.
    """

    def __init__(self, *address: int) -> None:
        super().__init__(*address)
        self._opened = self._inode()

    def _inode(self) -> int:
        return 0 if sys.platform == "win32" else os.fstat(self.fileno()).st_ino  # there is no uvloop for Windows

    def __del__(self) -> None:
        self.detach()

    @property
    def is_closed(self) -> bool:
        """Report whether the event loop has closed the connection."""
        try:
            return self._inode() != self._opened
        except OSError:
            return True

    def has_unsent(self) -> bool:
        """Return False: nothing is written any more when a session has been closed."""
        return False

    def end(self) -> None:
        """End the connection now, unless it is closed."""
        if not self.is_closed:
            with suppress(OSError):
                self.shutdown(socket.SHUT_RDWR)


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
