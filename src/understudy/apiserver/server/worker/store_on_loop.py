"""The store of an event loop, for a request in another thread: every call is made on the loop, which alone has it.

Others may write between two calls. So what the request reads is remembered, and its first write happens only if all of
that is still so; else the request has to start over. With that it decides as if it had run on the loop, at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from understudy.apiserver.storage.interface import WATCH_LIMIT, Entry, Range, Store, Watch
from understudy.machinery.errors import timeout
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import run_to_end

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE = 1.0  # seconds after which a thread that waits for the loop asks whether it is closed


class OutdatedError(Exception):
    """Something that a request has read has changed before its first write."""


class _ThisThread(threading.local):
    """Notes of what one thread, which answers one request, has done to the store.

    stopped  times that it has stopped the loop, one within another
    """

    stopped = 0
    has_written = False


class StoreOnLoop:
    """The store of an event loop, for one request in another thread (see `Store`); made on the loop.

    seconds_left  returns the seconds that are left for the request, which writes nothing once they are over
    remembers     whether what is read is remembered
    """

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        seconds_left: Callable[[], float],
        *,
        remembers: bool = True,
    ) -> None:
        self._store = store
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._thread = _ThisThread()
        self._seconds_left = seconds_left
        self._remembers = remembers
        self._entries: dict[str, Entry | None] = {}  # that were read, by key
        self._scans: dict[str, list[Entry]] = {}  # all entries under a prefix, where they were read
        self._is_current: Callable[[], bool] = lambda: True

    @property
    def has_written(self) -> bool:
        """Report whether the request of this thread has changed something."""
        return self._thread.has_written

    def begin(self, is_current: Callable[[], bool]) -> None:
        """Forget the reads. `is_current` reports whether everything else that the request relies on still holds."""
        self._is_current = is_current
        self._entries.clear()
        self._scans.clear()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
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

        self._loop.call_soon_threadsafe(run)
        self._wait_for_loop(outcome)
        return outcome.result()

    def _wait_for_loop(self, outcome: Future[Any]) -> None:
        """Wait for what the loop was asked to do. Raises RuntimeError if it was closed instead."""
        while not wait([outcome], PATIENCE).done:
            if self._loop.is_closed():
                raise RuntimeError("the event loop was closed while a request was answered")

    @contextmanager
    def stopped_loop(self) -> Iterator[None]:
        """Block the event loop; the thread may do meanwhile what only the loop may do."""
        stopped: Future[None] = Future()
        done = threading.Event()

        def stop() -> None:
            stopped.set_result(None)
            done.wait()

        if not self._thread.stopped:
            self._loop.call_soon_threadsafe(stop)
            self._wait_for_loop(stopped)
        self._thread.stopped += 1
        try:
            yield
        finally:
            self._thread.stopped -= 1
            if not self._thread.stopped:
                done.set()

    def _write(self, writing: Coroutine[Any, Any, Entry]) -> Entry:
        """Write on the event loop. Raises OutdatedError, 504 for a request without time, and what the store raises."""
        try:
            entry = self.call(self._write_unless_outdated, writing, begun=self.has_written)
        finally:
            writing.close()  # not begun if the loop is closed
        self._thread.has_written = True
        return entry

    def _write_unless_outdated(self, writing: Coroutine[Any, Any, Entry], begun: bool) -> Entry:
        """Write on the event loop. `begun`: the request has written before, and so goes on whatever others do."""
        if not begun and self._is_outdated():
            raise OutdatedError
        if self._seconds_left() <= 0:
            raise timeout("Timeout: request did not complete within requested timeout", 0)
        return run_to_end(writing)

    def _is_outdated(self) -> bool:
        """Report whether the request would read other entries now."""
        if not self._is_current() or any(self._store.peek(key) is not entry for key, entry in self._entries.items()):
            return True
        return any(
            list(map(id, self._store.scan(prefix))) != list(map(id, entries)) for prefix, entries in self._scans.items()
        )

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self.call(run_to_end, coroutine)
        finally:
            coroutine.close()  # not begun if the loop is closed

    @property
    def revision(self) -> int:
        return self._store.revision

    async def get(self, key: str) -> Entry | None:
        entry = self._wait(self._store.get(key))
        self._remember(key, entry)
        return entry

    def _remember(self, key: str, entry: Entry | None) -> None:
        """Remember what was read first under a key."""
        if self._remembers:
            self._entries.setdefault(key, entry)

    def peek(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        entry = self.call(self._store.peek, key)
        self._remember(key, entry)
        return entry

    def scan(self, prefix: str) -> list[Entry]:
        """Return all entries under a prefix, in the order of their keys."""
        entries = self.call(self._store.scan, prefix)
        if self._remembers:
            self._scans.setdefault(prefix, entries)
        return entries

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        result = self._wait(self._store.range(prefix, start=start, limit=limit, revision=revision))
        if self._remembers and not (start or limit or revision):
            self._scans.setdefault(prefix, result.entries)
        return result

    async def create(self, key: str, value: Obj) -> Entry:
        return self._write(self._store.create(key, value))

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        return self._write(self._store.update(key, value, expected))

    async def delete(self, key: str, expected: int) -> Entry:
        return self._write(self._store.delete(key, expected))

    def watch(self, prefix: str, after: int, *, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch that begins with the writes after a revision. Raises CompactedError."""
        return self.call(self._store.watch, prefix, after, limit=limit)

    def unwatch(self, watch: Watch) -> None:
        self.call(self._store.unwatch, watch)

    def count(self, prefix: str) -> int:
        return self.call(self._store.count, prefix)

    def watching(self, prefix: str) -> int:
        return self.call(self._store.watching, prefix)

    async def clear(self) -> None:
        self._wait(self._store.clear())

    async def compact(self, revision: int) -> None:
        self._wait(self._store.compact(revision))

    def end_watches(self, prefix: str) -> None:
        self.call(self._store.end_watches, prefix)
