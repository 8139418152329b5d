"""The memory store: what it keeps of its history, how, and what watchers may leave unread.

`test_stores.py` has what it shares with other stores.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.apiserver.storage.places import PREFIX, thing, written
from understudy.apiserver.storage import memory, turns
from understudy.apiserver.storage.interface import (
    EVENT_SIZE,
    CompactedError,
    Entry,
    Kept,
    RecentEntries,
)
from understudy.apiserver.storage.memory import MemoryStore
from understudy.apiserver.storage.waiting import wait_for_revision
from understudy.machinery.serializer.json_fast import WithEmptyFields
from understudy.machinery.types import Obj
from understudy.machinery.util.deep_recursion import run_to_end

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
async def store() -> MemoryStore:
    """Return a store after the worked example of its module."""
    store = MemoryStore()
    await written(store)
    return store


async def test_watches_are_woken_in_the_order_in_which_they_began() -> None:
    """The watch that began first is told first of a write: a simulation has to be repeatable."""
    store, woken = MemoryStore(), list[int]()
    for number in range(50):
        store.watch("/", 0).wake = partial(woken.append, number)
    await store.create("/a", thing("a"))
    assert woken == list(range(50))


async def test_slow_watcher_is_cut_off(store: MemoryStore) -> None:
    """A watcher that leaves too many bytes unread gets no more; others are not delayed."""
    slow, quick = (store.watch(PREFIX, store.revision, limit=limit) for limit in (2 * EVENT_SIZE, 3 * EVENT_SIZE))
    for name in "cde":
        await store.create(PREFIX + name, thing(name))
    assert slow.overflown
    assert not slow.queue
    assert len(quick.queue) == 3


async def test_watcher_of_large_values_is_cut_off() -> None:
    """Waiting events count by the bytes of the values that they replaced; events that were taken count no more."""
    store = MemoryStore()
    entry = await store.create(PREFIX + "a", thing("a"))
    reading, idle = (store.watch(PREFIX, store.revision, limit=250_000) for _ in range(2))
    for number in range(10):
        entry = await store.update(PREFIX + "a", thing("a", x=str(number) * 100_000), entry.revision)
        assert reading.take().entry is entry
        assert idle.overflown == (number > 2)
    assert not reading.overflown


async def test_backlog_does_not_cut_a_watcher_off(store: MemoryStore) -> None:
    """A watcher that resumes may have more to catch up with than may wait later."""
    watch = store.watch(PREFIX, 1, limit=EVENT_SIZE)
    await store.create(PREFIX + "c", thing("c"))
    assert len(watch.queue) == 5
    await store.create(PREFIX + "d", thing("d"))
    assert watch.overflown


async def test_history_is_forgotten_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that makes the history too large forgets little of it, and a compaction lets others have their turn."""
    monkeypatch.setattr(turns, "SLICE", 0.0)
    monkeypatch.setattr(memory, "AT_ONCE", 10)
    store = MemoryStore(history_limit=1000 * EVENT_SIZE)
    kept = []
    for number in range(2000):
        await store.create(f"{PREFIX}{number:04}", thing(f"{number:04}"))
        kept.append(len(store._log))
    assert max(kept) - min(kept[kept.index(max(kept)) :]) < max(kept) / 30
    compacting = asyncio.create_task(store.compact(store.revision))
    await asyncio.sleep(0)
    assert 0 < len(store._log) < kept[-1]
    with pytest.raises(CompactedError):
        store.watch(PREFIX, store.revision - 1)
    last = await store.create(PREFIX + "last", thing("last"))
    await compacting
    assert [event.entry for event in store._log] == [last]
    assert len((await store.range(PREFIX, revision=last.revision)).entries) == 2001


