"""The interface of a store, and the values that pass through it.

A store is a map from keys (`/registry/pods/default/a`) to objects with one revision counter for all of it. Every write
gets the next revision. Older revisions can be read and watched from until they are compacted.

The methods are coroutines for the stores that have to wait. The memory store never suspends: between two awaits nothing
else is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from understudy.machinery.types import Obj


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
    """

    __slots__ = ("_object", "cache", "key", "revision", "value")

    def __init__(self, key: str, value: Obj, revision: int) -> None:
        self.key = key
        self.value = value
        self.revision = revision
        self.cache: dict[Any, Any] = {}
        self._object: Obj | None = None

    @property
    def object(self) -> Obj:
        """Return the value with its resourceVersion. All readers share it: it is never edited."""
        if not self.revision:
            return self.value
        if self._object is None:
            metadata = {**self.value["metadata"], "resourceVersion": str(self.revision)}
            self._object = {**self.value, "metadata": metadata}
        return self._object


class Event(NamedTuple):
    """A write. `entry` of a deletion is the last value, at the revision of the deletion."""

    deleted: bool
    entry: Entry
    previous: Entry | None

    @property
    def revision(self) -> int:
        return self.entry.revision


class Range(NamedTuple):
    """Entries in the order of their keys, read at a revision; `remaining` counts those that the limit left out."""

    entries: list[Entry]
    revision: int
    remaining: int


class Watch:
    """Writes under a prefix, in order, from a revision on.

    queue      the writes that the reader has not taken yet; it takes them from the left
    wake       called on each write
    overflown  set, and nothing queued any more, once more than `limit` writes wait: the reader is cut off
    """

    __slots__ = ("closed", "limit", "overflown", "prefix", "queue", "wake")

    def __init__(self, prefix: str, limit: int) -> None:
        self.prefix = prefix
        self.limit = limit
        self.queue: deque[Event] = deque()
        self.overflown = False
        self.closed = False
        self.wake: Callable[[], None] = _nobody

    def offer(self, event: Event) -> None:
        """Queue a write, or cut off a reader that is too slow."""
        if len(self.queue) >= self.limit:
            self.cut_off()
            return
        if not self.overflown:
            self.queue.append(event)
        self.wake()

    def cut_off(self) -> None:
        """Let the reader know that it has to begin anew."""
        self.overflown = True
        self.queue.clear()
        self.wake()


def _nobody() -> None:
    """Do nothing: nobody waits for writes yet."""


class Store(Protocol):
    """A store. Keys are read in their order; a prefix ends with a slash."""

    @property
    def revision(self) -> int: ...

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

    def watch(self, prefix: str, after: int, *, limit: int = 10_000) -> Watch:
        """Return a watch of the writes after a revision, to be given back with `unwatch`. Raises CompactedError."""

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""

    def count(self, prefix: str) -> int:
        """Return how many keys there are under a prefix."""

    def watching(self, prefix: str) -> int:
        """Return how many watches there are on a prefix or a part of it."""

    async def clear(self) -> None:
        """Forget everything, revisions included, and cut off every watch."""

    async def compact(self, revision: int) -> None:
        """Forget the values before a revision, and the writes up to it. Raises FutureRevisionError."""
