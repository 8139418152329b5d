"""Indexes of the entries of a store, by a text that is read from each: the value of a label, or of a field.

An index is made when it is first asked for, and reads what was written since whenever it is asked again, so it costs
writers nothing. It holds keys, not entries.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Protocol

from understudy.apiserver.storage.interface import CompactedError, Entry, Event, Lookup, Read
from understudy.apiserver.storage.turns import Turns

MOST = 8  # indexes that are kept
AT_ONCE = 64  # entries or writes that are read until the time is looked at


class Indexed(Protocol):
    """The part of a store that indexes read."""

    @property
    def revision(self) -> int:
        """Return the revision of the last write."""

    def scan(self, prefix: str, start: str = "", most: int = 0) -> list[Entry]:
        """Return the first entries under a prefix, from a key on."""

    def writes(self, after: int, most: int) -> list[Event]:
        """Return the first writes after a revision. Raises CompactedError."""


class Index:
    """The keys of the entries under a prefix as of a revision, by their texts."""

    __slots__ = ("_keys", "_prefix", "_read", "_start", "_unsorted", "revision", "was_asked")

    def __init__(self, prefix: str, read: Read, revision: int) -> None:
        self._prefix = prefix
        self._read = read
        self._keys: dict[str, str | dict[str, None]] = {}  # one, or several
        self._unsorted: set[str] = set()  # texts to whose keys some were added
        self._start: str | None = ""  # the key from which on nothing is read; None once all is
        self.revision = revision
        self.was_asked = True

    def read_some(self, store: Indexed) -> bool:
        """Read some of the entries that are stored; report whether there may be more.

        They may be newer than `revision`: the writes that follow lead to them in any case.
        """
        if self._start is None:
            return False
        entries = store.scan(self._prefix, self._start, AT_ONCE)
        for entry in entries:
            self.put(entry)
            self._start = entry.key + "\0"
        if len(entries) < AT_ONCE:
            self._start = None
        return self._start is not None

    def put(self, entry: Entry) -> None:
        """Add an entry, or let it stay."""
        text = self._read(entry)
        if text is None:
            return
        held = self._keys.get(text)
        if held is None or held == entry.key:
            self._keys[text] = entry.key
        elif isinstance(held, str):
            self._keys[text] = {held: None, entry.key: None}
            self._unsorted.add(text)
        elif entry.key not in held:
            held[entry.key] = None
            self._unsorted.add(text)

    def follow(self, event: Event) -> None:
        """Follow the next write."""
        self.revision = event.revision
        if not event.entry.key.startswith(self._prefix):
            return
        previous = event.previous
        if previous is not None and (event.deleted or self._read(previous) != self._read(event.entry)):
            self._remove(previous)
        if not event.deleted:
            self.put(event.entry)

    def _remove(self, entry: Entry) -> None:
        text = self._read(entry)
        held = None if text is None else self._keys.get(text)
        if text is None or held is None:
            return
        if isinstance(held, dict):
            held.pop(entry.key, None)
        if not held or held == entry.key:
            del self._keys[text]
            self._unsorted.discard(text)

    def keys(self, texts: Collection[str]) -> list[str]:
        """Return the keys of the entries that have one of some texts, in their order."""
        for text in self._unsorted.intersection(texts):
            self._keys[text] = dict.fromkeys(sorted(self._keys[text]))
        self._unsorted.difference_update(texts)
        groups = [held for text in texts if (held := self._keys.get(text)) is not None]
        keys = [key for held in groups for key in ((held,) if isinstance(held, str) else held)]
        return sorted(keys) if len(groups) > 1 else keys


class Indexes:
    """The indexes of a store that were asked for last."""

    def __init__(self, store: Indexed) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, str], Index] = OrderedDict()

    async def find(self, prefix: str, lookup: Lookup) -> Sequence[str] | None:
        """Return the keys of the entries under a prefix that a lookup finds; others have their turn meanwhile.

        None if there is no such index now: what was stored has been replaced or compacted meanwhile.
        """
        turns, kept, name = Turns(), self._kept, lookup.name
        index = kept.get((prefix, name))
        if index is None:  # it is kept from now on: whoever asks next goes on where the time of a request was over
            index = kept[prefix, name] = Index(prefix, lookup.read, self._store.revision)
            if len(kept) > MOST:
                kept.popitem(last=False)
        kept.move_to_end((prefix, name))
        index.was_asked = True
        try:
            while index.read_some(self._store):
                if turns.is_over:
                    await turns.next()
            while events := self._store.writes(index.revision, AT_ONCE):
                for event in events:
                    index.follow(event)
                if turns.is_over:
                    await turns.next()
        except CompactedError:
            kept.pop((prefix, name), None)
            return None
        return None if kept is not self._kept else index.keys(lookup.texts)

    def drop_unasked(self) -> None:
        """Drop the indexes that nobody has asked for since the last time."""
        for name, index in tuple(self._kept.items()):
            if not index.was_asked:
                del self._kept[name]
            index.was_asked = False

    def clear(self) -> None:
        """Drop all indexes, those too that are being made."""
        self._kept = OrderedDict()
