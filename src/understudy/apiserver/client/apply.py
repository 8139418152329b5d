"""Applies manifests and finds objects by the names that people use, for `Server.apply`, `get`, `list`, `delete`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Iterator

from understudy.apiserver.client.hints import unknown_kind, unknown_resource
from understudy.apiserver.client.loopback import USER_AGENT, Client
from understudy.apiserver.client.manifests import Document, LoadError, read_manifests
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.registry.kind import Kind
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj, split_api_version

Manifest = str | os.PathLike[str] | Obj | Iterable[Obj]
Pause = Callable[[float], Awaitable[None]]  # waits for some seconds
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
PAUSE_SECONDS = 0.001  # between two looks at a definition
STRICT = {"fieldValidation": "Strict"}


async def apply(client: Client, pause: Pause, *manifests: Manifest) -> list[Obj]:
    """Apply every object of the manifests (server-side apply), in order; return them as stored.

    An object without a name, but with a generateName, is created. A definition is established before the next object.
    Raises StatusError, LoadError.
    """
    documents = (document for manifest in manifests for document in _documents(client, manifest))
    return [await _apply(client, pause, document.obj) for document in documents]


async def load(client: Client, pause: Pause, manifest: Manifest) -> None:
    """Apply the objects that a server begins with, as `apply` does. Raises LoadError, which names file and document."""
    for document in _documents(client, manifest):
        try:
            await _apply(client, pause, document.obj)
        except StatusError as error:
            raise LoadError(f"{document.where}: {error.message}") from None


async def get(client: Client, resource: str, name: str, namespace: str) -> Obj:
    """Return an object; `resource` may be a kind, a resource or a short name. Raises StatusError."""
    return await client.get(_path(client, resource, namespace, name))


async def list_objects(client: Client, resource: str, namespace: str, labels: str, fields: str) -> list[Obj]:
    """Return the objects of a namespace, "" for all, that label and field selectors match. Raises StatusError."""
    query = {"labelSelector": labels, "fieldSelector": fields}
    items: list[Obj] = (await client.get(_path(client, resource, namespace, ""), query))["items"]
    return items


async def delete(client: Client, resource: str, name: str, namespace: str) -> None:
    """Delete an object. Raises StatusError."""
    await client.delete(_path(client, resource, namespace, name))


def find_kind(kinds: Iterable[Kind], text: str) -> Kind | None:
    """Return the kind with a kind, resource, singular or short name, in any case, with or without `.group`."""
    name, _, group = text.lower().partition(".")
    for kind in kinds:
        names = {kind.name.lower(), kind.resource, kind.singular, *kind.short_names}
        groups = {kind.group, *(f"{version}.{kind.group}" for version in kind.versions)}
        if name in names and not kind.virtual and (not group or group in groups):
            return kind
    return None


async def _apply(client: Client, pause: Pause, obj: Obj) -> Obj:
    group, version = split_api_version(obj.get("apiVersion", ""))
    kind = _kind_of(client, obj)
    if kind is None:
        raise unknown_kind(client.serving, str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    metadata = obj.setdefault("metadata", {})
    namespace = metadata.get("namespace") or "default" if kind.namespaced else ""
    name = metadata.get("name", "")
    path = resource_path(group, version, kind.resource, namespace, name)
    if not name:
        return await client.create(path, obj, STRICT)
    stored = await client.apply(path, obj, USER_AGENT, STRICT)
    if obj.get("status") and kind.has_status:
        stored = await client.apply(f"{path}/status", obj, USER_AGENT, STRICT)
    return await _established(client, pause, path, stored) if (group, kind.resource) == DEFINITIONS else stored


async def _established(client: Client, pause: Pause, path: str, definition: Obj) -> Obj:
    """Return a definition once it is established, or known to have names that others have."""
    while not any(map(_is_decisive, definition["status"].get("conditions") or ())):
        await pause(PAUSE_SECONDS)
        definition = await client.get(path)
    return definition


def _is_decisive(condition: Obj) -> bool:
    """Report whether a condition says that a definition is established, or that its names are not accepted."""
    return (condition["type"], condition["status"]) in (("Established", "True"), ("NamesAccepted", "False"))


def _path(client: Client, resource: str, namespace: str, name: str) -> str:
    kind = find_kind(client.serving.kinds, resource)
    if kind is None:
        raise unknown_resource(client.serving, resource)
    place = namespace if kind.namespaced else ""
    return resource_path(kind.group, kind.versions[0], kind.resource, place, name)


def _kind_of(client: Client, obj: Obj) -> Kind | None:
    """Return the kind of an object in its own version, None if that is not served."""
    group, version = split_api_version(obj.get("apiVersion", ""))
    return client.serving.kind_in(group, version, obj.get("kind", ""))


def _documents(client: Client, manifest: Manifest) -> Iterator[Document]:
    if isinstance(manifest, dict):
        yield Document(manifest, "the given object")
    elif isinstance(manifest, str | os.PathLike):
        yield from read_manifests(manifest, lambda obj: _kind_of(client, obj) is not None)
    else:
        for obj in manifest:
            yield Document(obj, "the given object")
