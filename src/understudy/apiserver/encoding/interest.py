"""Tells which writes matter to the watches with a selector, so that the others wake none of them."""

from __future__ import annotations

from weakref import WeakValueDictionary

from understudy.apiserver.encoding.encoded import lookup, matches
from understudy.apiserver.storage.interface import Event, Interest
from understudy.kinds.declarations.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.selectors.selector import Selector


class SelectorInterest(Interest):
    """The writes after or before which a selector matches an object of a kind."""

    def __init__(self, selector: Selector, kind: Kind) -> None:
        self._selector = selector
        self._kind = kind
        if indexed := selector.indexed():
            self.lookup = lookup(indexed[0], selector, kind)

    def __call__(self, event: Event) -> bool:
        """Report whether a write matters. One that cannot be read does: whoever sends it says why."""
        try:
            return self._matches_either(event)
        except StatusError:
            return True

    def _matches_either(self, event: Event) -> bool:
        if not event.deleted and matches(self._selector, event.entry, self._kind):
            return True
        return event.previous is not None and matches(self._selector, event.previous, self._kind)


class Interests:
    """The interests of the open watches of a server: watches of a kind with the same selector share one."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[object, SelectorInterest] = WeakValueDictionary()

    def of(self, selector: Selector, kind: Kind) -> Interest:
        """Return the interest of a selector in a kind."""
        key = (selector.key, kind)
        interest = self._open.get(key)
        if interest is None:
            interest = self._open[key] = SelectorInterest(selector, kind)
        return interest
