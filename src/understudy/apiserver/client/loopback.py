"""A client inside the server's process: what Server.apply, get, list and delete, and `--load`, are made of.

Requests take the way of any other request from `dispatch` on, so that what is refused there is refused here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

import orjson

from understudy.apiserver.client.manifests import Document, LoadError, read_manifests
from understudy.apiserver.endpoints.request import Request, Response, WatchResponse
from understudy.apiserver.kinds.release import Release
from understudy.apiserver.registry.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.options import Query
from understudy.machinery.types import Obj, split_api_version

Manifest = str | os.PathLike[str] | Obj | Iterable[Obj]
AGENT = "understudy"
APPLY = "application/apply-patch+yaml"


class Client:
    """Sends requests to the server that it is a part of.

    answer   the server's own front door: what every request from outside goes through
    release  what is served
    token    the bearer token of an administrator, "" where the server asks for none
    """

    def __init__(
        self, answer: Callable[[Request], Awaitable[Response | WatchResponse]], release: Release, token: str
    ) -> None:
        self._answer = answer
        self._release = release
        self._token = token

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> Obj:
        """The answer's object. Raises StatusError for any other than a success."""
        text = urlencode({name: value for name, value in query.items() if value})
        headers = {"User-Agent": AGENT, "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        raw = b"" if body is None else orjson.dumps(body)
        answer = await self._answer(Request(method, path, headers, raw, Query(text), self._release.version))
        assert isinstance(answer, Response)
        found: Obj = orjson.loads(answer.body)
        if answer.status >= 400:
            reason, details = found.get("reason", ""), found.get("details")
            raise StatusError(answer.status, reason, found.get("message", ""), details)
        return found

    async def apply(self, *manifests: Manifest) -> list[Obj]:
        """Server-side apply of everything in the manifests, in order. Raises StatusError, LoadError."""
        return [await self._apply(document.obj) for manifest in manifests for document in _documents(manifest)]

    async def load(self, manifest: Manifest) -> None:
        """The same for what a server begins with, its status included. Raises LoadError, which names the place."""
        for document in _documents(manifest):
            try:
                await self._apply(document.obj)
            except StatusError as error:
                raise LoadError(f"{document.where}: {error.message}") from None

    async def _apply(self, obj: Obj) -> Obj:
        kind, path = self._path_of(obj)
        options = {"fieldManager": AGENT, "force": "true", "fieldValidation": "Strict"}
        if not obj["metadata"].get("name"):
            return await self.request(
                "POST", path.rpartition("/")[0], obj, "application/json", fieldValidation="Strict"
            )
        stored = await self.request("PATCH", path, obj, APPLY, **options)
        if obj.get("status") and kind.has_status:
            stored = await self.request("PATCH", f"{path}/status", obj, APPLY, **options)
        return stored

    def _path_of(self, obj: Obj) -> tuple[Kind, str]:
        """The kind of an object and where it lives. Raises StatusError for a kind that is not served."""
        api_version, name = obj.get("apiVersion", ""), obj.get("kind", "")
        group, version = split_api_version(api_version)
        kind = self._release.kind(group, name)
        if kind is None or version not in kind.versions:
            raise StatusError(404, "NotFound", f'no matches for kind "{name}" in version "{api_version}"')
        metadata = obj.setdefault("metadata", {})
        return kind, _path(kind, version, metadata.get("namespace") or "default", metadata.get("name", ""))

    async def get(self, kind: str, name: str, namespace: str) -> Obj:
        return await self.request("GET", self._path(kind, namespace, name))

    async def list(self, kind: str, namespace: str, labels: str, fields: str) -> list[Obj]:
        query = {"labelSelector": labels, "fieldSelector": fields}
        found: list[Obj] = (await self.request("GET", self._path(kind, namespace, ""), **query))["items"]
        return found

    async def delete(self, kind: str, name: str, namespace: str) -> None:
        await self.request("DELETE", self._path(kind, namespace, name))

    def _path(self, named: str, namespace: str, name: str) -> str:
        kind = find_kind(self._release.kinds, named)
        if kind is None:
            raise StatusError(404, "NotFound", f'the server doesn\'t have a resource type "{named}"')
        return _path(kind, kind.versions[0], namespace, name)


def find_kind(kinds: Iterable[Kind], named: str) -> Kind | None:
    """By kind, resource, singular or short name, in any case, with or without `.group`."""
    wanted, _, group = named.lower().partition(".")
    for kind in kinds:
        names = {kind.name.lower(), kind.resource, kind.singular, *kind.short_names}
        if wanted in names and not kind.virtual and (not group or group in (kind.group, *_versioned(kind))):
            return kind
    return None


def _versioned(kind: Kind) -> Iterator[str]:
    return (f"{version}.{kind.group}" for version in kind.versions)


def _path(kind: Kind, version: str, namespace: str, name: str) -> str:
    head = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
    inside = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    tail = f"/{name}" if name else ""
    return f"{head}{inside}/{kind.resource}{tail}"


def _documents(manifest: Manifest) -> Iterator[Document]:
    if isinstance(manifest, dict):
        yield Document(manifest, "the given object")
    elif isinstance(manifest, str | os.PathLike):
        yield from read_manifests(manifest)
    else:
        for obj in manifest:
            yield Document(obj, "the given object")
