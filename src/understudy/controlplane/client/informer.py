"""A copy of a resource's objects that follows the server, and tells handlers what changes.

    pods = Informer(client, PODS, fields="spec.nodeName=n1")
    pods.add_handler(add=..., update=..., delete=...)
    task = asyncio.create_task(pods.run())
    await pods.wait_for_sync()
    pods.store.get("default", "p")

It lists the objects once and watches from there. A watch that ends goes on from the last resourceVersion, or bookmark;
if the server has forgotten that one (410), the objects are listed again. Upstream: `cache.Reflector`, `SharedInformer`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.backoff import Backoff
from understudy.controlplane.client.resources import Resource
from understudy.controlplane.client.store import Store, key_of
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

log = logging.getLogger(__name__)

WATCH_SECONDS = 300  # the shortest time that a watch is asked to last; the longest is twice that
SHORT_WATCH_SECONDS = 1.0  # one that ends without an event before is followed by a pause


class Handler(NamedTuple):
    """Functions that are called, in the event loop, after each change of the store."""

    add: Callable[[Obj], None]
    update: Callable[[Obj, Obj], None]
    delete: Callable[[Obj], None]


class Informer:
    """Follows the objects of a resource: those of a namespace, or all, that selectors match."""

    def __init__(
        self, client: APIClient, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        self.resource = resource
        self.store = Store()
        self._client = client
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._handlers: list[Handler] = []
        self._version = ""
        self._waiting: dict[asyncio.Future[None], int] = {}  # for the store to have some version
        self._synced = asyncio.Event()
        self._backoff = Backoff()

    def add_handler(
        self,
        add: Callable[[Obj], None] | None = None,
        update: Callable[[Obj, Obj], None] | None = None,
        delete: Callable[[Obj], None] | None = None,
    ) -> None:
        """Call functions for objects that are new (at first: all), changed (old, new) and gone (as last seen)."""
        handler = Handler(add or _ignore, update or _ignore, delete or _ignore)
        self._handlers.append(handler)
        for obj in self.store.objects():
            handler.add(obj)

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
            log.info("%s of version %s have not been seen for %g s", self.resource.plural, version, seconds)
        finally:
            del self._waiting[future]

    def _reach(self, version: str) -> None:
        """Note that the store is as new as a version, and wake who waits for that."""
        self._version = version
        for future, least in self._waiting.items():
            if int(version) >= least and not future.done():
                future.set_result(None)

    async def run(self) -> None:
        """Follow the server until cancelled. Errors of the server are logged, and tried again later."""
        from_version = "0"  # the first list may come from the server's cache
        while True:
            try:
                await self._list(from_version)
                await self._watch_until_expired()
                from_version = ""
            except (StatusError, ConnectionError) as why:
                log.warning("cannot list %s: %s", self.resource.plural, why)
                await asyncio.sleep(self._backoff.delay())

    async def _list(self, version: str) -> None:
        """Make the store as the server's list, and tell the handlers what is new, changed and gone."""
        listed = await self._client.list(self.resource, self._namespace, resource_version=version, **self._selectors)
        items = [self.resource.typed(item) for item in listed.get("items") or ()]
        for key in set(self.store.keys()) - {key_of(item) for item in items}:
            self._gone(self.store.remove(key))
        for item in items:
            self._put(item)
        self._reach(listed["metadata"]["resourceVersion"])
        self._synced.set()

    async def _watch_until_expired(self) -> None:
        """Watch again and again, from where the last watch ended, until the server has forgotten that state."""
        while True:
            started, events = time.monotonic(), self._version
            try:
                await self._watch()
            except StatusError as why:
                if why.code == 410:
                    log.info("watch of %s expired: %s", self.resource.plural, why)
                    return
                log.warning("cannot watch %s: %s", self.resource.plural, why)
                await asyncio.sleep(self._backoff.delay())
            except ConnectionError as why:
                log.info("watch of %s ended: %s", self.resource.plural, why)
                await asyncio.sleep(self._backoff.delay())
            else:
                if events == self._version and time.monotonic() - started < SHORT_WATCH_SECONDS:
                    await asyncio.sleep(self._backoff.delay())

    async def _watch(self) -> None:
        """Take in the events of one watch until it ends. Raises StatusError for an error among them."""
        query = {
            "labelSelector": self._selectors["labels"],
            "fieldSelector": self._selectors["fields"],
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)),
        }
        async with aclosing(self._client.watch(self.resource, self._namespace, query=query)) as events:
            async for event in events:
                self._take(event["type"], event["object"])

    def _take(self, kind: str, obj: Obj) -> None:
        if kind == "ERROR":
            raise StatusError(obj.get("code", 500), obj.get("reason", ""), obj.get("message", ""), obj.get("details"))
        if kind == "DELETED":
            self.store.remove(key_of(obj))
            self._gone(obj)
        elif kind != "BOOKMARK":
            self._put(obj)
        self._reach(obj["metadata"]["resourceVersion"])

    def _put(self, obj: Obj) -> None:
        """Hold an object and tell the handlers, unless it is the same as before."""
        old = self.store.put(obj)
        if old is None:
            for handler in self._handlers:
                handler.add(obj)
        elif old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            for handler in self._handlers:
                handler.update(old, obj)

    def _gone(self, obj: Obj | None) -> None:
        if obj is not None:
            for handler in self._handlers:
                handler.delete(obj)


class Informers:
    """The informers of one client, one for each resource. Upstream: `SharedInformerFactory`."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._informers: dict[Resource, Informer] = {}

    def of(self, resource: Resource) -> Informer:
        """Return the informer of all objects of a resource."""
        if resource not in self._informers:
            self._informers[resource] = Informer(self._client, resource)
        return self._informers[resource]

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run(), name=f"informer of {informer.resource.plural}")

    async def wait_for_sync(self) -> None:
        """Wait until every informer has listed its objects once."""
        for informer in self._informers.values():
            await informer.wait_for_sync()


def _ignore(*_: Obj) -> None:
    """Do nothing about a change."""
