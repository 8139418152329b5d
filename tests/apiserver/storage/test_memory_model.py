"""The memory store beside a model that keeps every state it ever had: the same reads, pages, watches and refusals."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from understudy.apiserver.storage.interface import NOTHING_STORED, CompactedError, FutureRevisionError
from understudy.apiserver.storage.memory import MemoryStore

PREFIXES = ("/registry/a/", "/registry/ab/", "/registry/b/")
Written = tuple[int, bool, str]  # revision, deleted, key


@dataclass
class Model:
    """Every state of a store: the revision in which each key was written last, by revision; and all writes."""

    states: list[dict[str, int]] = field(default_factory=lambda: [{}, {}])
    log: list[Written] = field(default_factory=list)
    compacted: int = 0

    @property
    def revision(self) -> int:
        return len(self.states) - 1

    def write(self, key: str, deleted: bool = False) -> None:
        state, revision = dict(self.states[-1]), len(self.states)
        if deleted:
            del state[key]
        else:
            state[key] = revision
        self.states.append(state)
        self.log.append((revision, deleted, key))

    def range(self, prefix: str, start: str, limit: int, revision: int) -> object:
        if revision > self.revision:
            return FutureRevisionError
        if revision and revision < self.compacted:
            return CompactedError
        state = self.states[revision or -1]
        keys = sorted(key for key in state if key.startswith(prefix) and key >= start)
        page = keys[:limit] if limit else keys
        return [(key, state[key]) for key in page], revision or self.revision, len(keys) - len(page)

    def writes(self, prefix: str, after: int) -> object:
        if after < self.compacted:
            return CompactedError
        return [written for written in self.log if written[0] > after and written[2].startswith(prefix)]


async def read(store: MemoryStore, prefix: str, start: str, limit: int, revision: int) -> object:
    try:
        page = await store.range(prefix, start=start, limit=limit, revision=revision)
    except (CompactedError, FutureRevisionError) as why:
        return type(why)
    return [(entry.key, entry.revision) for entry in page.entries], page.revision, page.remaining


def writes(store: MemoryStore, prefix: str, after: int) -> object:
    try:
        watch = store.watch(prefix, after)
    except CompactedError as why:
        return type(why)
    store.unwatch(watch)
    return [(event.revision, event.deleted, event.entry.key) for event in watch.queue]


@pytest.mark.parametrize("seed", range(8))
async def test_store_reads_like_its_model(seed: int) -> None:
    """Random writes and compactions, with reads at every revision between them, answer as the model does."""
    rng, store, model = random.Random(seed), MemoryStore(), Model()
    watch, watched = store.watch(PREFIXES[0], 0), list[Written]()
    for _ in range(150):
        key = rng.choice(PREFIXES) + rng.choice("abcdef")
        entry, choice = await store.get(key), rng.random()
        assert (entry and entry.revision) == model.states[-1].get(key)
        if choice < 0.06:
            revision = rng.randint(0, model.revision + 1)
            if revision > model.revision:
                with pytest.raises(FutureRevisionError):
                    await store.compact(revision)
            else:
                await store.compact(revision)
                model.compacted = max(model.compacted, revision)
        elif entry is None:
            await store.create(key, {"metadata": {"name": key}})
            model.write(key)
        elif choice < 0.5:
            await store.delete(key, entry.revision)
            model.write(key, deleted=True)
        else:
            await store.update(key, {"metadata": {"name": key}}, entry.revision)
            model.write(key)
        while watch.queue:
            event = watch.take()
            watched.append((event.revision, event.deleted, event.entry.key))
        prefix, start = rng.choice((*PREFIXES, "/")), rng.choice(("", rng.choice(PREFIXES) + rng.choice("abcdef")))
        limit, revision = rng.choice((0, 1, 2, 3, 5)), rng.randint(0, model.revision + 1)
        assert await read(store, prefix, start, limit, revision) == model.range(prefix, start, limit, revision)
        assert await read(store, prefix, start, limit, 0) == model.range(prefix, start, limit, 0)
        assert await read(store, prefix, start, limit, model.revision) == model.range(prefix, start, limit, 0)
        assert writes(store, prefix, revision) == model.writes(prefix, revision)
        assert [entry.key for entry in store.scan(prefix)] == sorted(
            k for k in model.states[-1] if k.startswith(prefix)
        )
        assert store.count(prefix) == len(store.scan(prefix))
    assert watched == [written for written in model.log if written[2].startswith(PREFIXES[0])]


async def test_watches_on_a_prefix_are_ended() -> None:
    """Watches on a prefix, or a part of it, are counted and ended; those on more than it go on."""
    store = MemoryStore()
    below, other, above = (store.watch(prefix, 1) for prefix in ("/registry/a/b/", "/registry/c/", "/registry/"))
    woken: list[str] = []
    below.wake, other.wake = (lambda: woken.append("below")), (lambda: woken.append("other"))
    assert [store.watching(prefix) for prefix in ("/registry/a/", "/registry/", "/x/")] == [1, 3, 0]
    assert [store.watching("/registry/", f"/registry/a/{key}") for key in ("", "b/", "b/c", "bc")] == [1, 2, 2, 1]
    store.end_watches("/registry/a/")
    assert [below.ended, other.ended, above.ended, woken] == [True, False, False, ["below"]]


async def test_rewind_cuts_watches_off() -> None:
    """A store that is taken back to its beginning begins at revision 1, with no history, and cuts off its watches."""
    store = MemoryStore()
    entry = await store.create("/registry/a/a", {"metadata": {"name": "a"}})
    await store.update(entry.key, {"metadata": {"name": "a"}}, entry.revision)
    await store.compact(3)
    watch = store.watch("/registry/", 3)
    await store.rewind(NOTHING_STORED)
    assert (store.revision, store.count("/"), watch.overflown, store.watching("/")) == (1, 0, True, 0)
    assert writes(store, "/", 0) == []


async def test_rewind_brings_history_back() -> None:
    """A snapshot with its history is held again with the same revisions, and can be watched from before."""
    store = MemoryStore()
    entry = await store.create("/registry/a/a", {"metadata": {"name": "a"}})
    entry = await store.update(entry.key, {"metadata": {"name": "a", "labels": {}}}, entry.revision)
    await store.delete((await store.create("/registry/a/b", {})).key, 4)
    before, snapshot = writes(store, "/", 0), store.snapshot(with_history=True)
    assert before
    await store.delete(entry.key, entry.revision)
    await store.compact(6)
    await store.rewind(snapshot)
    assert (store.revision, writes(store, "/", 0)) == (5, before)
    assert (await store.create("/registry/a/c", {})).revision == 6


async def test_rewind_without_history_compacts() -> None:
    """A snapshot of a store that has forgotten some writes is held again, without what was before it."""
    store = MemoryStore()
    entry = await store.create("/registry/a/a", {"metadata": {"name": "a"}})
    await store.compact(2)
    snapshot = store.snapshot(with_history=True)
    await store.delete(entry.key, entry.revision)
    await store.rewind(snapshot)
    assert (store.revision, [each.key for each in store.scan("/")]) == (2, [entry.key])
    with pytest.raises(CompactedError):
        store.watch("/", 1)
