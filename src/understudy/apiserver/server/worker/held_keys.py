"""Keys of the store that are not to change for a while, since a request beside the event loop depends on them.

A request in a thread begins anew when others have changed what it read. After some tries it holds these keys: requests
that write them wait until it is done, all others go on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable


class HeldKeys:
    """The keys, and prefixes of keys with a slash at their end, that are held; used on the event loop."""

    def __init__(self) -> None:
        self._held = Counter[str]()
        self._released = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, keys: Iterable[str]) -> None:
        """Hold some keys; each is to be released as often as it is held."""
        self._held.update(keys)

    def release(self, keys: Iterable[str]) -> None:
        """Release some keys."""
        self._held -= Counter(keys)
        self._released.set()
        self._released = asyncio.Event()

    async def wait(self, key: str) -> None:
        """Wait until nobody holds a key, or any of those with it as a prefix."""
        while any(_covers(held, key) or _covers(key, held) for held in self._held):
            await self._released.wait()


class Hold:
    """The keys that one request holds."""

    def __init__(self, held: HeldKeys) -> None:
        self._held = held
        self._keys: set[str] = set()

    def add(self, keys: set[str]) -> None:
        """Hold more keys."""
        self._held.hold(keys - self._keys)
        self._keys |= keys

    def end(self) -> None:
        """Release all of them."""
        keys, self._keys = self._keys, set()
        if keys:
            self._held.release(keys)


def _covers(held: str, key: str) -> bool:
    """Report whether a key is the one that is held, or has it as a prefix."""
    return key == held or (held.endswith("/") and key.startswith(held))
