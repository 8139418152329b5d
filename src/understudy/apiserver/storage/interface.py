"""The interface of a store, and the values that pass through it.

A store is a map from keys (`/registry/pods/default/a`) to objects with one revision counter for all of it. Every write
gets the next revision. Older revisions can be read and watched from until they are compacted.

The methods are coroutines for the stores that have to wait. The memory store never suspends: between two awaits nothing
else is written.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable
from io import BytesIO
from threading import Lock
from typing import Any, NamedTuple, Protocol

from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import on_deep_stack

# Bytes that a remembered write takes besides the value: the event, an entry, a version, and their places in lists.
EVENT_SIZE = 400
# Bytes of writes that may wait for the reader of a watch.
WATCH_LIMIT = 16 << 20


class KeyExistsError(Exception):
    """A key to create that exists already."""


class RevisionConflictError(Exception):
    """A key to update or delete that is not at the expected revision; `current` is the entry there, None for none."""

    def __init__(self, current: Entry | None) -> None:
        self.current = current


class CompactedError(Exception):
    """A revision that has been compacted; `revision` is the oldest that has not."""

    def __init__(self, revision: int) -> None:
        self.revision = revision


class FutureRevisionError(Exception):
    """A revision that is not written yet."""


class Entry:
    """An object at a revision.

    value     the internal form as written, without a resourceVersion
    revision  0 for an object that is not stored (a dry run)
    cache     keeps what was made of this revision (above all its encoded forms), each made at most once

    A newer revision packs it: only the bytes of the value are left for good, and the rest is made again when it is
    asked for.
    """

    __slots__ = ("_object", "_packed", "_recent", "_value", "cache", "key", "revision")

    def __init__(self, key: str, value: Obj, revision: int) -> None:
        self.key = key
        self.revision = revision
        self._value: Obj | None = value
        self._object: Obj | None = None
        self.cache: dict[Any, Any] = {}  # filled only with what is made of `value`, which unpacks a packed entry
        self._packed = b""
        self._recent: RecentEntries | None = None

    @property
    def value(self) -> Obj:
        """Return the value. All readers share it: it is never edited."""
        value = self._value  # read once: a thread may ask while the event loop packs
        return self._unpack() if value is None else value

    @property
    def object(self) -> Obj:
        """Return the value with its resourceVersion. All readers share it: it is never edited."""
        if not self.revision:
            return self.value
        obj = self._object
        if obj is None:
            value = self.value
            metadata = {**value["metadata"], "resourceVersion": str(self.revision)}
            obj = self._object = {**value, "metadata": metadata}
        return obj

    @property
    def packed_size(self) -> int:
        """Return the bytes that the packed value takes; 0 for an entry that is not packed."""
        return len(self._packed)

    @property
    def encoded_size(self) -> int:
        """Return the bytes of the longest encoded form that was made; 0 if there is none."""
        return max((len(made) for made in tuple(self.cache.values()) if isinstance(made, bytes)), default=0)

    def pack(self, recent: RecentEntries) -> None:
        """Pack the value of an entry that is not the current one any more. It stays unpacked while it is `recent`."""
        self._packed = _pickled(self.value)
        self._recent = recent
        recent.add(self)

    def pack_like(self, other: Entry, recent: RecentEntries) -> None:
        """Pack an entry that shares its value with a packed one, whose bytes it shares as well."""
        self._packed = other._packed
        self._recent = recent
        recent.add(self)

    def drop_unpacked(self) -> None:
        """Drop everything but the packed value."""
        self._value = self._object = None
        self.cache = {}

    def _unpack(self) -> Obj:
        assert self._recent is not None
        value: Obj = pickle.loads(self._packed)
        self._value = value
        self._recent.add(self)
        return value


def _pickled(value: Obj) -> bytes:
    """Return the pickle of a value, by Python's own pickler where the one in C recurses too deep."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        out = BytesIO()
        on_deep_stack(pickle._Pickler(out, pickle.HIGHEST_PROTOCOL).dump, value)
        return out.getvalue()


class RecentEntries:
    """The packed entries that were written or read last; they stay unpacked, since watchers are about to ask for them.

    `limit` bounds the bytes of their packed values. Unpacked and encoded, they take about ten times as much.
    """

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._entries: deque[Entry] = deque()
        self._lock = Lock()  # a thread may unpack an entry while the event loop packs another

    def add(self, entry: Entry) -> None:
        """Add an entry; drop the unpacked values of the oldest ones, but not of this one."""
        with self._lock:
            self._entries.append(entry)
            self._size += EVENT_SIZE + entry.packed_size
            while self._size > self._limit and len(self._entries) > 1:
                oldest = self._entries.popleft()
                self._size -= EVENT_SIZE + oldest.packed_size
                oldest.drop_unpacked()

    def clear(self) -> None:
        """Drop the unpacked values of all entries, and forget them."""
        with self._lock:
            for entry in self._entries:
                entry.drop_unpacked()
            self._entries.clear()
            self._size = 0


