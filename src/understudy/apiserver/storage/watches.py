"""The open watches of a store, so ordered that a write costs nothing for those that are not told of it.

    prefix              lookup                  text    interests, each with its watches
    /registry/pods/     -                       -       all: a b        app!=web: c
                        field spec.nodeName     n1      spec.nodeName=n1: d
                                                n2      spec.nodeName=n2: e f
    /registry/pods/x/   label app               web     app=web: g      app=web,tier!=1: h

A write is told to watches on each prefix of its key, and on the key itself. Of the interests with a lookup only those
are asked that want the text that the object has now, or had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from understudy.apiserver.storage.interface import Event, Interest, Lookup, Watch
from understudy.machinery.errors import StatusError
from understudy.machinery.util.caches import cache_short_texts

_Interests = dict[Interest, dict[Watch, None]]


class _Index:
    """The interests that share a lookup, by the texts that they want."""

    __slots__ = ("by_text", "read")

    def __init__(self, lookup: Lookup) -> None:
        self.read = lookup.read
        self.by_text: dict[str | None, _Interests] = {}

    def add(self, watch: Watch) -> None:
        """Add a watch under each text that it wants."""
        for text in watch.interest.lookup.texts:
            self.by_text.setdefault(text, {}).setdefault(watch.interest, {})[watch] = None

    def remove(self, watch: Watch) -> None:
        """Remove a watch, and what is empty without it."""
        for text in watch.interest.lookup.texts:
            interests = self.by_text[text]
            del interests[watch.interest][watch]
            if not interests[watch.interest]:
                del interests[watch.interest]
            if not interests:
                del self.by_text[text]

    def find(self, event: Event, interests: _Interests) -> None:
        """Add the interests that a write matters to. One that cannot be read does: whoever sends it says why."""
        previous = event.previous
        try:
            texts = {self.read(event.entry)} if previous is None else {self.read(event.entry), self.read(previous)}
        except StatusError:
            texts = {*self.by_text}
        for text in texts:
            for interest, watches in self.by_text.get(text, {}).items():
                if interest not in interests and interest(event):
                    interests[interest] = watches


class Watches:
    """The open watches of a store, in the order in which they began."""

    def __init__(self) -> None:
        self._numbers = count()
        self._began: dict[Watch, int] = {}
        self._indexes: dict[str, dict[str, _Index]] = {}  # by prefix and the name of the lookup
        self._counts: dict[str, int] = {}  # of the watches on each prefix

    def __iter__(self) -> Iterator[Watch]:
        return iter(tuple(self._began))  # they may end meanwhile, and threads may ask

    def add(self, watch: Watch) -> None:
        """Add a watch that begins now."""
        self._began[watch] = next(self._numbers)
        self._counts[watch.prefix] = self._counts.get(watch.prefix, 0) + 1
        lookup = watch.interest.lookup
        indexes = self._indexes.setdefault(watch.prefix, {})
        index = indexes.get(lookup.name)
        if index is None:
            index = indexes[lookup.name] = _Index(lookup)
        index.add(watch)

    def discard(self, watch: Watch) -> None:
        """Remove a watch, if it is open."""
        if self._began.pop(watch, None) is None:
            return
        self._counts[watch.prefix] -= 1
        indexes, name = self._indexes[watch.prefix], watch.interest.lookup.name
        indexes[name].remove(watch)
        if not indexes[name].by_text:
            del indexes[name]
        if not indexes:
            del self._indexes[watch.prefix], self._counts[watch.prefix]

    def clear(self) -> None:
        """Forget all watches."""
        for part in (self._began, self._indexes, self._counts):
            part.clear()

    def told_of(self, event: Event) -> list[Watch]:
        """Return the watches that are told of a write, those that began first in front."""
        watches, parts = list[Watch](), 0
        for prefix in _prefixes(event.entry.key):
            if prefix not in self._indexes:
                continue
            interests: _Interests = {}
            for index in self._indexes[prefix].values():
                index.find(event, interests)
            for group in interests.values():
                watches += group
                parts += 1
        if parts > 1:
            watches.sort(key=self._began.__getitem__)
        return watches

    def count(self, prefix: str, key: str = "") -> int:
        """Return the number of watches on a prefix or a part of it; with a key, of those to which it belongs."""
        if key:
            return sum(self._counts.get(each, 0) for each in _prefixes(key) if each.startswith(prefix))
        return sum(watch.prefix.startswith(prefix) for watch in self)


def _prefixes(key: str) -> tuple[str, ...]:
    """Return the prefixes of a key that end with a slash, the shortest first, and the key."""
    folders = _folders(key[: key.rfind("/") + 1])
    return folders if key.endswith("/") else (*folders, key)


@cache_short_texts(1024)
def _folders(prefix: str) -> tuple[str, ...]:
    """Return a prefix that ends with a slash, and those in which it is."""
    return tuple(prefix[: at + 1] for at, character in enumerate(prefix) if character == "/")
