"""The store of an event loop, for a thread beside it: every call is made on the loop, whose store is never shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from understudy.apiserver.storage.interface import WATCH_LIMIT, Entry, Range, Store, Watch
from understudy.machinery.golang.deep_recursion import run_to_end
from understudy.machinery.types import Obj

P = ParamSpec("P")
T = TypeVar("T")


class StoreOnLoop:
    """The store of an event loop, for one thread beside it (see `Store`). `writes` counts the thread's writes."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._stopped = 0  # times that the loop was stopped, one within another
        self.writes = 0

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on the event loop, and return its result or raise what it raises.

        Raises RuntimeError once the loop is closed.
        """
        is_on_loop = (
            threading.get_ident() == self._loop_thread
        )  # what the thread has begun, such as a watch, goes on there
        if is_on_loop or self._stopped:
            return function(*args, **kwargs)
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(function(*args, **kwargs))
            except BaseException as error:  # handed over to the thread
                outcome.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return outcome.result()

    @contextmanager
    def stopped_loop(self) -> Iterator[None]:
        """Let the event loop stand still; the thread may do meanwhile what only the loop may do."""
        stopped, done = threading.Event(), threading.Event()

        def stop() -> None:
            stopped.set()
            done.wait()

        if not self._stopped:
            self._loop.call_soon_threadsafe(stop)
            stopped.wait()
        self._stopped += 1
        try:
            yield
        finally:
            self._stopped -= 1
            if not self._stopped:
                done.set()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.call(run_to_end, coroutine)

    @property
    def revision(self) -> int:
        """Return the revision of the last write."""
        return self._store.revision

    async def get(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        return self._wait(self._store.get(key))

    def peek(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        return self.call(self._store.peek, key)

    def scan(self, prefix: str) -> list[Entry]:
        """Return all entries under a prefix, in the order of their keys."""
        return self.call(self._store.scan, prefix)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """Return the entries under a prefix at a revision. Raises CompactedError, FutureRevisionError."""
        return self._wait(self._store.range(prefix, start=start, limit=limit, revision=revision))

    async def create(self, key: str, value: Obj) -> Entry:
        """Store a new key; return its entry. Raises KeyExistsError."""
        self.writes += 1
        return self._wait(self._store.create(key, value))

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        """Replace the value of a key; return its entry. Raises RevisionConflictError."""
        self.writes += 1
        return self._wait(self._store.update(key, value, expected))

    async def delete(self, key: str, expected: int) -> Entry:
        """Delete a key; return the entry of the deletion. Raises RevisionConflictError."""
        self.writes += 1
        return self._wait(self._store.delete(key, expected))

    def watch(self, prefix: str, after: int, *, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch that begins with the writes after a revision. Raises CompactedError."""
        return self.call(self._store.watch, prefix, after, limit=limit)

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""
        self.call(self._store.unwatch, watch)

    def count(self, prefix: str) -> int:
        """Return how many keys there are under a prefix."""
        return self.call(self._store.count, prefix)

    def watching(self, prefix: str) -> int:
        """Return how many watches there are on a prefix or a part of it."""
        return self.call(self._store.watching, prefix)

    async def clear(self) -> None:
        """Forget everything, revisions included, and cut off every watch."""
        self._wait(self._store.clear())

    async def compact(self, revision: int) -> None:
        """Forget the values before a revision, and the writes up to it. Raises FutureRevisionError."""
        self._wait(self._store.compact(revision))

    def end_watches(self, prefix: str) -> None:
        """End the watches on a prefix or a part of it, once their readers have taken what is queued."""
        self.call(self._store.end_watches, prefix)
