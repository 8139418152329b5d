"""Pipes and terminals as streams, whichever event loop runs."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from typing import Any

from understudy.apiserver.server.webhooks.streams.stream import PORTION


class Descriptor:
    """The end of a pipe, or the side of a terminal behind which its user sits."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self._is_closed = False

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self.number, PORTION)
            except BlockingIOError:
                await _ready(loop.add_reader, loop.remove_reader, self.number)
            except OSError as error:
                if error.errno != errno.EIO:  # nobody has the terminal any more
                    raise
                return b""

    async def write(self, data: bytes) -> None:
        """Write bytes. Raises BrokenPipeError if nobody reads them."""
        loop, rest = asyncio.get_running_loop(), memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self.number, rest) :]
            except BlockingIOError:
                await _ready(loop.add_writer, loop.remove_writer, self.number)

    def close(self) -> None:
        """Close it, unless it is closed."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self.number)


class Keyboard:
    """A terminal that is written to, which stays open at the end."""

    def __init__(self, terminal: Descriptor) -> None:
        self.read = terminal.read
        self.write = terminal.write

    def close(self) -> None:
        """Do nothing: what the terminal shows is still read."""


async def _ready(add: Callable[..., Any], remove: Callable[[int], Any], number: int) -> None:
    """Wait until the event loop calls back."""
    ready = asyncio.get_running_loop().create_future()
    add(number, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(number)
