"""The watch caches of custom resources that a webhook converts: they hold each object in every version.

The real server fills them as soon as an object is written, so that lists and watches need not wait for the webhook, and
do not notice when it fails (upstream: k8s.io/apiserver/pkg/storage/cacher).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from understudy.apiserver.controllers.definitions import PREFIX
from understudy.apiserver.endpoints.scope import ServerState
from understudy.apiserver.registry.encoding.encoded import load
from understudy.apiserver.registry.keys import prefix_of
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry, Store, Watch
from understudy.machinery.errors import StatusError


class WatchCaches:
    """Fills the watch caches of all definitions with a webhook, in one task."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._store = state.registry.store
        self._woken = asyncio.Event()
        self._caches: dict[str, _WatchCache] = {}

    async def forever(self) -> None:
        """Fill the caches until the task is cancelled."""
        definitions = self._watch(PREFIX)
        try:
            while True:
                self._woken.clear()
                while definitions.queue:
                    definitions.take()
                if definitions.overflown:
                    definitions = self._watch(PREFIX)
                self._follow()
                for cache in list(self._caches.values()):
                    await cache.fill()
                await self._woken.wait()
        finally:
            self._store.unwatch(definitions)
            for cache in self._caches.values():
                cache.close()

    def _watch(self, prefix: str) -> Watch:
        watch = self._store.watch(prefix, self._store.revision)
        watch.wake = self._woken.set
        return watch

    def _follow(self) -> None:
        """Begin a cache for each definition that has a webhook now, and forget those of others."""
        served = {
            name: defined.kinds
            for name, defined in self._state.serving.definitions.items()
            if defined.kinds and defined.definition.conversion_webhook
        }
        for name, cache in list(self._caches.items()):
            if served.get(name) is not cache.kinds or cache.watch.overflown:
                cache.close()
                del self._caches[name]
        for name, kinds in served.items():
            if name not in self._caches:
                prefix = prefix_of(next(iter(kinds.values())))
                self._caches[name] = _WatchCache(self._store, kinds, self._watch(prefix), self._store.scan(prefix))


class _WatchCache:
    """The watch caches of one definition. `unfilled` are entries to be converted, besides those of the watch."""

    def __init__(self, store: Store, kinds: Mapping[str, Kind], watch: Watch, unfilled: list[Entry]) -> None:
        self._store = store
        self.kinds = kinds
        self.watch = watch
        self._unfilled = unfilled

    async def fill(self) -> None:
        """Convert what has been written meanwhile. What a webhook cannot convert is tried again when it is read."""
        entries, self._unfilled = self._unfilled, []
        while self.watch.queue:
            entries.append(self.watch.take().entry)
        for kind in self.kinds.values() if entries else ():
            with suppress(StatusError):
                await asyncio.to_thread(load, entries, kind)

    def close(self) -> None:
        """Stop watching."""
        self._store.unwatch(self.watch)
