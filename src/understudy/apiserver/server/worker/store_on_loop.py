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
from understudy.apiserver.storage.interface import (
    ALL_WRITES,
    WATCH_LIMIT,
    Entry,
    Interest,
    Lookup,
    Range,
    Store,
    StoreSnapshot,
    Watch,
)
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import run_to_end

T = TypeVar("T")


DEFINITIONS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


class OutdatedError(Exception):
    """Something that a request has read has changed before its first write: entries with these keys or prefixes."""

    def __init__(self, keys: set[str]) -> None:
        self.keys = keys


class StoreOnLoop:
    """The store of an event loop, for one request in another thread (see `Store`).

    request       writes nothing once its time is over, but for what it deletes again
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
        self._loop = loop
        self._call = loop.call
        self.suspends, self.expires = store.suspends, store.expires
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

    def stop_remembering(self) -> None:
        """Forget the reads: the request cannot start over any more."""
        self.remembers = False
        self.begin(self._is_current)

    def at_once(self, function: Callable[[], None]) -> None:
        """Call a function on the event loop, so that nothing is written between its reads, which are not remembered."""
        remembers, self.remembers = self.remembers, False
        try:
            self._call(function)
        finally:
            self.remembers = remembers

    async def _write(self, writing: Coroutine[Any, Any, Entry], *, ends: bool = False) -> Entry:
        """Write on the event loop, whatever the time if that `ends` what the request has begun.

        Raises OutdatedError, and as `out_of_time` and the store do.
        """
        try:
            entry = await self._wait(self._write_unless_outdated(writing, begun=self.has_written, ends=ends))
        finally:
            writing.close()  # not begun if the loop is closed
        self.has_written = True
        return entry

    async def _write_unless_outdated(self, writing: Coroutine[Any, Any, Entry], begun: bool, ends: bool) -> Entry:
        """Write on the event loop. `begun`: the request has written before, and so goes on whatever others do."""
        if not begun and (outdated := self._outdated()):
            raise OutdatedError(outdated)
        if self._request.seconds_left() <= 0 and not ends:
            raise out_of_time(self._request)
        return await writing

    def _outdated(self) -> set[str]:
        """Return the keys, and the prefixes of lists, under which the request would read other entries now."""
        keys = {key for key, entry in self._entries.items() if self._store.peek(key) is not entry}
        keys |= {
            prefix
            for prefix, entries in self._scans.items()
            if list(map(id, self._store.scan(prefix))) != list(map(id, entries))
        }
        return keys if self._is_current() else {*keys, DEFINITIONS}

    async def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the store on the event loop: at once, unless it may wait for something."""
        try:
            if self.suspends:
                return await self._loop.run(coroutine)
            return self._call(run_to_end, coroutine)
        finally:
            coroutine.close()  # not begun if the loop is closed

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def compacted(self) -> int:
        return self._store.compacted

    async def open(self) -> None:
        await self._wait(self._store.open())

    async def close(self) -> None:
        await self._wait(self._store.close())

    async def check(self) -> None:
        await self._wait(self._store.check())

    async def size(self) -> int | None:
        return await self._wait(self._store.size())

    async def catch_up(self) -> None:
        await self._wait(self._store.catch_up())

    async def get(self, key: str) -> Entry | None:
        entry = await self._wait(self._store.get(key))
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
        result = await self._wait(self._store.range(prefix, start=start, limit=limit, revision=revision))
        if self.remembers and not (start or limit or revision):
            self._scans.setdefault(prefix, result.entries)
        return result

    async def find(self, prefix: str, lookup: Lookup) -> None:
        """Find nothing: only what `range` has returned can be remembered."""

    async def create(self, key: str, value: Obj, stored_as: Obj | None = None) -> Entry:
        return await self._write(self._store.create(key, value, stored_as))

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        return await self._write(self._store.update(key, value, expected))

    async def delete(self, key: str, expected: int) -> Entry:
        return await self._write(self._store.delete(key, expected), ends=self.has_written)

    def watch(self, prefix: str, after: int, *, interest: Interest = ALL_WRITES, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch that begins with the writes after a revision. Raises CompactedError."""
        return self._call(self._store.watch, prefix, after, interest=interest, limit=limit)

    def unwatch(self, watch: Watch) -> None:
        self._call(self._store.unwatch, watch)

    def count(self, prefix: str) -> int:
        return self._call(self._store.count, prefix)

    def watching(self, prefix: str, key: str = "") -> int:
        return self._call(self._store.watching, prefix, key)

    async def rewind(self, snapshot: StoreSnapshot) -> None:
        await self._wait(self._store.rewind(snapshot))

    def snapshot(self, *, with_history: bool = False) -> StoreSnapshot:
        return self._call(self._store.snapshot, with_history=with_history)

    async def restore(self, snapshot: StoreSnapshot) -> None:
        await self._wait(self._store.restore(snapshot))

    async def compact(self, revision: int) -> None:
        await self._wait(self._store.compact(revision))

    def end_watches(self, prefix: str) -> None:
        self._call(self._store.end_watches, prefix)