async def test_history_is_bounded() -> None:
    """When the history takes too many bytes, the oldest part is compacted."""
    store = MemoryStore(history_limit=1_000_000)
    entry = await store.create(PREFIX + "a", thing("a"))
    for number in range(40):
        entry = await store.update(PREFIX + "a", thing("a", x=str(number % 10) * 100_000), entry.revision)
        if number < 10:
            assert store.watch(PREFIX, 2).queue  # nothing is compacted yet
    with pytest.raises(CompactedError):
        store.watch(PREFIX, 2)
    assert len(store.watch(PREFIX, store.revision - 3).queue) == 3


@pytest.mark.maintenance
def test_history_costs_its_bytes() -> None:
    """Old revisions keep the bytes of their values, not the values and their encoded forms."""
    command = f"from {__name__} import memory_of_a_thousand_revisions as used; print(*used())"
    alone = subprocess.run([sys.executable, "-c", command], cwd=REPOSITORY, stdout=PIPE, check=True)  # no other threads
    used, packed_size = map(int, alone.stdout.split())
    assert 1000 * packed_size < used < 1.2 * 1000 * (packed_size + EVENT_SIZE)


def memory_of_a_thousand_revisions() -> tuple[int, int]:
    """Return the bytes that a thousand more revisions of an object take, and the size that one says it has."""

    async def update() -> tuple[int, int]:
        store = MemoryStore()
        entry = await store.create(PREFIX + "a", thing("a"))
        used = []
        for number in range(1500):
            fields = {f"{field}-{number}": f"{field}-{number}" * 5 for field in range(100)}
            entry = await store.update(PREFIX + "a", thing("a", **fields), entry.revision)
            entry.cache["json"] = bytes(30_000)
            if number in (499, 1499):
                gc.collect()
                used.append(tracemalloc.get_traced_memory()[0])
        (old,) = (await store.range(PREFIX, revision=100)).entries
        return used[1] - used[0], old.packed_size

    tracemalloc.start()
    return asyncio.run(update())


async def test_old_revisions_read_like_new_ones(store: MemoryStore) -> None:
    """A packed entry has the same value and object, its own revision, and a cache that is filled anew."""
    value: Obj = {"metadata": {"name": "z"}, "number": 2**70, "text": "\ud800", "more": WithEmptyFields(list=[])}
    value["more"].empty = {"list": []}
    entry = await store.create(PREFIX + "z", value)
    entry.cache["json"] = b"{}"
    first, before = entry, entry.object
    for number in range(20):
        entry = await store.update(PREFIX + "z", thing("z", x=str(number) * 200_000), entry.revision)
    assert (first.value, first.object, first.revision) == (value, before, 6)
    assert first.value is not value
    assert first.value["more"].empty == {"list": []}
    assert not first.cache


async def test_recent_revisions_keep_what_was_made_of_them(store: MemoryStore) -> None:
    """Watchers of an object that is written in quick succession share the frames of each event."""
    entry = await store.create(PREFIX + "c", thing("c"))
    entry.cache["frame"] = b"{}"
    await store.update(PREFIX + "c", thing("c", x="1"), entry.revision)
    assert entry.cache == {"frame": b"{}"}


def test_entry_has_its_revision() -> None:
    """An entry's object has its resourceVersion, the stored value has none, and neither has a dry run's."""
    value = {"metadata": {"name": "a", "uid": "u", "labels": {}}}
    assert Entry("k", value, 7).object == {"metadata": {**value["metadata"], "resourceVersion": "7"}}
    assert "resourceVersion" not in value["metadata"]
    assert Entry("k", value, 0).object == value


async def test_watch_that_is_cut_off_queues_nothing(store: MemoryStore) -> None:
    """A watch that was cut off takes no more writes, however small."""
    watch = store.watch(PREFIX, store.revision)
    watch.cut_off()
    await store.create(PREFIX + "c", thing("c"))
    assert not watch.queue


