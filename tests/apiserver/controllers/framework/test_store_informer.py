"""Informers of the store of the same process: what is listed and what is watched make one story, nothing told twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.waiting import running, until
from understudy.apiserver.controllers.framework import store_informer
from understudy.apiserver.controllers.framework.store_informer import StoreInformer
from understudy.apiserver.storage import pages, turns
from understudy.apiserver.storage.interface import Entry
from understudy.apiserver.storage.memory import MemoryStore

PREFIX = "/registry/a/"


class Story:
    """Notes what handlers are told: `+a`, `~a`, `-a`."""

    def __init__(self, informer: StoreInformer) -> None:
        self.lines: list[str] = []
        informer.add_handler(self._note("+"), lambda _, entry: self._note("~")(entry), self._note("-"))

    def _note(self, sign: str) -> Callable[[Entry], None]:
        return lambda entry: self.lines.append(sign + entry.key.removeprefix(PREFIX))

    async def reads(self, *lines: str) -> None:
        """Wait until exactly these changes were told."""
        await until(lambda: len(self.lines) >= len(lines))
        assert self.lines == list(lines)


async def test_writes_under_the_prefix_are_told() -> None:
    """Entries that are stored, come, change and go are told, those of other prefixes are not."""
    store = MemoryStore()
    await store.create(f"{PREFIX}a", {})
    informer = StoreInformer(store, PREFIX)
    story = Story(informer)
    async with running(informer.run()):
        await story.reads("+a")
        b = await store.create(f"{PREFIX}b", {})
        await store.create("/registry/ab/c", {})
        b = await store.update(b.key, {}, b.revision)
        await store.delete(b.key, b.revision)
        await story.reads("+a", "+b", "~b", "-b")
    assert [entry.key for entry in informer.store.objects()] == [f"{PREFIX}a"]


async def test_writes_during_a_list_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers hear once of a write that happens while the list is read, be it in the list already or not."""
    monkeypatch.setattr(pages, "PAGE", 1)
    monkeypatch.setattr(turns, "SLICE", 0.0)
    store = MemoryStore()
    for name in "ace":
        await store.create(f"{PREFIX}{name}", {})
    read = pages.pages

    async def pages_with_writes(store: MemoryStore, prefix: str):  # type: ignore[no-untyped-def]
        async for page in read(store, prefix):
            if page[0].key.endswith("a"):
                await store.delete(page[0].key, page[0].revision)  # it is in the list
                await store.create(f"{PREFIX}d", {})  # it will be
                e = store.peek(f"{PREFIX}e")
                assert e is not None
                await store.update(e.key, {}, e.revision)
            yield page

    monkeypatch.setattr(store_informer, "pages", pages_with_writes)
    informer = StoreInformer(store, PREFIX)
    story = Story(informer)
    async with running(informer.run()):
        await story.reads("+a", "+c", "+d", "+e", "-a")
        f = await store.create(f"{PREFIX}f", {})
        await store.delete(f.key, f.revision)
        await story.reads("+a", "+c", "+d", "+e", "-a", "+f", "-f")


async def test_informer_that_is_too_slow_lists_anew() -> None:
    """A watch that is cut off is followed by a list: what was missed is told, and what is gone is."""
    store = MemoryStore()
    a = await store.create(f"{PREFIX}a", {})
    b = await store.create(f"{PREFIX}b", {})
    informer = StoreInformer(store, PREFIX)
    story = Story(informer)
    async with running(informer.run()):
        await story.reads("+a", "+b")
        await until(lambda: store.watching(PREFIX) == 1)
        await store.delete(a.key, a.revision)
        await store.update(b.key, {}, b.revision)
        await store.create(f"{PREFIX}c", {})
        for watch in store._watches:
            watch.cut_off()
        await story.reads("+a", "+b", "-a", "~b", "+c")
