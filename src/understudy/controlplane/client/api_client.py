"""The HTTP client of an API server: one method for each verb, objects in and out.

Objects travel as JSON, or as protobuf if their resource says so (`encodings`).

async with APIClient(connection, "kube-controller-manager/v1.36") as client:
    pod = await client.get(PODS, "p", "default")
    await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.encodings import JSON, JSON_ENCODING, Encoding, encoding_of
from understudy.controlplane.client.resources import Resource
from understudy.machinery.errors import StatusError, status_error
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.types import Obj

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

CONNECT_SECONDS = 30.0  # for a new connection; requests themselves have no deadline, since watches have none


class APIClient:
    """Sends requests as the user of a connection. It is an asynchronous context manager.

    user_agent  "kube-scheduler/v1.36": the part before the slash is the manager in managed fields

    Every method raises StatusError for what the server refuses, and ConnectionError if there is no answer.
    """

    def __init__(self, connection: Connection, user_agent: str) -> None:
        self.connection = connection
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

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Obj:
        """Return an object."""
        return await self._ask(encoding_of(resource), "GET", resource.path(namespace, name, subresource))

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
        return await self._ask(encoding_of(resource), "GET", resource.path(namespace), query=query)

    async def create(
        self, resource: Resource, obj: Obj, namespace: str = "", name: str = "", subresource: str = ""
    ) -> Obj:
        """Create an object in a namespace, its own if that is ""; return it as stored.

        With `name` and `subresource` it is posted to that of another object, such as a Binding to a pod.
        """
        path = resource.path(namespace or _namespace_of(obj), name, subresource)
        if subresource:
            return await self.request("POST", path, obj, JSON)
        encoding = encoding_of(resource)
        return await self._ask(encoding, "POST", path, encoding.encode(resource.typed(obj)), encoding.media_type)

    async def update(self, resource: Resource, obj: Obj, subresource: str = "") -> Obj:
        """Replace an object; return it as stored."""
        path, encoding = resource.path(_namespace_of(obj), obj["metadata"]["name"], subresource), encoding_of(resource)
        return await self._ask(encoding, "PUT", path, encoding.encode(resource.typed(obj)), encoding.media_type)

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
        path = resource.path(namespace, name, subresource)
        return await self._ask(encoding_of(resource), "PATCH", path, encode(patch), content_type)

    async def apply(self, resource: Resource, obj: Obj, field_manager: str, subresource: str = "") -> Obj:
        """Apply the fields of an object, taking over those that others manage; return it as stored."""
        path = resource.path(_namespace_of(obj), obj["metadata"]["name"], subresource)
        query = {"fieldManager": field_manager, "force": "true"}
        body = encode(resource.typed(obj))
        return await self._ask(encoding_of(resource), "PATCH", path, body, APPLY_PATCH, query)

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
        """Delete an object, the one with a uid and in a resourceVersion if they are named; return the answer.

        propagation   "Background", "Foreground" or "Orphan"
        grace_period  seconds
        """
        preconditions = {
            field: value for field, value in {"uid": uid, "resourceVersion": resource_version}.items() if value
        }
        options = {
            "gracePeriodSeconds": grace_period,
            "preconditions": preconditions or None,
            "propagationPolicy": propagation or None,
        }
        body = {field: value for field, value in options.items() if value is not None}
        raw = encode(body) if body else None
        return await self._ask(encoding_of(resource), "DELETE", resource.path(namespace, name), raw, JSON)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Obj:
        """Delete the objects of a namespace, or all, that selectors match; return the answer."""
        query = {"labelSelector": labels, "fieldSelector": fields}
        return await self._ask(encoding_of(resource), "DELETE", resource.path(namespace), query=query)

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Obj, None]:
        """Yield the events of a watch, `{"type": "ADDED", "object": {…}}`, until the server ends it.

        query  labelSelector, fieldSelector, resourceVersion, timeoutSeconds, allowWatchBookmarks
        """
        path, encoding = resource.path(namespace), encoding_of(resource)
        accept, query = encoding.accept_watch, {**(query or {}), "watch": "true"}
        async with self._send("GET", path, None, {"Accept": accept}, query) as response:
            if response.status >= 400:
                raise _status_error(response.status, await response.read(), encoding)
            async with aclosing(encoding.events(response.content.iter_any(), response.content_type)) as events:
                async for event in events:
                    yield event

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Obj:
        """Send a request with a JSON body; return the JSON of the answer."""
        return await self._ask(JSON_ENCODING, method, path, None if body is None else encode(body), content_type, query)

    async def _ask(
        self,
        encoding: Encoding,
        method: str,
        path: str,
        raw: bytes | None = None,
        content_type: str = "",
        query: Mapping[str, str] | None = None,
    ) -> Obj:
        """Send a request; return the object that is answered, in an encoding."""
        headers = {"Accept": encoding.accept, **({"Content-Type": content_type} if raw is not None else {})}
        async with self._send(method, path, raw, headers, query or {}) as response:
            answer = await response.read()
        if response.status >= 400:
            raise _status_error(response.status, answer, encoding)
        try:
            return encoding.decode(answer)
        except ValueError as why:
            raise ConnectionError(f"{self.connection.url}{path}: the answer cannot be read: {why}") from None

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str], query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; a connection that breaks before all of the answer is read raises ConnectionError."""
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with`")
        url = f"{self.connection.url}{path}"
        params = {name: value for name, value in query.items() if value}
        try:
            async with self._session.request(method, url, params=params, data=raw, headers=headers) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError) as why:
            raise ConnectionError(f"{self.connection.url}: {str(why) or type(why).__name__}") from why


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
        with tempfile.TemporaryDirectory() as folder:  # load_cert_chain reads files only
            file = Path(folder) / "client.pem"
            file.touch(mode=0o600)
            file.write_bytes(connection.client_certificate + b"\n" + (connection.client_key or b""))
            context.load_cert_chain(file)
    return context


def _namespace_of(obj: Obj) -> str:
    namespace: str = obj.get("metadata", {}).get("namespace") or ""
    return namespace


def _status_error(code: int, answer: bytes, encoding: Encoding) -> StatusError:
    """Return the error of an answer, which is a Status unless something before the API server has answered."""
    try:
        status = encoding.decode(answer)
    except ValueError:
        return StatusError(code, "", answer.decode(errors="replace").strip())
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return StatusError(code, "", answer.decode(errors="replace").strip())
    return status_error(code, status)
