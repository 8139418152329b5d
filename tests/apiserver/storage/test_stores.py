"""Every store, wherever it keeps its objects: revisions, compare-and-swap, history, watches and compaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.apiserver.storage.places import (
    ENGINES,
    PREFIX,
    engine_store,
    names,
    opened,
    stop_etcds,
    thing,
    written,
)
from understudy.apiserver.storage.interface import (
    NOTHING_STORED,
    CompactedError,
    FutureRevisionError,
    KeyExistsError,
    RevisionConflictError,
    Store,
)
from understudy.apiserver.storage.memory import MemoryStore
from understudy.machinery.types import Obj


def writes(store: Store, after: int) -> list[tuple[int, bool, str, Obj]]:
    watch = store.watch(PREFIX, after)
    store.unwatch(watch)
    return [(event.revision, event.deleted, event.entry.key, event.entry.value) for event in watch.queue]


@pytest.fixture(autouse=True)
def no_etcds_are_left() -> Iterator[None]:
    yield
    stop_etcds()


@pytest.fixture(params=["memory", *ENGINES])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Return each kind of store, after the worked example."""
    name = request.param
    async with opened(MemoryStore if name == "memory" else lambda: engine_store(name, tmp_path)) as store:
        await written(store)
        yield store


async def test_every_write_has_the_next_revision(store: Store) -> None:
    """The whole store has one counter, and deletions count too."""
    assert store.revision == 5
    assert (await store.create("/registry/others/c", thing("c"))).revision == 6
    assert (await store.get("/registry/others/c")) is store.peek("/registry/others/c")
    assert (store.count(PREFIX), names(store.scan(PREFIX))) == (1, ["a"])


async def test_range_at_an_old_revision(store: Store) -> None:
    """A range at a revision shows the state of that time."""
    assert names((await store.range(PREFIX)).entries) == ["a"]
    assert names((await store.range(PREFIX, revision=3)).entries) == ["a", "b"]
    assert names((await store.range(PREFIX, revision=2)).entries) == ["a"]
    (old,) = (await store.range(PREFIX, revision=3, limit=1)).entries
    assert "x" not in old.value
    with pytest.raises(FutureRevisionError):
        await store.range(PREFIX, revision=6)


async def test_page_continues_at_its_revision(store: Store) -> None:
    """A limit reports how many keys are left; the next page starts after the last key at the same revision."""
    for name in "cde":
        await store.create(PREFIX + name, thing(name))
    page = await store.range(PREFIX, limit=2)
    assert (names(page.entries), page.remaining) == (["a", "c"], 2)
    await store.create(PREFIX + "d0", thing("d0"))
    rest = await store.range(PREFIX, start=page.entries[-1].key + "\0", revision=page.revision)
    assert names(rest.entries) == ["d", "e"]


async def test_write_with_another_revision_fails(store: Store) -> None:
    """A write that expects another revision fails with the current value, and a deleted key may be created again."""
    with pytest.raises(RevisionConflictError) as failed:
        await store.update(PREFIX + "a", thing("a"), 2)
    assert failed.value.current is not None
    assert failed.value.current.revision == 4
    with pytest.raises(RevisionConflictError) as failed:
        await store.delete(PREFIX + "b", 3)
    assert failed.value.current is None
    with pytest.raises(KeyExistsError):
        await store.create(PREFIX + "a", thing("a"))
    assert store.revision == 5
    assert (await store.create(PREFIX + "b", thing("b"))).revision == 6


async def test_one_of_many_writers_at_once_succeeds(store: Store) -> None:
    """One of the writers that have read the same revision writes; the others are told, and nothing is lost."""
    attempts = 0

    async def add(number: int) -> None:
        nonlocal attempts
        while True:
            attempts += 1
            entry = await store.get(PREFIX + "a")
            assert entry is not None
            await asyncio.sleep(0)  # all read before one writes
            value = {**entry.value, "holders": [*entry.value.get("holders", ()), number]}
            try:
                await store.update(PREFIX + "a", value, entry.revision)
                return
            except RevisionConflictError:
                continue

    await asyncio.gather(*map(add, range(10)))
    entry = await store.get(PREFIX + "a")
    assert entry is not None
    assert sorted(entry.value["holders"]) == [*range(10)]
    assert (store.revision, attempts > 10) == (15, True)


