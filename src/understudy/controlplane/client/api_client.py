"""The HTTP client of an API server: one method for each verb, objects in and out.

Objects travel as JSON, or as protobuf if their resource says so (`encodings`).

async with APIClient(connection, "kube-controller-manager/v1.36") as client:
    pod = await client.get(PODS, "p", "default")
    await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Self

import aiohttp

from understudy.apiserver.client.connection import Connection, load_client_certificate
from understudy.apiserver.client.verbs import Query, Verbs, answered_error
from understudy.apiserver.endpoints.negotiation import MERGE_PATCH
from understudy.controlplane.client.encodings import JSON_ENCODING, Encoding, encoding_of
from understudy.controlplane.client.inside import InsideResponse, inside
from understudy.controlplane.client.resources import Resource
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock
from understudy.machinery.util.timers import working

Send = Callable[
    [str, str, bytes | None, Mapping[str, str], Query],
    AbstractAsyncContextManager[aiohttp.ClientResponse | InsideResponse],
]  # a method, a path, a body, headers and parameters
CONNECT_SECONDS = 30.0  # for a new connection; requests themselves have no deadline, since watches have none


class APIClient:
    """Sends requests as the user of a connection. It is an asynchronous context manager.

    user_agent  "kube-scheduler/v1.36": the part before the slash is the manager in managed fields
    clock       that of the program whose client it is

    Every method raises StatusError for what the server refuses, and ConnectionError if there is no answer.
    """

    def __init__(self, connection: Connection, user_agent: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.connection = connection
        self.clock = clock
        self._headers = {"User-Agent": user_agent}
        if connection.token:
            self._headers["Authorization"] = f"Bearer {connection.token}"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=ssl_context(self.connection)),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            headers=self._headers,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def verbs(self) -> Verbs:
        """Return the verbs on paths, with objects as JSON."""
        return _HTTPVerbs(self.send, JSON_ENCODING, self.clock)

    async def server_version(self) -> Version:
        """Return the release that the server says it is, a preview for "v1.38.0-alpha.0"."""
        answer = await self.verbs.get("/version")
        return Version.of_build(answer["gitVersion"])

    async def get_path(self, path: str, query: Query | None = None) -> Obj:
        """Return the answer at a path, as JSON: discovery, a list of objects of any kind."""
        return await self.verbs.get(path, query)

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Obj:
        """Return an object."""
        return await self._of(resource).get(resource.path(namespace, name, subresource))

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Obj | None:
        """Return an object, None if there is none."""
        with ignore_not_found():
            return await self.get(resource, name, namespace)
        return None

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
    ) -> Obj:
        """Return the list of a namespace's objects, or of all, that selectors match. Its items have no kind.

        resource_version  "0" takes any state that the server has at hand, "" the newest
        """
        query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": resource_version}
        return await self._of(resource).get(resource.path(namespace), query)

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Obj:
        """Create an object in a namespace, its own if that is ""; return it as stored.

        With `name` and `subresource` it is posted to that of another object, such as a Binding to a pod.
        """
        path = resource.path(namespace or _namespace_of(obj), name, subresource)
        if subresource:
            return await self.verbs.create(path, obj)
        return await self._of(resource).create(path, resource.typed(obj))

    async def update(self, resource: Resource, obj: Obj, subresource: str = "") -> Obj:
        """Replace an object; return it as stored."""
        return await self._of(resource).update(_path_of(resource, obj, subresource), resource.typed(obj))

    async def update_status(self, resource: Resource, obj: Obj) -> Obj:
        """Replace the status of an object; return it as stored."""
        return await self.update(resource, obj, "status")

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Obj:
        """Change an object by a patch of a content type; return it as stored."""
        return await self._of(resource).patch(resource.path(namespace, name, subresource), patch, content_type)

    async def apply(self, resource: Resource, obj: Obj, field_manager: str, subresource: str = "") -> Obj:
        """Apply the fields of an object, taking over those that others manage; return it as stored."""
        return await self._of(resource).apply(_path_of(resource, obj, subresource), resource.typed(obj), field_manager)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_period: int | None = None,
    ) -> Obj:
        """Delete an object; return the answer. See `Verbs.delete`."""
        return await self._of(resource).delete(
            resource.path(namespace, name),
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace_period=grace_period,
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Obj:
        """Delete the objects of a namespace, or all, that selectors match; return the answer."""
        return await self._of(resource).delete(
            resource.path(namespace), {"labelSelector": labels, "fieldSelector": fields}
        )

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Query | None = None
    ) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch, `{"type": "ADDED", "object": {…}}`, until the server ends it.

        query  labelSelector, fieldSelector, resourceVersion, timeoutSeconds, allowWatchBookmarks
        """
        path, encoding = resource.path(namespace), encoding_of(resource)
        accept, query = encoding.accept_watch, {**(query or {}), "watch": "true"}
        async with AsyncExitStack() as open_watch:
            with working(self.clock):
                response = await open_watch.enter_async_context(self.send("GET", path, None, {"Accept": accept}, query))
            if response.status >= 400:
                raise answered_error(response.status, await response.read(), encoding.decode)
            async with aclosing(encoding.events(response.content.iter_any(), response.content_type)) as events:
                async for event in events:
                    yield event

    def _of(self, resource: Resource) -> _HTTPVerbs:
        """Return the verbs on paths, in the encoding of a resource."""
        return _HTTPVerbs(self.send, encoding_of(resource), self.clock)

    @asynccontextmanager
    async def send(
        self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str], query: Query
    ) -> AsyncIterator[aiohttp.ClientResponse | InsideResponse]:
        """Send a request; a connection that breaks before all of the answer is read raises ConnectionError."""
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with`")
        if (ask := self.connection.ask_inside) is not None:
            async with inside(ask, method, path, {**self._headers, **headers}, raw, query) as answer:
                yield answer
            return
        url = f"{self.connection.url}{path}"
        params = {name: value for name, value in query.items() if value}
        try:
            async with self._session.request(method, url, params=params, data=raw, headers=headers) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError) as why:
            raise ConnectionError(f"{self.connection.url}: {str(why) or type(why).__name__}") from why


class _HTTPVerbs(Verbs):
    """The verbs of the API by HTTP, with objects in an encoding. Raises ConnectionError if there is no answer.

    Whoever moves the clock on waits until the answers are read: sockets may take longer than the server.
    """

    def __init__(self, send: Send, encoding: Encoding, clock: Clock) -> None:
        self._send = send
        self._encoding = encoding
        self._clock = clock

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: Query | None = None
    ) -> Obj:
        headers, raw = {"Accept": self._encoding.accept}, None
        if body is not None:
            headers["Content-Type"] = content_type or self._encoding.media_type
            raw = encode(body) if content_type else self._encoding.encode(body)
        with working(self._clock):
            async with self._send(method, path, raw, headers, query or {}) as response:
                answer = await response.read()
        if response.status >= 400:
            raise answered_error(response.status, answer, self._encoding.decode)
        try:
            return self._encoding.decode(answer)
        except ValueError as why:
            raise ConnectionError(f"{response.url}: the answer cannot be read: {why}") from None


def ssl_context(connection: Connection) -> ssl.SSLContext | bool:
    """Return the TLS settings of a connection: the check of the server's certificate, and the client's certificate."""
    if not connection.url.startswith("https:"):
        return True  # aiohttp's default, which plain HTTP does not use
    authority = connection.certificate_authority
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if connection.client_certificate is not None:
        load_client_certificate(context, connection.client_certificate, connection.client_key)
    return context


def _path_of(resource: Resource, obj: Obj, subresource: str) -> str:
    return resource.path(_namespace_of(obj), obj["metadata"]["name"], subresource)


def _namespace_of(obj: Obj) -> str:
    namespace: str = obj.get("metadata", {}).get("namespace") or ""
    return namespace
