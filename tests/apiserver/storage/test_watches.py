"""A write is told to the watches whose prefix and interest it meets, and costs nothing for the others."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from random import Random

import pytest

import understudy
from tests.apiserver.storage.places import PREFIX, thing
from tests.counting import counted_calls
from understudy.apiserver.storage.interface import ALL_WRITES, Entry, Event, Interest, Lookup, Watch
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.errors import StatusError

SOURCES = understudy.__path__[0]
EVENTS = ("red", "red", "blue", "", "unreadable")


def color(entry: Entry) -> str | None:
    """Return the color of an entry. Raises StatusError for one that cannot be read."""
    text: str | None = entry.value.get("color")
    if text == "unreadable":
        raise StatusError(500, "", "unreadable")
    return text


class Colored(Interest):
    """Writes of things that have or had one of some colors, found by an index or not."""

    def __init__(self, colors: Collection[str], *, by_index: bool) -> None:
        self._colors = colors
        if by_index:
            self.lookup = Lookup("color", color, colors)

    def __call__(self, event: Event) -> bool:
        try:
            return color(event.entry) in self._colors or (
                event.previous is not None and color(event.previous) in self._colors
            )
        except StatusError:
            return True


INTERESTS = [
    ALL_WRITES,
    *(
        Colored(colors, by_index=by_index)
        for colors in ({"red"}, {"blue"}, {"red", "blue"})
        for by_index in (True, False)
    ),
]
PREFIXES = ["/", "/registry/", PREFIX, f"{PREFIX}of-a/", "/registry/others/", f"{PREFIX}1"]


async def write(store: MemoryStore, chance: Random) -> None:
    """Create, update or delete a thing, or something else."""
    key, text = f"{chance.choice(PREFIXES[2:5])}{chance.randrange(9)}", chance.choice(EVENTS)
    entry = store.peek(key)
    if entry is None:
        await store.create(key, thing(key, color=text))
    elif chance.random() < 0.4:
        await store.delete(key, entry.revision)
    else:
        await store.update(key, thing(key, color=text), entry.revision)


@pytest.mark.parametrize("seed", range(5))
async def test_writes_are_told_as_if_each_watch_were_asked(seed: int) -> None:
    """The watches that are told of a write are those of which prefix and interest say so, in the order of their age."""
    chance, store, told = Random(seed), MemoryStore(), list[Watch]()
    everything, opened = store.watch("/", store.revision), list[Watch]()
    for _ in range(300):
        if chance.random() < 0.4:
            watch = store.watch(chance.choice(PREFIXES), store.revision, interest=chance.choice(INTERESTS))
            watch.wake = partial(told.append, watch)
            opened.append(watch)
        elif opened and chance.random() < 0.3:
            store.unwatch(opened.pop(chance.randrange(len(opened))))
        await write(store, chance)
        event = everything.take()
        assert told == [watch for watch in opened if event.entry.key.startswith(watch.prefix) and watch.interest(event)]
        told.clear()
        key = event.entry.key
        for prefix in PREFIXES:
            opened_there = [watch for watch in (everything, *opened) if watch.prefix.startswith(prefix)]
            assert store.watching(prefix) == len(opened_there)
            assert store.watching(prefix, key) == sum(key.startswith(watch.prefix) for watch in opened_there)
    for watch in (everything, *opened):
        store.unwatch(watch)
    assert [*store._watches] == []
    assert not store._watches._indexes
    assert not store._watches._counts


async def calls_of_a_write(prefix: str, interest: Interest, watches: int) -> int:
    """Return the calls of functions that a write of a red thing is beside a number of watches."""
    store = MemoryStore()
    for _ in range(watches):
        store.watch(prefix, store.revision, interest=interest)
    with counted_calls(SOURCES) as calls:
        await store.create(f"{PREFIX}a", thing("a", color="red"))
        store.watching(PREFIX, f"{PREFIX}a")
    return calls.count


@pytest.mark.parametrize(
    ("prefix", "interest"),
    [(f"{PREFIX}of-a/", ALL_WRITES), ("/registry/others/", ALL_WRITES), (PREFIX, Colored({"blue"}, by_index=True))],
    ids=["prefix below", "prefix beside", "interest"],
)
async def test_watches_that_are_not_told_cost_nothing(prefix: str, interest: Interest) -> None:
    """A write is the same work beside one watch of something else and beside a thousand."""
    assert await calls_of_a_write(prefix, interest, 1000) == await calls_of_a_write(prefix, interest, 1)