def test_entry_makes_its_object_once() -> None:
    """All readers of an entry share one object, and its size is known: that of the longest form that it was encoded to.

    It is that of the packed value until then, so that a large object is known to be one from the start.
    """
    entry = Entry("k", {"metadata": {"name": "a" * 100}}, 7)
    assert entry.object is entry.object
    assert entry.encoded_size == 0
    entry.pack(RecentEntries())
    assert entry.encoded_size == entry.packed_size > 100
    entry.cache.update({"json": b"{}", "watch": b"{...}", "lines": 100})
    assert entry.encoded_size == 5


async def test_recent_entries_are_bounded_by_their_bytes(store: MemoryStore) -> None:
    """Old revisions stay unpacked as long as all of them fit, the last two always."""
    recent = RecentEntries(limit=3 * EVENT_SIZE)
    entries = [Entry(f"k{n}", {"metadata": {"name": "a"}}, n + 1) for n in range(4)]
    for entry in entries:
        entry.pack(recent)
    assert entries[0].packed_size > 0
    kept = [entry._value is not None for entry in entries]
    assert kept == [False, False, True, True]
    large = Entry("large", {"metadata": {"name": "a" * 10 * EVENT_SIZE}}, 9)
    large.pack(recent)
    assert [entry._value is not None for entry in (*entries, large)] == [False, False, False, True, True]
    exact = RecentEntries(limit=2 * (EVENT_SIZE + entries[0].packed_size))
    two = [Entry(f"k{n}", {"metadata": {"name": "a"}}, n + 1) for n in range(2)]
    for entry in two:
        entry.pack(exact)
    assert [entry._value is not None for entry in two] == [True, True]


async def test_current_revision_is_packed(store: MemoryStore) -> None:
    """The current revision of an object is packed as well: its value, with its labels and an encoded form."""
    value: Obj = {"metadata": {"name": "c", "labels": {"of": "7"}}, "data": {"a": "1"}}
    plain = await store.create(PREFIX + "plain", thing("plain"))
    entry = await store.create(PREFIX + "c", value)
    entry.cache.update({"codec": b"{...}", ("event", "codec"): b"frame", Kept("object", "codec"): {"a": 1}})
    seen = entry.object
    await store.compact(2)  # the same as many writes
    assert (entry._value, entry._object) == (None, None)
    assert (entry.made("codec"), entry.encoded_size) == (b"{...}", 5)
    assert (entry.made(Kept("object", "codec")), entry.made(("event", "codec"))) == ({"a": 1}, None)
    assert (plain.made("codec"), plain.made(None), plain.encoded_size) == (None, None, plain.packed_size)
    assert (entry.labels, plain.labels) == ({"of": "7"}, {})
    assert (entry._value, plain._value) == (None, None)  # labels were at hand
    assert (entry.value, entry.object, pickle.loads(entry.pickled)) == (value, seen, value)
    changed = await store.update(entry.key, {"metadata": {"name": "c", "labels": {"of": "8"}}}, entry.revision)
    await store.compact(2)
    assert (entry.labels, entry.made(Kept("object", "codec")), changed.labels) == ({"of": "7"}, None, {"of": "8"})
    assert (changed.made("codec"), changed.value["metadata"]["labels"]) == (None, {"of": "8"})


async def test_object_that_is_read_again_stays_unpacked(store: MemoryStore) -> None:
    """An object that is read twice after it was packed is not packed again, until a write replaces it."""
    entry = await store.create(PREFIX + "c", thing("c"))
    unpacked = []
    for _ in range(3):
        await store.compact(2)
        unpacked.append(entry._value is not None)
        assert entry.value == thing("c")
    assert unpacked == [False, False, True]
    await store.update(PREFIX + "c", thing("c", x="1"), entry.revision)
    await store.compact(2)
    assert entry._value is None


async def test_labels_of_an_old_revision_that_is_current_again(store: MemoryStore) -> None:
    """A revision that was replaced before it was packed has its labels after the store was rewound to it."""
    entry = await store.create(PREFIX + "c", {"metadata": {"name": "c", "labels": {"of": "7"}}})
    snapshot = store.snapshot()
    await store.update(PREFIX + "c", thing("c"), entry.revision)
    await store.compact(2)
    await store.rewind(snapshot)
    again = store.peek(PREFIX + "c")
    assert again is not None
    assert again.labels == {"of": "7"}


