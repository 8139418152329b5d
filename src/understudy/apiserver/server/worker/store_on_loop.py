"""The store of an event loop, for a request in another thread: every call is made on the loop, which alone has it.

Others may write between two calls. So what the request reads is remembered, and its first write happens only if all of
that is still so; else the request has to start over. With that it decides as if it had run on the loop, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.server.filters.request_deadline import out_of_time
from understudy.apiserver.server.worker.loop_from_thread import LoopFromThread
from understudy.apiserver.storage.interface import WATCH_LIMIT, Entry, Range, Store, StoreSnapshot, Watch
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import run_to_end

T = TypeVar("T")


class OutdatedError(Exception):
    """Something that a request has read has changed before its first write."""


class StoreOnLoop:
    """The store of an event loop, for one request in another thread (see `Store`).

    request       writes nothing once its time is over
    remembers     whether what is read is remembered
    has_written   whether the request has changed something
    """

    def __init__(
        self,
        store: Store,
        loop: LoopFromThread,
        request: Request,
        *,
        remembers: bool = True,
    ) -> None:
        self._store = store
        self._call = loop.call
        self._request = request
        self.remembers = remembers
        self.has_written = False
        self._entries: dict[str, Entry | None] = {}  # that were read, by key
        self._scans: dict[str, list[Entry]] = {}  # all entries under a prefix, where they were read
        self._is_current: Callable[[], bool] = lambda: True

    def begin(self, is_current: Callable[[], bool]) -> None:
        """Forget the reads. `is_current` reports whether everything else that the request relies on still holds."""
        self._is_current = is_current if self.remembers else lambda: True
        self._entries.clear()
        self._scans.clear()

    def _write(self, writing: Coroutine[Any, Any, Entry]) -> Entry:
        """Write on the event loop. Raises OutdatedError, and as `out_of_time` and the store do."""
        try:
            entry = self._call(self._write_unless_outdated, writing, begun=self.has_written)
        finally:
            writing.close()  # not begun if the loop is closed
        self.has_written = True
        return entry

    def _write_unless_outdated(self, writing: Coroutine[Any, Any, Entry], begun: bool) -> Entry:
        """Write on the event loop. `begun`: the request has written before, and so goes on whatever others do."""
        if not begun and self._is_outdated():
            raise OutdatedError
        if self._request.seconds_left() <= 0:
            raise out_of_time(self._request)
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
            return self._call(run_to_end, coroutine)
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
        if self.remembers:
            self._entries.setdefault(key, entry)

    def peek(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        entry = self._call(self._store.peek, key)
        self._remember(key, entry)
        return entry

    def scan(self, prefix: str) -> list[Entry]:
        """Return all entries under a prefix, in the order of their keys."""
        entries = self._call(self._store.scan, prefix)
        if self.remembers:
            self._scans.setdefault(prefix, entries)
        return entries

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        result = self._wait(self._store.range(prefix, start=start, limit=limit, revision=revision))
        if self.remembers and not (start or limit or revision):
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
        return self._call(self._store.watch, prefix, after, limit=limit)

    def unwatch(self, watch: Watch) -> None:
        self._call(self._store.unwatch, watch)

    def count(self, prefix: str) -> int:
        return self._call(self._store.count, prefix)

    def watching(self, prefix: str) -> int:
        return self._call(self._store.watching, prefix)

    async def clear(self) -> None:
        self._wait(self._store.clear())

    def snapshot(self) -> StoreSnapshot:
        return self._call(self._store.snapshot)

    async def restore(self, snapshot: StoreSnapshot) -> None:
        self._wait(self._store.restore(snapshot))

    async def compact(self, revision: int) -> None:
        self._wait(self._store.compact(revision))

    def end_watches(self, prefix: str) -> None:
        self._call(self._store.end_watches, prefix)
