"""A stream of a connection that carries several, and the connection below: who reads a stream slowly lets all wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

_LINGER = 1.0  # seconds that the other side gets to read what was sent, and to close the connection itself
PORTION = 32 * 1024  # bytes that are passed on at once, as many as by Go's `io.Copy`


class Wire(Protocol):
    """The connection that streams are sent on."""

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the other side reads too slowly. Raises ConnectionResetError if it is gone."""

    def send_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the other side is gone."""

    def hold(self, is_full: bool) -> None:
        """Let the other side wait, or go on: too much of what it has sent is not read yet."""


class Stream(Protocol):
    """Bytes in both directions."""

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises ConnectionResetError if the other side is gone."""

    def close(self) -> None:
        """Send no more."""


async def copy(source: Stream, target: Stream) -> None:
    """Write all that a stream reads to another one, and close that at the end."""
    while data := await source.read():
        await target.write(data)
    target.close()


async def read_all(source: Stream) -> bytes:
    """Return all that a stream reads."""
    parts = []
    while data := await source.read():
        parts.append(data)
    return b"".join(parts)


@asynccontextmanager
async def beside(*jobs: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Do some jobs beside a block, and stop them at its end. Raises as they do, but for connections that broke off."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        await _stop(tasks)


async def until_first(*jobs: Coroutine[Any, Any, object]) -> None:
    """Do some jobs until one of them is done, and stop the others. Raises as they do, but for broken connections."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _stop(tasks)


async def together(*jobs: Coroutine[Any, Any, object]) -> None:
    """Do some jobs until all are done. Raises as the first one that fails, and stops the others."""
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _stop(tasks)


async def _stop(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception) and not isinstance(result, OSError):
            raise result


async def linger(wire: Wire, ended: asyncio.Event) -> None:
    """Wait until a client has read what was sent and closes the connection; closing it before could drop some.

    ended  is set when nothing more comes of the client
    """
    wire.hold(False)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            await ended.wait()


class Inboxes:
    """Keeps what has come on the streams of a wire until it is read; the other side waits while one is full."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._full = 0

    def new(self) -> asyncio.StreamReader:
        """Return the inbox of another stream."""
        inbox = asyncio.StreamReader(PORTION)
        inbox.set_transport(_Holding(self._count))
        return inbox

    def _count(self, change: int) -> None:
        self._full += change
        if self._full == max(change, 0):  # the first one is full, or none is any more
            self._wire.hold(self._full > 0)


class _Holding(asyncio.ReadTransport):
    """The transport below an inbox, which is told to pause."""

    def __init__(self, count: Callable[[int], None]) -> None:
        super().__init__()
        self._count = count

    def pause_reading(self) -> None:
        self._count(1)

    def resume_reading(self) -> None:
        self._count(-1)


async def close_writer(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until the other side has agreed, which takes TLS a message each way."""
    writer.close()
    try:
        with suppress(OSError):  # broken off, or no answer in time
            async with asyncio.timeout(_LINGER):
                await writer.wait_closed()
    finally:
        writer.transport.abort()  # else it would outlive the event loop


class SocketWire:
    """A connection of TCP that streams are sent on."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._room = asyncio.Event()
        self._room.set()

    async def receive(self, take: Callable[[bytes], None]) -> None:
        """Give all that comes to a function, as fast as that is read. Raises OSError if the other side broke off."""
        while data := await self._reader.read(PORTION):
            take(data)
            await self._room.wait()

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while the other side reads too slowly. Raises ConnectionResetError if it is gone."""
        self._writer.write(data)
        await self._writer.drain()

    def send_now(self, data: bytes) -> None:
        """Send bytes without waiting, or nothing if the other side is gone."""
        if not self._writer.is_closing():
            self._writer.write(data)

    def hold(self, is_full: bool) -> None:
        """Let the other side wait, or go on."""
        if is_full:
            self._room.clear()
        else:
            self._room.set()


class SocketStream:
    """A connection of TCP as a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end. Raises OSError if the other side broke off."""
        return await self._reader.read(PORTION)

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side reads too slowly."""
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        """Send no more, if the connection can be closed in one direction."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def end(self) -> None:
        """Close the connection, once all has been sent."""
        self._writer.close()
