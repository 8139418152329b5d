"""The event loop as a thread beside it uses it: functions are called on it, or it stands still for a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 1.0  # seconds after which a thread that waits for the loop asks whether it is closed


class _ThisThread(threading.local):
    """Notes how often this thread has stopped the loop, one within another, and what lets it go on."""

    def __init__(self) -> None:
        self.stopped = 0
        self.done = threading.Event()


class LoopFromThread:
    """An event loop, for threads beside it that work for one request; made on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._loop_thread = threading.get_ident()
        self._thread = _ThisThread()

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on the event loop, and return its result or raise what it raises.

        Raises RuntimeError once the loop is closed.
        """
        # What the thread has begun, such as a watch, goes on on the loop.
        if self._thread.stopped or threading.get_ident() == self._loop_thread:
            return function(*args, **kwargs)
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(function(*args, **kwargs))
            except BaseException as error:  # handed over to the thread
                outcome.set_exception(error)

        self.loop.call_soon_threadsafe(run)
        return self.result(outcome)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that may wait for something on the event loop, which goes on meanwhile; return its result or
        raise what it raises. Raises RuntimeError once the loop is closed."""
        if threading.get_ident() == self._loop_thread:
            return await coroutine
        with self.going_on():
            return self.result(asyncio.run_coroutine_threadsafe(coroutine, self.loop))

    def result(self, outcome: Future[T]) -> T:
        """Wait for what the loop was asked to do; return its result. Raises RuntimeError if it was closed instead."""
        while not wait([outcome], PATIENCE).done:
            if self.loop.is_closed():
                raise RuntimeError("the event loop was closed while a request was answered")
        return outcome.result()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the event loop stand still; the thread may do meanwhile what only the loop may do."""
        if not self._thread.stopped:
            self._stop()
        self._thread.stopped += 1
        try:
            yield
        finally:
            self._thread.stopped -= 1
            if not self._thread.stopped:
                self._thread.done.set()

    def _stop(self) -> None:
        """Wait until the event loop stands still, which it does until `done` is set."""
        stopped: Future[None] = Future()
        done = self._thread.done = threading.Event()

        def stop() -> None:
            stopped.set_result(None)
            done.wait()

        self.loop.call_soon_threadsafe(stop)
        self.result(stopped)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Let the event loop go on meanwhile if this thread has stopped it."""
        times, self._thread.stopped = self._thread.stopped, 0
        if times:
            self._thread.done.set()
        try:
            yield
        finally:
            if times:
                self._stop()
            self._thread.stopped = times
