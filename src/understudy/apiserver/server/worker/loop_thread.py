"""The thread in which a server's event loop runs, for code that blocks its own thread or event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from understudy.machinery.util.deep_recursion import start_deep_thread

FORKED = "the server runs in the process that this one was forked from: reach it over HTTP, by its `url`"
T = TypeVar("T")


class LoopThread:
    """Runs an event loop in a thread, with a deep stack: it goes on while a request recurses deep in another thread."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._thread = start_deep_thread(self._loop.run_forever, "understudy")
        self._process = os.getpid()

    @property
    def is_forked(self) -> bool:
        """Report whether this process was forked from the one with the thread, which a fork does not copy."""
        return os.getpid() != self._process

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its result. Raises RuntimeError in a forked process."""
        return self.begin(coroutine).result()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine in the thread. Raises RuntimeError in a forked process."""
        if self.is_forked:
            coroutine.close()
            raise RuntimeError(FORKED)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def end(self) -> None:
        """Stop the event loop and wait for the end of the thread."""
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
