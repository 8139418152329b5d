"""Items of lists in the form that clients get, which equal lists share: those that are sent, and those made last."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from weakref import WeakValueDictionary

from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.turns import Turns

KEPT = 2 << 20  # bytes of items that are kept when nobody is sent them any more


class Items(list[bytes]):
    """The items of a list of entries with what separates them, in parts, once they are made."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__()
        self.entries = entries
        self.is_made = False


class SharedItems:
    """The items of the lists that one server sends, or has made last.

    Clients that do not read what they ask for would have the server hold a copy each; and what many clients list, such
    as the nodes of a cluster, is made once until it changes.
    """

    def __init__(self) -> None:
        self._items: WeakValueDictionary[Hashable, Items] = WeakValueDictionary()
        self._kept: deque[Items] = deque()  # oldest first
        self._kept_bytes = 0

    async def of(
        self, form: Hashable, entries: list[Entry], make: Callable[[list[Entry]], Awaitable[list[bytes]]]
    ) -> Items:
        """Return the items of entries in a form, which are made unless there are equal ones."""
        turns, key = Turns(), (form, entries[0].key, len(entries))
        while (items := self._items.get(key)) is not None and items.entries == entries:
            if items.is_made:
                return items
            await turns.next()  # of the client for whom they are being made
        items = self._items[key] = Items(entries)
        try:
            items += await make(entries)
            items.is_made = True
        finally:
            if not items.is_made and self._items.get(key) is items:
                del self._items[key]
        self._keep(items)
        return items

    def _keep(self, items: Items) -> None:
        """Keep items in place of the oldest ones, unless they are too many."""
        size = sum(map(len, items))
        if size > KEPT:
            return
        self._kept.append(items)
        self._kept_bytes += size
        while self._kept_bytes > KEPT:
            self._kept_bytes -= sum(map(len, self._kept.popleft()))
