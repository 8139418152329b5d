"""Indexes find what a look at every entry finds, whatever was written, compacted or replaced meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.apiserver.storage.places import PREFIX
from understudy.apiserver.storage import indexes, turns
from understudy.apiserver.storage.interface import Entry, Lookup
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.types import Obj


def color(entry: Entry) -> str | None:
    return entry.labels.get("color")


def labelled(name: str, text: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"color": text} if text else {}}}


def seen(store: MemoryStore, prefix: str, texts: set[str]) -> list[Entry]:
    """Return the entries of some colors, from a look at every entry."""
    return [entry for entry in store.scan(prefix) if color(entry) in texts]


async def write(store: MemoryStore, chance: Random) -> None:
    """Create, update or delete a thing, or something else."""
    prefix = chance.choice([PREFIX, PREFIX + "of-a/", "/registry/others/"])
    key, text = f"{prefix}{chance.randrange(40)}", chance.choice(["", "red", "red", "blue", f"rare-{chance.random()}"])
    entry = store.peek(key)
    if entry is None:
        await store.create(key, labelled(key, text))
    elif chance.random() < 0.4:
        await store.delete(key, entry.revision)
    else:
        await store.update(key, labelled(key, text), entry.revision)


@pytest.mark.parametrize("seed", range(5))
async def test_what_is_found_is_what_is_there(seed: int) -> None:
    """After any writes, compactions and restored snapshots an index finds the entries of some texts, sorted."""
    store, chance = MemoryStore(), Random(seed)
    snapshot, found = store.snapshot(), 0
    for _ in range(300):
        for _ in range(chance.randrange(12)):
            await write(store, chance)
        match chance.randrange(20):
            case 0:
                await store.compact(store.revision - chance.randrange(3))
            case 1:
                snapshot = store.snapshot(with_history=True)
            case 2:
                await store.restore(snapshot)
            case 3:
                await store.rewind(snapshot)
        prefix, texts = chance.choice([PREFIX, PREFIX + "of-a/"]), set(chance.choices(["red", "blue", "none"], k=2))
        entries = await store.find(prefix, Lookup("color", color, texts))
        if entries is None:  # compacted since the index was asked; it is made anew
            entries = await store.find(prefix, Lookup("color", color, texts))
        assert entries == seen(store, prefix, texts)
        found += len(entries)
    assert found > 1000


async def test_others_write_while_an_index_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index lets others have their turn while it reads, and misses nothing that they write."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    store, chance = MemoryStore(), Random(0)
    for number in range(1000):
        await store.create(f"{PREFIX}{number}", labelled(str(number), "red"))
    turns_of_others = 0
    for _ in range(3):
        finding = asyncio.create_task(store.find(PREFIX, Lookup("color", color, {"red"})))
        while not finding.done():
            turns_of_others += 1
            await asyncio.sleep(0)
            if turns_of_others % 5 == 0:
                await write(store, chance)
        found = finding.result()
        assert found is not None
        assert [entry.key for entry in found] == [entry.key for entry in seen(store, PREFIX, {"red"})]
    assert turns_of_others > 10


async def test_index_goes_on_after_a_request_that_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index reads no entry twice, though the requests for which it is made are given up one after the other."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    store, looked_at = MemoryStore(), list[str]()
    for number in range(1000):
        await store.create(f"{PREFIX}{number}", labelled(str(number), "red"))

    def read(entry: Entry) -> str | None:
        looked_at.append(entry.key)
        return color(entry)

    lookup = Lookup("color", read, {"red"})
    for _ in range(3):
        finding = asyncio.create_task(store.find(PREFIX, lookup))
        await asyncio.sleep(0)
        finding.cancel()
        await asyncio.wait([finding])
    assert 0 < len(looked_at) < 1000
    assert len(await store.find(PREFIX, lookup) or ()) == 1000
    assert len(looked_at) == len({*looked_at}) == 1000


async def test_index_of_what_was_replaced_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that was being made when a snapshot was restored, or that missed what was compacted, is given up."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    store = MemoryStore()
    for number in range(1000):
        await store.create(f"{PREFIX}{number}", labelled(str(number), "red"))
    for replace, snapshot in ((store.restore, store.snapshot()), (store.rewind, store.snapshot(with_history=True))):
        finding = asyncio.create_task(store.find(PREFIX, Lookup("color", color, {"red"})))
        await asyncio.sleep(0)
        await replace(snapshot)
        assert await finding is None
    assert len(await store.find(PREFIX, Lookup("color", color, {"red"})) or ()) == 1000
    await store.create(PREFIX + "new", labelled("new", "red"))
    await store.compact(store.revision)
    assert await store.find(PREFIX, Lookup("color", color, {"red"})) is None
    assert len(await store.find(PREFIX, Lookup("color", color, {"red"})) or ()) == 1001


async def test_few_indexes_are_kept() -> None:
    """Indexes that were not asked for between two compactions are dropped, and the oldest when there are many."""
    store = MemoryStore()
    await store.create(PREFIX + "a", labelled("a", "red"))
    for number in range(indexes.MOST + 1):
        await store.find(PREFIX, Lookup(f"color {number}", color, {"red"}))
    kept = store._indexes._kept
    assert [name for _, name in kept] == [f"color {number}" for number in range(1, indexes.MOST + 1)]
    await store.compact(1)
    await store.find(PREFIX, Lookup("color 3", color, {"red"}))
    await store.compact(1)
    assert [name for _, name in kept] == ["color 3"]
