"""Informers of the store of this process, for the controllers that run beside it: nothing is encoded or asked for.

    definitions = StoreInformer(store, "/registry/apiextensions.k8s.io/customresourcedefinitions/")

Objects are the entries of the store. A list reads what is stored in pages, each as it is at its time, so that others
have their turn meanwhile; the watch, which begins before the first page, then leaves out what is known already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from operator import attrgetter

from understudy.apiserver.controllers.framework.indexer import Indexer
from understudy.apiserver.controllers.framework.informer import SharedInformer, SharedInformers
from understudy.apiserver.storage.interface import CompactedError, Entry, Store, UnreadableError, Watch
from understudy.apiserver.storage.pages import pages
from understudy.apiserver.storage.turns import Turns
from understudy.machinery import errors
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock
from understudy.machinery.util.memory import gives_back

log = logging.getLogger(__name__)

EXPIRED = "too many writes wait for their reader"


class StoreInformer(SharedInformer[str, Entry, Indexer[str, Entry]]):
    """Follows the entries under a prefix of a store."""

    def __init__(self, store: Store, prefix: str, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(prefix, Indexer(attrgetter("key")), clock)
        self._store = store
        self._woken = asyncio.Event()
        gives_back(self)

    async def _read(self, version: str) -> tuple[list[Entry], str]:
        revision = self._store.revision
        return [entry async for page in pages(self._store, self.name) for entry in page], str(revision)

    async def _events(self, version: str) -> AsyncGenerator[tuple[str, Entry], None]:
        woken = self._woken
        try:
            watch = self._store.watch(self.name, int(version))
        except CompactedError:
            raise errors.expired(EXPIRED) from None
        watch.wake = woken.set
        try:
            while not (watch.overflown or watch.ended):
                woken.clear()
                turns = Turns()
                while watch.queue:
                    if (event := self._next(watch)) is not None:
                        yield event
                    if turns.is_over:
                        await turns.next()
                await woken.wait()
        finally:
            self._store.unwatch(watch)
        raise errors.expired(EXPIRED)

    def give_back(self) -> None:
        """Wait for writes anew."""
        self._woken.set()

    def _next(self, watch: Watch) -> tuple[str, Entry] | None:
        """Return the next event of a watch, None for one that was over when the object was listed."""
        event = watch.take()
        held = self.store.find(event.entry.key)
        if held is not None and held.revision >= event.revision:
            return None
        return "DELETED" if event.deleted else "MODIFIED", event.entry

    def _tell(self, function: Callable[..., object], *objects: Entry) -> None:
        """Call a function of a handler. Objects that cannot be read are nothing to it."""
        try:
            function(*objects)
        except UnreadableError as why:
            log.error("unable to read an object: %s: %s", why.key, why)

    def _key_of(self, obj: Entry) -> str:
        return obj.key

    def _version_of(self, obj: Entry) -> str:
        return str(obj.revision)


class StoreInformers(SharedInformers[str, StoreInformer]):
    """The informers of one store, one for each prefix."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(lambda prefix: StoreInformer(store, prefix, clock), clock)