async def test_watch_resumes_after_a_revision(store: Store) -> None:
    """A watch sees every write after its revision once and in order, past ones included."""
    watch = store.watch(PREFIX, 3)
    woken = []
    watch.wake = lambda: woken.append(store.revision)
    await store.create(PREFIX + "c", thing("c"))
    await store.create("/registry/others/x", thing("x"))
    seen = [(event.revision, event.deleted, event.entry.value["metadata"]["name"]) for event in watch.queue]
    assert seen == [(4, False, "a"), (5, True, "b"), (6, False, "c")]
    assert woken == [6]
    store.unwatch(watch)
    await store.create(PREFIX + "d", thing("d"))
    assert len(watch.queue) == 3


async def test_compaction_ends_older_reads(store: Store) -> None:
    """Revisions below the compacted one cannot be read or watched; later ones can."""
    await store.compact(4)
    with pytest.raises(CompactedError):
        await store.range(PREFIX, revision=3)
    with pytest.raises(CompactedError):
        store.watch(PREFIX, 3)
    assert names((await store.range(PREFIX, revision=4)).entries) == ["a", "b"]
    assert [event.deleted for event in store.watch(PREFIX, 4).queue] == [True]
    await store.compact(5)
    assert names((await store.range(PREFIX, revision=5)).entries) == ["a"]
    with pytest.raises(FutureRevisionError):
        await store.compact(store.revision + 1)


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest) -> str:
    """Return the name of each engine."""
    return str(request.param)


async def test_objects_revisions_and_history_outlive_a_store(place: str, tmp_path: Path) -> None:
    """A store that is opened again goes on: with its objects, its counter, older revisions and the writes since."""
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        await written(store)
        before = writes(store, 1)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert store.revision == 5
        assert writes(store, 1) == before
        assert names((await store.range(PREFIX, revision=3)).entries) == ["a", "b"]
        a = await store.get(PREFIX + "a")
        assert a is not None
        assert (a.revision, a.object) == (4, {"metadata": {"name": "a", "resourceVersion": "4"}, "x": "1"})
        await store.delete(PREFIX + "a", 4)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert (store.revision, store.scan(PREFIX)) == (6, [])
        assert writes(store, 4) == [(5, True, PREFIX + "b", thing("b")), (6, True, PREFIX + "a", thing("a", x="1"))]


async def test_storage_has_a_size(place: str, tmp_path: Path) -> None:
    """The bytes of the file, or of the database of an etcd, are known."""
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        size = await store.size()
        assert size is not None
        assert size % 4096 == 0 < size


async def test_compaction_outlives_a_store(place: str, tmp_path: Path) -> None:
    """A store that is opened again has forgotten what was compacted, and no more. Its counter never goes back."""
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        await written(store)
        await store.compact(4)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        with pytest.raises(CompactedError):
            store.watch(PREFIX, 3)
        assert writes(store, 4) == [(5, True, PREFIX + "b", thing("b"))]
        assert names((await store.range(PREFIX, revision=4)).entries) == ["a", "b"]
        await store.compact(5)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        before = store.revision
        assert names(store.scan(PREFIX)) == ["a"]
        deletion = await store.delete(PREFIX + "a", 4)
        assert deletion.revision == before + 1 >= 6
        await store.compact(deletion.revision)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert store.scan("/registry/") == []
        assert (await store.create(PREFIX + "a", thing("a"))).revision > deletion.revision


@pytest.mark.parametrize("place", [name for name in ENGINES if name != "etcd"])
async def test_snapshots_outlive_a_store(place: str, tmp_path: Path) -> None:
    """A store that is opened again holds what a snapshot has brought back: with its history after a rewind."""
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        empty = store.snapshot(with_history=True)
        await written(store)
        early, recent = store.snapshot(with_history=True), store.snapshot()
        before = writes(store, 1)
        await store.create(PREFIX + "c", thing("c"))
        await store.rewind(early)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert (store.revision, writes(store, 1)) == (5, before)
        await store.restore(recent)
        assert store.revision == 6
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert (store.revision, names(store.scan(PREFIX))) == (6, ["a"])
        with pytest.raises(CompactedError):
            store.watch(PREFIX, 5)
        await store.rewind(empty)
    async with opened(lambda: engine_store(place, tmp_path)) as store:
        assert store.snapshot() == NOTHING_STORED
