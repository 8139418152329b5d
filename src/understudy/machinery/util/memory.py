"""Holders of what grows and shrinks, which can all be asked to take less memory once much was freed.

Python gives memory back in pieces of 1 MiB, and only where nothing in one is in use any more. So a few small objects
that are older than what was freed around them may keep tens of MiB; new ones in their place are put where others are.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakSet

ROOMY = 512  # bytes of a container for each item, above which it is made smaller: a full one takes about 100
SMALL = 1 << 16  # bytes of a container that may be as empty as it is


class Holder(Protocol):
    """Holds something for as long as a server runs."""

    def give_back(self) -> None:
        """Take as little memory as possible, in the thread of the event loop. Nothing is lost."""


_holders: WeakSet[Holder] = WeakSet()


def gives_back(holder: Holder) -> None:
    """Ask a holder to give back, for as long as it lives, once much memory was freed."""
    _holders.add(holder)


def give_back() -> None:
    """Let all holders give back."""
    for holder in tuple(_holders):
        holder.give_back()


def shrink(*containers: dict[Any, Any] | set[Any]) -> None:
    """Make containers smaller that once had many more items: their size only ever grows while items are removed."""
    for container in containers:
        size = container.__sizeof__()
        if size < SMALL or size < ROOMY * len(container):
            continue
        if isinstance(container, set):
            items = tuple(container)
            container.clear()
            container.update(items)
        else:  # the methods of dict itself: a SortedDict keeps its order beside it
            pairs = tuple(container.items())
            dict.clear(container)
            dict.update(container, pairs)
