"""The watch caches of custom resources that a webhook converts: they hold each object in every version.

The real server fills them as soon as an object is written, so that lists and watches need not wait for the webhook, and
go on while it fails (upstream: k8s.io/apiserver/pkg/storage/cacher, k8s.io/client-go/tools/cache.Reflector).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from understudy.apiserver.controllers.custom_resources.definitions import PREFIX
from understudy.apiserver.encoding.encoded import load
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.corrupt_objects import unreadable_list
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.storage.interface import Entry, Store, Watch
from understudy.kinds.declarations.kind import Kind
from understudy.kinds.declarations.watch_cache import ASKED_AGAIN, GIVEN_UP, WatchCache
from understudy.machinery.errors import StatusError
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.util.deep_recursion import start_on_deep_stack
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)


class WatchCaches:
    """Fills the watch caches of all definitions with a webhook, each version in its own task."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._store = state.registry.store
        self._tasks: dict[Kind, asyncio.Task[None]] = {}

    async def forever(self) -> None:
        """Fill the caches until the task is cancelled."""
        woken = asyncio.Event()
        definitions = _watch(self._store, PREFIX, woken)
        try:
            while True:
                woken.clear()
                while definitions.queue:
                    definitions.take()
                if definitions.overflown:
                    definitions = _watch(self._store, PREFIX, woken)
                self._follow()
                await woken.wait()
        finally:
            self._store.unwatch(definitions)
            for task in self._tasks.values():
                task.cancel()

    def _follow(self) -> None:
        """Begin to fill the caches of the kinds that are served now, and end it for others."""
        served = {
            kind: kind.watch_cache
            for defined in self._state.serving.definitions.values()
            for kind in {*defined.kinds.values(), defined.storage}
            if kind.watch_cache is not None
        }
        for kind in [kind for kind in self._tasks if kind not in served]:
            self._tasks.pop(kind).cancel()
        for kind, cache in served.items():
            if kind not in self._tasks:
                filling = _Filling(self._state, kind, cache)
                task = self._tasks[kind] = asyncio.create_task(filling.forever())
                task.add_done_callback(partial(_ended, cache))


def _ended(cache: WatchCache, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a watch cache is not filled any more", exc_info=error)
        cache.fail(str(error))


class _Filling:
    """The task that fills the watch cache of one kind."""

    def __init__(self, state: ServerState, kind: Kind, cache: WatchCache) -> None:
        self._state = state
        self._store = state.registry.store
        self._clock = state.clock
        self._kind = kind
        self._cache = cache
        self._woken = asyncio.Event()

    async def forever(self) -> None:
        """Convert what is stored, and then what is written, until the task is cancelled."""
        while True:
            watch = _watch(self._store, prefix_of(self._kind), self._woken)
            try:
                await self._list(watch)
                await self._follow(watch)
            finally:
                self._store.unwatch(watch)

    async def _list(self, watch: Watch) -> None:
        """Convert what is stored, however long that takes."""
        while not watch.overflown:
            watch.queue.clear()
            revision = self._store.revision
            try:
                await self._convert_all(self._store.scan(prefix_of(self._kind)))
            except StatusError as error:
                self._cache.fail(error.message)
                await sleep(self._clock, ASKED_AGAIN)
            else:
                self._cache.advance(revision)
                return

    async def _follow(self, watch: Watch) -> None:
        """Convert what is written, until a webhook has failed for too long: then the cache is filled again."""
        failing_since = 0.0
        while not watch.overflown:
            self._woken.clear()
            entries = [event.entry for event in watch.queue]
            try:
                await self._convert(entries[:1] if failing_since else entries)  # one of several may be at fault
            except StatusError as error:
                now = self._clock.monotonic()
                failing_since = failing_since or now
                if now - failing_since > GIVEN_UP:
                    return self._cache.fail(error.message)
                await sleep(self._clock, ASKED_AGAIN)
                continue
            converted = entries[:1] if failing_since else entries
            failing_since = 0.0
            for _ in converted[: len(watch.queue)]:
                watch.take()
            if converted:
                self._cache.advance(converted[-1].revision)
            if not watch.queue:
                await self._woken.wait()
        return None

    async def _convert_all(self, entries: list[Entry]) -> None:
        """Convert all objects of the kind, in a thread. Raises StatusError, as for a list."""
        try:
            await self._convert(entries)
        except StatusError as error:
            asked = partial(unreadable_list, self._kind, entries, Selector(), 0, self._state.gates)
            raise await asyncio.wrap_future(start_on_deep_stack(asked)) or error from None

    async def _convert(self, entries: list[Entry]) -> None:
        """Convert the objects of entries, in a thread. Raises StatusError."""
        if entries:
            await asyncio.wrap_future(start_on_deep_stack(partial(load, entries, self._kind)))


def _watch(store: Store, prefix: str, woken: asyncio.Event) -> Watch:
    """Return a watch of what is written under a prefix from now on, which wakes somebody."""
    watch = store.watch(prefix, store.revision)
    watch.wake = woken.set
    return watch
