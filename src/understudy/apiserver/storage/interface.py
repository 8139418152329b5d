"""The interface of a store, and the values that pass through it.

A store is a map from keys (`/registry/pods/default/a`) to objects with one revision counter for all of it. Every write
gets the next revision. Older revisions can be read and watched from until they are compacted.

The methods are coroutines for the stores that have to wait. The memory store never suspends: between two awaits nothing
else is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Any, Protocol

from understudy.apiserver.storage import packing
from understudy.machinery.errors import StatusError, internal_error
from understudy.machinery.types import NamedTuple, Obj

# Bytes that a remembered write takes besides the value: the event, an entry, a version, and their places in lists.
EVENT_SIZE = 400
# Bytes of writes that may wait for the reader of a watch.
WATCH_LIMIT = 16 << 20
# Entries that stay unpacked, however large: a write, and what it has replaced.
AT_LEAST_RECENT = 2
# Bytes of a packed value whose form is lent, not copied: for shorter ones a copy takes less than a view.
LENT = 16 << 10
_NO_LABELS: Mapping[str, str] = {}
_NOTHING: dict[Any, Any] = {}  # of which entries share one, as `forms`: never written to


Raw = bytes | memoryview  # bytes in memory, or a part of a mapped file
Read = Callable[["Entry"], "str | None"]  # returns a text of an entry, None if it has none


class Decoder(Protocol):
    """Reads the bytes in which an engine has packed entries."""

    def decode(self, key: str, raw: Raw) -> Obj:
        """Return the value of an entry, given its key and bytes."""

    def labels(self, key: str, raw: Raw) -> Mapping[str, str] | None:
        """Return its labels; None where only the value tells them."""


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


class StorageError(OSError):
    """A place that cannot be opened or written; the text is one line for the person who named it."""


class LateError(StorageError):
    """A place that does not answer in time."""


class UnreadableError(StatusError):
    """A stored value of which no object can be made, 500: it is damaged, of an unknown version, or encrypted."""

    def __init__(self, key: str, reason: str, *, is_encrypted: bool) -> None:
        other = internal_error(reason)
        named = (other.reason, other.message, other.details) if is_encrypted else ("", reason, None)
        super().__init__(500, *named)
        self.key = key
        self.text = reason
        self.is_encrypted = is_encrypted


class Kept(NamedTuple):
    """The key in the cache of an entry of what may stay there while the value is packed, but for encoded forms in JSON:
    those are kept under their codec."""

    what: str
    codec: Any


class Entry:
    """An object at a revision.

    value        the internal form as written, without a resourceVersion
    revision     0 for an object that is not stored (a dry run)
    cache        keeps what was made of this revision (above all its encoded forms), each made at most once
    forms        the same to be read only, for lists, which look at thousands
    is_deletion  whether the object was deleted at this revision; the value is what it was last
    is_recent    whether it is among the RecentEntries
    is_outdated  whether the object is stored in another form than it would be if it were written now

    A stored entry is packed: only the bytes of its value are kept for good, and the rest is made again when it is asked
    for. It stays unpacked while it is recent, and, if it is read again and again, for as long as no newer revision
    replaces it. One encoded form and the labels are packed with the value: lists are made of them. So what thousands of
    entries take are few large pieces of memory, which go back to the system one by one.
    """

    __slots__ = (
        "_decoder",
        "_is_past",
        "_kept",
        "_object",
        "_packed",
        "_recent",
        "_value",
        "_was_unpacked",
        "forms",
        "is_deletion",
        "is_outdated",
        "is_recent",
        "key",
        "revision",
    )

    def __init__(self, key: str, value: Obj | None, revision: int) -> None:
        self.key = key
        self.revision = revision
        self.is_deletion = False
        self.is_recent = False
        self.is_outdated = False
        self._value = value
        self._object: Obj | None = None
        self.forms = _NOTHING
        self._packed: Raw = b""
        self._decoder: Decoder | None = None  # reads what is packed, if an engine has packed it
        self._kept: Any = None  # the key of the encoded form that is packed with the value
        self._recent: RecentEntries | None = None
        self._is_past = False
        self._was_unpacked = False

    @classmethod
    def of_bytes(cls, key: str, raw: Raw, revision: int, decoder: Decoder) -> Entry:
        """Return an entry whose value is decoded, from its key and bytes, when it is asked for."""
        entry = cls(key, None, revision)
        entry._packed, entry._decoder = raw, decoder
        return entry

    def at_revision(self, revision: int) -> Entry:
        """Return an entry of the same value at a revision, with nothing made of it yet."""
        entry = Entry(self.key, self._value, revision)
        entry._packed, entry._decoder = self._packed, self._decoder
        entry.is_outdated = self.is_outdated
        return entry

    @property
    def value(self) -> Obj:
        """Return the value. All readers share it: it is never edited."""
        value = self._value  # read once: a thread may ask while the event loop packs
        return self._unpack() if value is None else value

    @property
    def passing_value(self) -> Obj:
        """Return the value, which does not stay unpacked: for indexes, which look at thousands once."""
        value = self._value
        return self._unpacked() if value is None else value

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
    def labels(self) -> Mapping[str, str]:
        """Return the labels of the object, which are at hand while the current revision is packed."""
        if self._value is None and (labels := self._packed_labels()) is not None:
            return labels
        return self.value.get("metadata", _NO_LABELS).get("labels") or _NO_LABELS

    def _packed_labels(self) -> Mapping[str, str] | None:
        """Return the labels of a packed entry; None where they cannot be told without its value."""
        if self._decoder is not None:
            return self._decoder.labels(self.key, self._packed)
        packed = self._own_pack
        return packing.labels_of(packed) if packed else None

    @property
    def cache(self) -> dict[Any, Any]:
        """Return the forms that were made of the value, for new ones to be added; `made` finds packed ones as well."""
        forms = self.forms
        if forms is _NOTHING:
            forms = self.forms = {}
        return forms

    def made(self, key: Any) -> Any:
        """Return the form that is in the cache under a key, or packed with the value; None if there is none."""
        form = self.forms.get(key)
        if form is None and self._kept is not None and key == self._kept:
            return packing.form_of(self._own_pack)
        return form

    def lent(self, key: Any) -> Any:
        """Return an encoded form for a list: of a long packed one a view, which all lists share; else as `made`.

        With copies, a list that its client does not read would hold as many bytes as the objects in it.
        """
        if len(self._packed) > LENT and self._kept is not None and key == self._kept and key not in self.forms:
            return packing.view_of_form(self._own_pack)
        return self.made(key)

    @property
    def _own_pack(self) -> bytes:
        """Return the packed value; nothing if an engine has packed it."""
        return self._packed if self._decoder is None and isinstance(self._packed, bytes) else b""

    @property
    def pickled(self) -> bytes:
        """Return the pickle of the value."""
        packed = self._own_pack
        return packing.pickle_of(packed) if packed else packing.pickled(self.value)

    @property
    def raw(self) -> Raw | None:
        """Return the bytes of an engine of which the value is still to be made, None for any other entry."""
        return None if self._decoder is None else self._packed

    @property
    def is_unpacked(self) -> bool:
        """Report whether the value is at hand."""
        return self._value is not None

    @property
    def packed_size(self) -> int:
        """Return the bytes that the value takes packed, with labels and encoded form; 0 if it is not packed."""
        return len(self._packed)

    @property
    def encoded_size(self) -> int:
        """Return the bytes of the longest encoded form that was made, those of the packed value if there is none."""
        packed = self._own_pack
        kept = packing.form_size(packed) if packed else 0
        made = tuple(self.forms.values())
        return max((len(form) for form in made if isinstance(form, bytes)), default=kept or len(self._packed))

    def pack(self, recent: RecentEntries) -> None:
        """Pack the value of an entry that is stored now. It stays unpacked while it is `recent`."""
        if not self._packed and self._decoder is None:
            self._packed = packing.pack(self.value)
        self._recent = recent
        if self._value is not None:
            recent.add(self)

    def replace(self) -> None:
        """Note that this revision is not the current one any more."""
        self._is_past = True
        if self._value is None:
            self.forms = _NOTHING
        elif self._recent is not None:
            self._recent.add(self)

    def drop_unpacked(self) -> None:
        """Drop everything but the packed value, and what the current revision keeps."""
        forms, self.forms = self.forms, _NOTHING
        if not self._is_past:
            self._keep(tuple(forms.items()))
        self._value = self._object = None

    def _keep(self, made: Iterable[tuple[Any, Any]]) -> None:
        """Pack the labels, and an encoded form of those that were made; keep what is none in the cache."""
        kept, form = None, b""
        for key, what in made:
            if type(key) is tuple:
                continue
            if not isinstance(what, bytes):
                self.cache[key] = what
            elif kept is None:
                kept, form = key, what
        if self._kept is None:
            packed = self._own_pack or packing.pack(self.value)
            self._packed, self._decoder, self._kept = packing.with_form(packed, self.labels, form), None, kept

    def _unpacked(self) -> Obj:
        """Return the value of what is packed."""
        packed = self._own_pack
        return packing.value_of(packed) if self._decoder is None else self._decoder.decode(self.key, self._packed)

    def _unpack(self) -> Obj:
        value = self._value = self._unpacked()
        if self._recent is not None and (self._is_past or not self._was_unpacked):
            self._recent.add(self)
        self._was_unpacked = True
        return value


class RecentEntries:
    """The entries that were written last, or read a first time. They stay unpacked, since watchers are about to ask for
    them.

    `limit` bounds the bytes of their packed values. Unpacked and encoded, they take about ten times as much.
    """

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._entries: deque[Entry] = deque()
        self._lock = Lock()  # a thread may unpack an entry while the event loop packs another

    def add(self, entry: Entry) -> None:
        """Add an entry; drop the unpacked values of the oldest ones, but not of the last two."""
        with self._lock:
            if entry.is_recent:
                return
            entry.is_recent = True
            self._entries.append(entry)
            self._size += EVENT_SIZE + entry.packed_size
            while self._size > self._limit and len(self._entries) > AT_LEAST_RECENT:
                oldest = self._entries.popleft()
                self._size -= EVENT_SIZE + oldest.packed_size
                oldest.is_recent = False
                oldest.drop_unpacked()

    def clear(self) -> None:
        """Forget all entries, which stay as they are."""
        self._clear()

    def drop_unpacked(self) -> None:
        """Drop the unpacked values of all entries, and forget them."""
        for entry in self._clear():
            entry.drop_unpacked()

    def _clear(self) -> list[Entry]:
        """Forget all entries; return them."""
        with self._lock:
            entries = [*self._entries]
            self._entries.clear()
            self._size = 0
            for entry in entries:
                entry.is_recent = False
        return entries


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
    """All entries of a store, in the order of their keys, at a revision.

    history  the writes that have led there, all since revision 1; empty if they were not wanted, or forgotten in part
    """

    entries: tuple[Entry, ...]
    revision: int
    history: tuple[Event, ...] = ()


NOTHING_STORED = StoreSnapshot((), 1)


class Lookup(NamedTuple):
    """A question that an index can answer: which entries have one of some texts.

    name  of the index; it stands for `read`
    """

    name: str
    read: Read
    texts: Collection[str]


class Interest:
    """The writes that a watch is told of: all of them, unless a subclass knows better.

    lookup  finds the interest by a text of the entry that a write makes or replaces: no other write matters to it
    """

    lookup = Lookup("", lambda _: "", ("",))  # of all

    def __call__(self, event: Event) -> bool:
        """Report whether a write matters."""
        return True


ALL_WRITES = Interest()


class Watch:
    """Writes under a prefix, in order, from a revision on.

    queue      the writes that the reader has not taken yet; it takes them with `take`
    interest   which writes are queued, once the watch has begun
    wake       called on each of them
    ended      set if no more writes are of interest: the reader takes what is queued, and is done
    overflown  set, and nothing queued any more, once the writes that wait take more than `limit` bytes (see
               `Event.size`): the reader is cut off. What was written before the watch began does not count.
    """

    __slots__ = ("_size", "closed", "ended", "interest", "limit", "overflown", "prefix", "queue", "wake")

    def __init__(self, prefix: str, limit: int, backlog: Iterable[Event] = (), interest: Interest = ALL_WRITES) -> None:
        self.prefix = prefix
        self.interest = interest
        self.queue: deque[Event] = deque(backlog)
        self._size = sum(event.size for event in self.queue)
        self.limit = limit + self._size
        self.ended = False
        self.overflown = False
        self.closed = False
        self.wake: Callable[[], None] = _nobody

    def offer(self, event: Event, size: int) -> None:
        """Queue a write of a size (see `Event.size`), or cut off a reader that is too slow."""
        self._size += size
        if self._size > self.limit:
            self.cut_off()
            return
        if not self.overflown:
            self.queue.append(event)
        self.wake()

    def take(self) -> Event:
        """Remove the oldest write from the queue and return it. Raises IndexError."""
        event = self.queue.popleft()
        self._size = self._size - event.size if self.queue else 0
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
    """A store. Keys are read in their order; a prefix ends with a slash, or is a key that is watched.

    suspends  whether a method may wait for something, so that others write meanwhile
    expires   whether events are deleted without a call when their time is over
    """

    suspends: bool
    expires: bool

    async def open(self) -> None:
        """Open the place where the objects are kept, and read what is there. Raises StorageError."""

    async def close(self) -> None:
        """Write what is not written yet, and let the place go."""

    async def check(self) -> None:
        """Raise StorageError unless the place can be read now."""

    async def size(self) -> int | None:
        """Return the bytes of the file in which the objects are kept, None if there is none. Raises StorageError."""

    @property
    def revision(self) -> int:
        """Return the revision of the last write."""

    @property
    def compacted(self) -> int:
        """Return the oldest revision that can be read, 0 if all of them can."""

    async def catch_up(self) -> None:
        """Wait until this process knows what was written before, by whomever. Raises StatusError."""

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

    async def find(self, prefix: str, lookup: Lookup) -> list[Entry] | None:
        """Return the entries under a prefix that a lookup finds, as far as they are known here.

        None if they are not known without looking at every entry.
        """

    async def create(self, key: str, value: Obj, stored_as: Obj | None = None) -> Entry:
        """Store a new key; return its entry. Raises KeyExistsError.

        stored_as  what is stored if it is not the value: the value without defaults, which whoever decodes it adds
        """

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        """Replace the value of a key; return its entry. Raises RevisionConflictError unless it is at `expected`."""

    async def delete(self, key: str, expected: int) -> Entry:
        """Delete a key; return the entry of the deletion. Raises RevisionConflictError unless it is at `expected`."""

    def watch(self, prefix: str, after: int, *, interest: Interest = ALL_WRITES, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch of the writes after a revision, to be given back with `unwatch`. Raises CompactedError."""

    def end_watches(self, prefix: str) -> None:
        """End the watches on a prefix or a part of it, once their readers have taken what is queued."""

    def unwatch(self, watch: Watch) -> None:
        """End a watch."""

    def count(self, prefix: str) -> int:
        """Return the number of keys under a prefix."""

    def watching(self, prefix: str, key: str = "") -> int:
        """Return the number of watches on a prefix or a part of it; with a key, of those to which it belongs."""

    def snapshot(self, *, with_history: bool = False) -> StoreSnapshot:
        """Return all entries that are stored now."""

    async def rewind(self, snapshot: StoreSnapshot) -> None:
        """Store what a snapshot holds, nothing else, at its revision, and cut off every watch.

        Without the history of the snapshot, what was before it cannot be read any more.
        """

    async def restore(self, snapshot: StoreSnapshot) -> None:
        """Store what a snapshot holds, nothing else, and cut off every watch.

        Objects have the revisions that they had. Those of the store go on; what was before cannot be read any more.
        """

    async def compact(self, revision: int) -> None:
        """Forget the values before a revision, and the writes up to it. Raises FutureRevisionError."""
