"""Wait for what servers, controllers and threads do in the background.

A test waits for an event, never for a time in which it should have happened: machines may be slow.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, cast, overload

PATIENCE = 60.0  # seconds until an event that has not happened counts as missing
PAUSE = 0.01  # seconds between two looks

T = TypeVar("T")


@overload
async def until(read: Callable[[], Awaitable[T]], holds: Callable[[T], object] = bool) -> T: ...
@overload
async def until(read: Callable[[], T], holds: Callable[[T], object] = bool) -> T: ...
async def until(read: Callable[[], T | Awaitable[T]], holds: Callable[[T], object] = bool) -> T:
    """Call a function, which may be a coroutine, until a condition holds for its result; return that result.

    Fails with the last result after PATIENCE seconds.
    """
    end = time.monotonic() + PATIENCE
    while True:
        result = read()
        value = cast(T, await result if inspect.isawaitable(result) else result)
        if holds(value):
            return value
        assert time.monotonic() < end, value
        await asyncio.sleep(PAUSE)


def wait_until(read: Callable[[], T], holds: Callable[[T], object] = bool) -> T:
    """Call a function until a condition holds for its result; return that result. For tests without an event loop.

    Fails with the last result after PATIENCE seconds.
    """
    end = time.monotonic() + PATIENCE
    while not holds(value := read()):
        assert time.monotonic() < end, value
        time.sleep(PAUSE)
    return value


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine that does not end by itself; it is cancelled at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