class Event(NamedTuple):
    """A write. `entry` of a deletion is the last value, at the revision of the deletion."""

    deleted: bool
    entry: Entry
    previous: Entry | None

    @property
    def revision(self) -> int:
        """Return the revision of the write."""
        return self.entry.revision

    @property
    def size(self) -> int:
        """Return the bytes that it takes to remember the write: about EVENT_SIZE, and the value that it replaced."""
        return EVENT_SIZE if self.previous is None else EVENT_SIZE + self.previous.packed_size


class Range(NamedTuple):
    """Entries in the order of their keys, read at a revision; `remaining` counts those that the limit left out."""

    entries: list[Entry]
    revision: int
    remaining: int


class StoreSnapshot(NamedTuple):
    """All entries of a store, in the order of their keys, at a revision."""

    entries: tuple[Entry, ...]
    revision: int


class Watch:
    """Writes under a prefix, in order, from a revision on.

    queue      the writes that the reader has not taken yet; it takes them with `take`
    wake       called on each write
    ended      set if no more writes are of interest: the reader takes what is queued, and is done
    overflown  set, and nothing queued any more, once the writes that wait take more than `limit` bytes (see
               `Event.size`): the reader is cut off. What was written before the watch began does not count.
    """

    __slots__ = ("_size", "closed", "ended", "limit", "overflown", "prefix", "queue", "wake")

    def __init__(self, prefix: str, limit: int, backlog: Iterable[Event] = ()) -> None:
        self.prefix = prefix
        self.queue: deque[Event] = deque(backlog)
        self._size = sum(event.size for event in self.queue)
        self.limit = limit + self._size
        self.ended = False
        self.overflown = False
        self.closed = False
        self.wake: Callable[[], None] = _nobody

    def offer(self, event: Event) -> None:
        """Queue a write, or cut off a reader that is too slow."""
        self._size += event.size
        if self._size > self.limit:
            self.cut_off()
            return
        if not self.overflown:
            self.queue.append(event)
        self.wake()

    def take(self) -> Event:
        """Remove the oldest write from the queue and return it. Raises IndexError."""
        event = self.queue.popleft()
        self._size -= event.size
        return event

    def end(self) -> None:
        """Let the reader know that it is done once it has taken what is queued."""
        self.ended = True
        self.wake()

    def cut_off(self) -> None:
        """Let the reader know that it has to start over."""
        self.overflown = True
        self.queue.clear()
        self.wake()


def _nobody() -> None:
    """Do nothing: no task waits for writes yet."""


class Store(Protocol):
    """A store. Keys are read in their order; a prefix ends with a slash."""

    @property
    def revision(self) -> int:
        """Return the revision of the last write."""

    async def get(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""

    def peek(self, key: str) -> Entry | None:
        """Return the entry of a key without waiting, as far as this process knows it."""

    def scan(self, prefix: str) -> list[Entry]:
        """Return all entries under a prefix without waiting, as far as this process knows them."""

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """Return the entries under a prefix, from the key `start` on, at a revision (0: now).

        Raises CompactedError, FutureRevisionError.
        """

    async def create(self, key: str, value: Obj) -> Entry:
        """Store a new key; return its entry. Raises KeyExistsError."""

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        """Replace the value of a key; return its entry. Raises RevisionConflictError unless it is at `expected`."""

    async def delete(self, key: str, expected: int) -> Entry:
        """Delete a key; return the entry of the deletion. Raises RevisionConflictError unless it is at `expected`."""

    def watch(self, prefix: str, after: int, *, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch of the writes after a revision, to be given back with `unwatch`. Raises CompactedError."""

    def end_watches(self, prefix: str) -> None:
        """End the watches on a prefix or a part of it, once their readers have taken what is queued."""

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""

    def count(self, prefix: str) -> int:
        """Return the number of keys under a prefix."""

    def watching(self, prefix: str) -> int:
        """Return the number of watches on a prefix or a part of it."""

    async def clear(self) -> None:
        """Forget everything, revisions included, and cut off every watch."""

    def snapshot(self) -> StoreSnapshot:
        """Return all entries that are stored now."""

    async def restore(self, snapshot: StoreSnapshot) -> None:
        """Store what a snapshot holds, nothing else, and cut off every watch.

        Objects have the revisions that they had. Those of the store go on; what was before cannot be read any more.
        """

    async def compact(self, revision: int) -> None:
        """Forget the values before a revision, and the writes up to it. Raises FutureRevisionError."""
