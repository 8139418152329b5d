"""A store in memory.

    revision   write             live                past                            log
    2          create a          a@2                 a: [2]                          [a@2]
    3          create b          a@2 b@3             a: [2] b: [3]                   [a@2 b@3]
    4          update a          a@4 b@3             a: [2 4] b: [3]                 [a@2 b@3 a@4]
    5          delete b          a@4                 a: [2 4] b: [3 5x]              [a@2 b@3 a@4 b@5x]
    -          compact(4)        a@4                 a: [4] b: [3 5x]                [b@5x]

`live` holds the current entries; `past` holds every revision of each key that can still be read (x: deleted); the `log`
serves watches that start in the past. `_commit` is the one place that writes all three and wakes the watches. It also
packs what is written, and compacts the oldest part of the history when all takes too many bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

from sortedcontainers import SortedDict

from understudy.apiserver.storage.indexes import Indexes
from understudy.apiserver.storage.interface import (
    ALL_WRITES,
    WATCH_LIMIT,
    CompactedError,
    Entry,
    Event,
    FutureRevisionError,
    Interest,
    KeyExistsError,
    Lookup,
    Range,
    RecentEntries,
    RevisionConflictError,
    StoreSnapshot,
    Watch,
)
from understudy.apiserver.storage.turns import Turns
from understudy.apiserver.storage.watches import Watches
from understudy.machinery.types import Obj
from understudy.machinery.util.memory import gives_back, shrink

# Bytes of history that are remembered at most (see `Event.size`); when there are more, the oldest part is compacted.
HISTORY_LIMIT = 64 << 20
OLDEST = 64  # which part of the history that is: a half takes 0.1 s, for which nobody is answered
AT_ONCE = 1000  # writes that a compaction forgets until others have their turn

_revision = attrgetter("revision")


def _after(prefix: str) -> str:
    """Return the first key behind all keys with a prefix, which ends with a slash."""
    return prefix[:-1] + "0"  # the character behind the slash


def _renewed(entry: Entry) -> Entry:
    """Return a new entry: what was made of the old one depends on the definitions of its time."""
    return entry.at_revision(entry.revision)


class MemoryStore:
    """A store in memory (see `Store`). No method suspends but for `compact`, which lets others have their turn."""

    suspends = False
    expires = False

    def __init__(self, history_limit: int = HISTORY_LIMIT) -> None:
        self._revision = 1
        self._compacted = 0  # watches can start here, reads at it or later
        self._history_limit = history_limit
        self._history_size = 0  # of the events in the log
        self._recent = RecentEntries()
        self._live: SortedDict[str, Entry] = SortedDict()
        self._past: SortedDict[str, Entry | list[Entry]] = SortedDict()  # lists of two and more
        self._log: list[Event] = []
        self._watches = Watches()
        self._indexes = Indexes(self)
        gives_back(self)

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compacted(self) -> int:
        return self._compacted

    async def open(self) -> None:
        """Do nothing: there is no place to open."""

    async def close(self) -> None:
        """Do nothing: there is no place to let go."""

    async def check(self) -> None:
        """Do nothing: memory can always be read."""

    async def size(self) -> int | None:
        return None

    async def catch_up(self) -> None:
        """Do nothing: there is nobody else who writes."""

    async def get(self, key: str) -> Entry | None:
        return self.peek(key)

    def peek(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        entry: Entry | None = self._live.get(key)
        return entry

    def scan(self, prefix: str, start: str = "", most: int = 0) -> list[Entry]:
        """Return the first entries under a prefix, from a key on, in the order of their keys; all if `most` is 0."""
        keys = self._live.irange(max(prefix, start), _after(prefix), (True, False))
        return self._entries(islice(keys, most) if most else keys)

    def _entries(self, keys: Iterable[str]) -> list[Entry]:
        """Return the entries of keys. There may be a hundred thousand: `map` needs half the time of a comprehension."""
        return list(map(self._live.__getitem__, keys))

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        if revision > self._revision:
            raise FutureRevisionError
        if revision and revision < self._compacted:
            raise CompactedError(self._compacted)
        first, behind = max(prefix, start), _after(prefix)
        if not revision or revision == self._revision:
            entries = self.scan(prefix, start, limit)
            remaining = 0
            if limit and len(entries) == limit:
                remaining = self._live.bisect_left(behind) - self._live.bisect_left(first) - limit
            return Range(entries, self._revision, remaining)
        existing = []
        for key in self._past.irange(first, behind, (True, False)):
            versions = self._versions(key)
            at = bisect_right(versions, revision, key=_revision) - 1
            if at >= 0 and not versions[at].is_deletion:
                existing.append(versions[at])
        entries = existing[:limit] if limit else existing
        return Range(entries, revision, len(existing) - len(entries))

    async def find(self, prefix: str, lookup: Lookup) -> list[Entry] | None:
        keys = await self._indexes.find(prefix, lookup)
        return None if keys is None else self._entries(keys)

    async def create(self, key: str, value: Obj, stored_as: Obj | None = None) -> Entry:
        if key in self._live:
            raise KeyExistsError
        entry = Entry(key, value, self._revision + 1)
        entry.is_outdated = stored_as is not None
        self._commit(Event(False, entry, None))
        return entry

    async def update(self, key: str, value: Obj, expected: int) -> Entry:
        current = self._expect(key, expected)
        entry = Entry(current.key, value, self._revision + 1)
        self._commit(Event(False, entry, current))
        return entry

    async def delete(self, key: str, expected: int) -> Entry:
        current = self._expect(key, expected)
        entry = current.at_revision(self._revision + 1)
        self._commit(Event(True, entry, current))
        return entry

    def _expect(self, key: str, expected: int) -> Entry:
        current = self.peek(key)
        if current is None or current.revision != expected:
            raise RevisionConflictError(current)
        return current

    def _commit(self, event: Event) -> None:
        """Write an event to all parts of the store, and wake the watches."""
        entry = event.entry
        if event.deleted:
            entry.is_deletion = True
            entry.replace()
        entry.pack(self._recent)
        if event.previous is not None:
            event.previous.replace()
        self._revision = entry.revision
        if event.deleted:
            del self._live[entry.key]
        else:
            self._live[entry.key] = entry
        past = self._past.get(entry.key)
        if isinstance(past, list):
            past.append(entry)
        else:
            self._past[entry.key] = entry if past is None else [past, entry]
        self._log.append(event)
        size = event.size
        self._history_size += size
        if self._history_size > self._history_limit:
            self._forget_oldest()
        for watch in self._watches.told_of(event):
            watch.offer(event, size)

    def watch(self, prefix: str, after: int, *, interest: Interest = ALL_WRITES, limit: int = WATCH_LIMIT) -> Watch:
        """Return a watch that begins with the writes after a revision. Raises CompactedError."""
        start = self._place(after)
        backlog = (event for event in islice(self._log, start, None) if event.entry.key.startswith(prefix))
        watch = Watch(prefix, limit, backlog, interest)
        self._watches.add(watch)
        return watch

    def writes(self, after: int, most: int) -> list[Event]:
        """Return the first writes after a revision. Raises CompactedError."""
        start = self._place(after)
        return self._log[start : start + most]

    def _place(self, after: int) -> int:
        """Return the place in the log of the first write after a revision. Raises CompactedError."""
        if after < self._compacted:
            raise CompactedError(self._compacted)
        return bisect_right(self._log, after, key=_revision)

    def unwatch(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def end_watches(self, prefix: str) -> None:
        for watch in self._watches:
            if watch.prefix.startswith(prefix):
                watch.end()

    def count(self, prefix: str) -> int:
        return int(self._live.bisect_left(_after(prefix)) - self._live.bisect_left(prefix))

    def watching(self, prefix: str, key: str = "") -> int:
        return self._watches.count(prefix, key)

    def snapshot(self, *, with_history: bool = False) -> StoreSnapshot:
        history = tuple(self._log) if with_history and not self._compacted else ()
        return StoreSnapshot(tuple(self._live.values()), self._revision, history)

    async def rewind(self, snapshot: StoreSnapshot) -> None:
        forgotten = not snapshot.history and snapshot.revision > 1
        self._revision, self._compacted = snapshot.revision, snapshot.revision if forgotten else 0
        self._hold(snapshot.entries)
        self._recall(snapshot.history)

    def _recall(self, history: Sequence[Event]) -> None:
        """Know the writes again that have led to the entries that are held."""
        latest: dict[str, Entry] = {}
        replaced = defaultdict[str, list[Entry]](list)
        for event in history:
            key, revision = event.entry.key, event.entry.revision
            entry = self.peek(key)
            if entry is None or entry.revision != revision:
                entry = _renewed(event.entry)
                entry.replace()
                entry.pack(self._recent)
                entry.is_deletion = event.deleted
                replaced[key].append(entry)
            previous = latest.pop(key, None)
            if not event.deleted:
                latest[key] = entry
            self._log.append(Event(event.deleted, entry, previous))
            self._history_size += event.size
        for key, versions in replaced.items():
            self._remember(key, [*versions, *self._versions(key)])

    def _versions(self, key: str) -> list[Entry]:
        """Return the revisions of a key that can be read."""
        past = self._past.get(key, [])
        return past if isinstance(past, list) else [past]

    def _remember(self, key: str, versions: list[Entry]) -> None:
        """Keep these revisions of a key."""
        if versions:
            self._past[key] = versions[0] if len(versions) == 1 else versions
        else:
            del self._past[key]

    async def restore(self, snapshot: StoreSnapshot) -> None:
        self._revision = self._compacted = max(self._revision, snapshot.revision) + 1
        self._hold(snapshot.entries)

    def _hold(self, old: Sequence[Entry]) -> None:
        """Hold the entries of another time and no history, and cut off every watch."""
        entries = {entry.key: _renewed(entry) for entry in old}
        self._history_size = 0
        self._indexes.clear()
        for part in (self._live, self._past, self._log, self._recent):
            part.clear()
        for entry in entries.values():
            entry.pack(self._recent)
        self._live.update(entries)
        self._past.update(entries)
        watches = iter(self._watches)
        self._watches.clear()
        for watch in watches:
            watch.cut_off()  # its reader may start over

    async def compact(self, revision: int) -> None:
        if revision > self._revision:
            raise FutureRevisionError
        self._compacted = max(self._compacted, revision)
        turns = Turns()
        while self._log and self._log[0].revision <= self._compacted:  # 0 if the store is cleared meanwhile
            self._forget(min(bisect_right(self._log, self._compacted, key=_revision), AT_ONCE))
            if turns.is_over:
                await turns.next()
        self._recent.drop_unpacked()
        self._indexes.drop_unasked()

    def give_back(self) -> None:
        """Drop indexes, the unpacked values of entries, and the room of those that are gone."""
        self._recent.drop_unpacked()
        self._indexes.clear()
        unpacked = (entry for entry in dict.values(self._live) if entry.is_unpacked)
        for entry in tuple(islice(unpacked, AT_ONCE)):
            entry.drop_unpacked()
        shrink(self._live, self._past)

    def _forget_oldest(self) -> None:
        """Compact at the write up to which the log takes no more bytes than it may, less a part."""
        excess, count = self._history_size - self._history_limit + self._history_limit // OLDEST, 0
        while excess > 0:
            excess -= self._log[count].size
            count += 1
        self._compacted = max(self._compacted, self._log[count - 1].revision)
        self._forget(count)

    def _forget(self, count: int) -> None:
        """Forget the oldest writes, so many of the log, which are compacted, and the values that they replaced."""
        for event in islice(self._log, count):
            self._history_size -= event.size
            versions = self._versions(event.entry.key)
            if not versions:
                continue
            at = max(bisect_right(versions, self._compacted, key=_revision) - 1, 0)
            if versions[at].is_deletion and versions[at].revision <= self._compacted:
                at += 1
            if at:
                self._remember(event.entry.key, versions[at:])
        del self._log[:count]
