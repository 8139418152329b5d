"""A copy of a resource's objects that follows the server, and tells handlers what changes.

pods = Informer(client, PODS, fields="spec.nodeName=n1")
pods.add_handler(add=..., update=..., delete=...)
task = asyncio.create_task(pods.run())
await pods.wait_for_sync()
pods.store.get("default", "p")
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from understudy.apiserver.controllers.framework.informer import SharedInformer, SharedInformers
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import Resource
from understudy.controlplane.client.store import Key, Store, key_of
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

WATCH_SECONDS = 300  # the shortest time that a watch is asked to last; the longest is twice that


class Informer(SharedInformer[Key, Obj, Store]):
    """Follows the objects of a resource: those of a namespace, or all, that selectors match."""

    def __init__(
        self, client: APIClient, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        super().__init__(resource.plural, Store(), client.clock)
        self.resource = resource
        self._client = client
        self._namespace = namespace
        self._selectors = {"labels": labels, "fields": fields}

    async def _read(self, version: str) -> tuple[list[Obj], str]:
        listed = await self._client.list(self.resource, self._namespace, resource_version=version, **self._selectors)
        objects = [self.resource.typed(item) for item in listed.get("items") or ()]
        return objects, listed["metadata"]["resourceVersion"]

    async def _events(self, version: str) -> AsyncGenerator[tuple[str, Obj], None]:
        query = {
            "labelSelector": self._selectors["labels"],
            "fieldSelector": self._selectors["fields"],
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(WATCH_SECONDS, 2 * WATCH_SECONDS)),
        }
        async with aclosing(self._client.watch(self.resource, self._namespace, query=query)) as events:
            async for event in events:
                kind, obj = event["type"], event["object"]
                if kind == "ERROR":
                    code, reason = obj.get("code", 500), obj.get("reason", "")
                    raise StatusError(code, reason, obj.get("message", ""), obj.get("details"))
                yield kind, obj

    def _key_of(self, obj: Obj) -> Key:
        return key_of(obj)

    def _version_of(self, obj: Obj) -> str:
        version: str = obj["metadata"]["resourceVersion"]
        return version


class Informers(SharedInformers[Resource, Informer]):
    """The informers of one client, one for each resource."""

    def __init__(self, client: APIClient) -> None:
        super().__init__(lambda resource: Informer(client, resource), client.clock)
