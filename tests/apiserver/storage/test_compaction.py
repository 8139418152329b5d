"""Compaction by age."""

from __future__ import annotations

import pytest

from tests.clock import FixedClock
from understudy.apiserver.storage.compaction import compact_periodically
from understudy.apiserver.storage.interface import CompactedError
from understudy.apiserver.storage.memory import MemoryStore

PREFIX = "/registry/things/"


class TimeIsUpError(Exception):
    """The end of a test's time."""


def oldest_revision(store: MemoryStore) -> int:
    """Return the oldest revision that a watch can start at."""
    try:
        store.unwatch(store.watch(PREFIX, 0))
    except CompactedError as error:
        return error.revision
    return 0


async def test_each_turn_compacts_up_to_the_turn_before() -> None:
    """Everything younger than an interval can be read, nothing older than two; the first turn only remembers."""
    clock, store = FixedClock(0), MemoryStore()
    history = []

    async def sleep(seconds: float) -> None:
        history.append((clock.seconds, store.revision, oldest_revision(store)))
        if clock.seconds >= 900:
            raise TimeIsUpError
        clock.seconds += seconds
        for number in range(10):
            await store.create(f"{PREFIX}{clock.seconds}-{number}", {"metadata": {"name": "a"}})

    with pytest.raises(TimeIsUpError):
        await compact_periodically(store, 300, sleep)
    assert history == [(0, 1, 0), (300, 11, 0), (600, 21, 11), (900, 31, 21)]


async def test_a_quiet_store_keeps_its_newest_revision() -> None:
    """Without writes, compaction comes to the current revision; it can still be read and watched from."""
    store = MemoryStore()
    await store.create(PREFIX + "a", {"metadata": {"name": "a"}})
    turns = iter(range(4))

    async def sleep(_: float) -> None:
        if next(turns, None) is None:
            raise TimeIsUpError

    with pytest.raises(TimeIsUpError):
        await compact_periodically(store, 300, sleep)
    assert oldest_revision(store) == store.revision == 2
    assert len((await store.range(PREFIX, revision=2)).entries) == 1
