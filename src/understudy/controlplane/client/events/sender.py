"""Sends events in the background, in order, so that recording one never holds anything up."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from understudy.machinery.errors import StatusError
from understudy.machinery.util.clock import Clock
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

LONGEST_QUEUE = 1000  # events; further ones are dropped. Upstream: `maxQueuedEvents`
TRIES, PAUSE_SECONDS = 12, 10.0  # while the server does not answer


class EventSender:
    """A queue of writes and the task that makes them. It is an asynchronous context manager; at its end what is left is
    dropped, as when the process ends.

    clock  by which it waits for a server that does not answer
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(LONGEST_QUEUE)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def send(self, write: Callable[[], Awaitable[None]]) -> None:
        """Let a write be made later. It is dropped if too many wait already."""
        try:
            self._queue.put_nowait(write)
        except asyncio.QueueFull:
            log.error("an event is dropped: %d are waiting", LONGEST_QUEUE)

    async def flush(self) -> None:
        """Wait until everything is sent."""
        await self._queue.join()

    async def _run(self) -> None:
        while True:
            write = await self._queue.get()
            try:
                await self._try(write)
            except Exception:  # an event is no reason to stop writing others
                log.exception("an event is dropped")
            finally:
                self._queue.task_done()

    async def _try(self, write: Callable[[], Awaitable[None]]) -> None:
        """Make a write, again while the server does not answer. What the server refuses is logged and dropped."""
        for attempt in range(TRIES):
            try:
                await write()
            except StatusError as why:
                log.log(logging.DEBUG if why.code == 409 else logging.WARNING, "the server refused an event: %s", why)
                return
            except ConnectionError as why:
                log.info("cannot write an event: %s", why)
                await sleep(self._clock, PAUSE_SECONDS * (random.random() if attempt == 0 else 1.0))
            else:
                return
