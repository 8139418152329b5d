"""What the registry asks of a store, and the values that pass between them.

A store is a map from keys (`/registry/pods/default/a`) to objects with one revision counter for all of it. Every write
gets the next revision. Older revisions can be read and watched from until they are compacted.

The methods are coroutines for the stores that have to wait; the memory store never suspends, so that between two awaits
nothing else has written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from understudy.machinery.types import Obj


class KeyExistsError(Exception):
    """create: the key is there."""


class RevisionConflictError(Exception):
    """update, delete: the key is not at the expected revision. `current` is what is there, None if nothing is."""

    def __init__(self, current: Entry | None) -> None:
        self.current = current


class CompactedError(Exception):
    """That revision is forgotten; `revision` is the oldest that is not."""

    def __init__(self, revision: int) -> None:
        self.revision = revision


class FutureRevisionError(Exception):
    """That revision is not there yet."""


class Entry:
    """An object at a revision. `value` is the internal form as written, without a resourceVersion. Revision 0: it is
    not stored (a dry run).

    `cache` keeps what was made of this revision (the encoded forms, above all), each at most once.
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
        """The value with its resourceVersion. Shared by all who read it: never to be edited."""
        if not self.revision:
            return self.value
        if self._object is None:
            metadata = {**self.value["metadata"], "resourceVersion": str(self.revision)}
            self._object = {**self.value, "metadata": metadata}
        return self._object


class Event(NamedTuple):
    """A write. A deletion's `entry` is the last value at the revision of the deletion."""

    deleted: bool
    entry: Entry
    previous: Entry | None

    @property
    def revision(self) -> int:
        return self.entry.revision


class Range(NamedTuple):
    """Entries in the order of their keys. `revision` is the one they were read at; `remaining` counts what the limit
    left out."""

    entries: list[Entry]
    revision: int
    remaining: int


class Watch:
    """Writes under a prefix, in order, from a revision on. Its owner drains `pending`; `wake` is called on each write.

    A reader that lets more than `limit` writes wait is cut off: `overflown` is set and nothing is queued any more.
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
    """Nobody waits yet."""


class Store(Protocol):
    """See the module's text. Keys under a prefix are read in order; a prefix ends with a slash."""

    @property
    def revision(self) -> int: ...

    async def get(self, key: str) -> Entry | None: ...

    def peek(self, key: str) -> Entry | None:
        """`get` for callers that cannot wait: what is known here."""

    def scan(self, prefix: str) -> list[Entry]:
        """`range` of everything for callers that cannot wait: what is known here."""

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """`start`: the first key wanted; `revision` 0: now. Raises CompactedError, FutureRevisionError."""

    async def create(self, key: str, value: Obj) -> Entry:
        """Raises KeyExistsError."""

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        """Raises RevisionConflictError unless the key is at revision `expected`."""

    async def delete(self, key: str, expected: int) -> Entry:
        """The entry of the deletion. Raises RevisionConflictError."""

    def watch(self, prefix: str, after: int, *, limit: int = 10_000) -> Watch:
        """Writes after revision `after`. Raises CompactedError. To be given back with `unwatch`."""

    def unwatch(self, watch: Watch) -> None: ...

    def count(self, prefix: str) -> int:
        """How many keys there are under a prefix."""

    def watching(self, prefix: str) -> int:
        """How many watches there are on a prefix or a part of it."""

    async def clear(self) -> None:
        """Forget everything, revisions included, and cut off every watch."""

    async def compact(self, revision: int) -> None:
        """Forget what was before `revision`, and the writes up to it."""
