"""A copy of some objects that follows their changes, and tells handlers of them.

    pods.add_handler(add=..., update=..., delete=...)
    task = asyncio.create_task(pods.run())
    await pods.wait_for_sync()
    pods.store.objects()

It lists the objects once and watches from there. A watch that ends goes on from the last version, or bookmark; if that
one has been forgotten (410), the objects are listed again. Where objects come from is the matter of a subclass: a
resource of a server over HTTP (`understudy.controlplane.client.informer`), or the store of the same process
(`store_informer`). Upstream: `cache.Reflector`, `SharedInformer`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from understudy.apiserver.controllers.framework.backoff import Backoff
from understudy.apiserver.controllers.framework.indexer import Indexer
from understudy.apiserver.storage.turns import Turns
from understudy.machinery.errors import StatusError
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

SHORT_WATCH_SECONDS = 1.0  # one that ends without an event before is followed by a pause

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
R = TypeVar("R", bound=Hashable)
S = TypeVar("S", bound=Indexer[Any, Any])


class Handler(NamedTuple, Generic[T]):
    """Functions that are called, in the event loop, after each change of the store."""

    add: Callable[[T], object]
    update: Callable[[T, T], object]
    delete: Callable[[T], object]


class SharedInformer(ABC, Generic[K, T, S]):
    """Follows objects of the type T, which have keys of the type K.

    name   what logs call the objects: "pods"
    store  holds them as they were last seen
    clock  by which pauses between tries are
    """

    def __init__(self, name: str, store: S, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.store = store
        self.clock = clock
        self._indexer: Indexer[K, T] = store
        self._handlers: list[Handler[T]] = []
        self._version = ""
        self._waiting: dict[asyncio.Future[None], int] = {}  # for the store to have some version
        self._synced = asyncio.Event()
        self._backoff = Backoff(clock=clock.monotonic)

    # --- where objects come from ----------------------------------------------------------------------------------

    @abstractmethod
    async def _read(self, version: str) -> tuple[list[T], str]:
        """Return all objects, and the version to watch them from. "0" asks for any state, "" for the newest.

        Raises StatusError, ConnectionError.
        """

    @abstractmethod
    def _events(self, version: str) -> AsyncGenerator[tuple[str, T], None]:
        """Yield the changes after a version: "ADDED", "MODIFIED", "DELETED" or "BOOKMARK", and an object.

        Raises StatusError, 410 for a version that has been forgotten; ConnectionError.
        """

    @abstractmethod
    def _key_of(self, obj: T) -> K:
        """Return the key of an object."""

    @abstractmethod
    def _version_of(self, obj: T) -> str:
        """Return the version of an object."""

    # --- who wants to know ----------------------------------------------------------------------------------------

    def add_handler(
        self,
        add: Callable[[T], object] | None = None,
        update: Callable[[T, T], object] | None = None,
        delete: Callable[[T], object] | None = None,
    ) -> None:
        """Call functions for objects that are new (at first: all), changed (old, new) and gone (as last seen)."""
        handler = Handler(add or _ignore, update or _ignore, delete or _ignore)
        self._handlers.append(handler)
        for obj in self._indexer.objects():
            self._tell(handler.add, obj)

    def on_change(self, function: Callable[[T], object]) -> None:
        """Call a function for every object that is new, has changed, or is gone."""
        self.add_handler(function, lambda _, new: function(new), function)

    @property
    def has_synced(self) -> bool:
        """Report whether the objects have been listed once, and handlers been told of all."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        """Wait until the objects have been listed once."""
        await self._synced.wait()

    async def wait_for_version(self, version: str, seconds: float) -> None:
        """Wait until the store is as new as a resourceVersion of such an object, but not longer than some seconds."""
        if self._version and int(self._version) >= int(version):
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = int(version)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            log.info("%s of version %s have not been seen for %g s", self.name, version, seconds)
        finally:
            del self._waiting[future]

    def _reach(self, version: str) -> None:
        """Note that the store is as new as a version, and wake who waits for that."""
        self._version = version
        for future, least in self._waiting.items():
            if int(version) >= least and not future.done():
                future.set_result(None)

    # --- following ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the objects until cancelled. Errors of the server are logged, and tried again later."""
        from_version = "0"  # the first list may come from the server's cache
        while True:
            try:
                await self._list(from_version)
                await self._watch_until_expired()
                from_version = ""
            except (StatusError, ConnectionError) as why:
                log.warning("cannot list %s: %s", self.name, why)
                await sleep(self.clock, self._backoff.delay())

    async def _list(self, from_version: str) -> None:
        """Make the store as the list is, and tell the handlers what is new, changed and gone, in turns with others."""
        objects, version = await self._read(from_version)
        turns = Turns()
        if held := set(self._indexer.keys()):
            for key in held - {self._key_of(obj) for obj in objects}:
                self._gone(self._indexer.remove(key))
        for obj in objects:
            self._put(obj)
            if turns.is_over:
                await turns.next()
        self._reach(version)
        self._synced.set()

    async def _watch_until_expired(self) -> None:
        """Watch again and again, from where the last watch ended, until that version has been forgotten."""
        while True:
            started, version = self.clock.monotonic(), self._version
            try:
                await self._watch()
            except StatusError as why:
                if why.code == 410:
                    log.info("watch of %s expired: %s", self.name, why)
                    return
                log.warning("cannot watch %s: %s", self.name, why)
                await sleep(self.clock, self._backoff.delay())
            except ConnectionError as why:
                log.info("watch of %s ended: %s", self.name, why)
                await sleep(self.clock, self._backoff.delay())
            else:
                if version == self._version and self.clock.monotonic() - started < SHORT_WATCH_SECONDS:
                    await sleep(self.clock, self._backoff.delay())

    async def _watch(self) -> None:
        """Take in the events of one watch until it ends. Raises StatusError for an error among them."""
        async with aclosing(self._events(self._version)) as events:
            async for kind, obj in events:
                if kind == "DELETED":
                    self._indexer.remove(self._key_of(obj))
                    self._gone(obj)
                elif kind != "BOOKMARK":
                    self._put(obj)
                self._reach(self._version_of(obj))

    def _put(self, obj: T) -> None:
        """Hold an object and tell the handlers, unless it is the same as before."""
        old = self._indexer.put(obj)
        if old is None:
            for handler in self._handlers:
                self._tell(handler.add, obj)
        elif self._version_of(old) != self._version_of(obj):
            for handler in self._handlers:
                self._tell(handler.update, old, obj)

    def _gone(self, obj: T | None) -> None:
        if obj is not None:
            for handler in self._handlers:
                self._tell(handler.delete, obj)

    def _tell(self, function: Callable[..., object], *objects: T) -> None:
        """Call a function of a handler."""
        function(*objects)


I = TypeVar("I", bound=SharedInformer[Any, Any, Any])  # noqa: E741 - an informer


class SharedInformers(Generic[R, I]):
    """Informers that several share: one for each of what they follow. Upstream: `SharedInformerFactory`.

    clock  that of the informers, and of the controllers that follow them
    """

    def __init__(self, new_informer: Callable[[R], I], clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._new_informer = new_informer
        self._informers: dict[R, I] = {}

    def of(self, followed: R) -> I:
        """Return the informer of all objects of a resource, or under a prefix."""
        if followed not in self._informers:
            self._informers[followed] = self._new_informer(followed)
        return self._informers[followed]

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self.start(tasks)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run all informers in a group of tasks."""
        for informer in self._informers.values():
            tasks.create_task(informer.run(), name=f"informer of {informer.name}")

    async def wait_for_sync(self) -> None:
        """Wait until every informer has listed its objects once."""
        for informer in self._informers.values():
            if not informer.has_synced:
                await informer.wait_for_sync()


def _ignore(*_: Any) -> None:
    """Do nothing about a change."""