def test_memory_of_stored_objects() -> None:
    """A stored object that nobody reads takes little more than the bytes of its value and one encoded form."""
    command = f"from {__name__} import memory_of_a_thousand_objects as used; print(*used())"
    alone = subprocess.run([sys.executable, "-c", command], cwd=REPOSITORY, stdout=PIPE, check=True)  # no other threads
    used, packed_size = map(int, alone.stdout.split())
    assert 1000 * packed_size < used < 1000 * (packed_size + 700)


def memory_of_a_thousand_objects() -> tuple[int, int]:
    """Return the bytes that a thousand more objects take that were encoded, and the size that one says it has."""

    async def fill() -> tuple[int, int]:
        store, used = MemoryStore(), []
        for number in range(4000):
            value: Obj = {"metadata": {"name": f"{number}", "labels": {"of": f"{number}"}}, "data": {"a": {"b": {}}}}
            entry = await store.create(f"{PREFIX}{number}", value)
            entry.cache.update({"codec": bytes(400), ("event", "codec"): bytes(500)})
            if number in (2999, 3999):
                gc.collect()
                used.append(tracemalloc.get_traced_memory()[0])
        (first,) = (await store.range(PREFIX, limit=1)).entries
        return used[1] - used[0], first.packed_size

    tracemalloc.start()
    return asyncio.run(fill())


async def test_compaction_keeps_no_old_values(store: MemoryStore) -> None:
    """After a compaction no old value stays unpacked; those that can still be read are unpacked again."""
    first = await store.create(PREFIX + "c", thing("c"))
    old = await store.update(PREFIX + "c", thing("c", x="1"), first.revision)
    await store.update(PREFIX + "c", thing("c", x="2"), old.revision)
    assert old._value is not None
    await store.compact(first.revision)
    assert old._value is None
    assert old.value == thing("c", x="1")


@pytest.mark.parametrize("on_loop", [True, False], ids=["on a loop", "in a thread"])
def test_waiting_for_a_revision(on_loop: bool) -> None:
    """Waiting for a revision ends with the write that reaches it, at once if it is there, or after its time."""
    store = MemoryStore()

    async def wait(revision: int, seconds: float) -> int:
        await wait_for_revision(store, revision, seconds)
        return store.revision

    async def write_later() -> None:
        while not store.watching("/"):
            await asyncio.sleep(0.001)
        for name in "ab":
            await store.create(PREFIX + name, thing(name))
            await asyncio.sleep(0)

    async def both() -> int:
        waiting = asyncio.to_thread(run_to_end, wait(3, 60.0)) if not on_loop else wait(3, 60.0)
        reached, _ = await asyncio.gather(waiting, write_later())
        return reached

    assert asyncio.run(both()) == 3
    assert asyncio.run(wait(3, 60.0)) == 3
    assert asyncio.run(wait(4, 0.0)) == 3
    assert asyncio.run(wait(4, 0.01)) == 3
    assert store.watching("/") == 0


async def test_compaction_forgets_old_versions(store: MemoryStore) -> None:
    """After a compaction a key has the version that is read then, and a deleted key none."""
    await store.compact(4)
    assert {key: len(store._versions(key)) for key in store._past} == {PREFIX + "a": 1, PREFIX + "b": 2}
    await store.compact(5)
    assert {key: len(store._versions(key)) for key in store._past} == {PREFIX + "a": 1}
    b = await store.create(PREFIX + "b", thing("b"))
    await store.delete(b.key, b.revision)
    c = await store.create(PREFIX + "b", thing("b"))
    await store.compact(store.revision)
    assert store._versions(PREFIX + "b") == [c]
