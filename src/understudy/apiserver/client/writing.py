"""Writes the objects of manifests: create, update and apply, for `Server` and its users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from understudy.apiserver.client.kind_names import RequestError, ServedKind, find, find_kind_of
from understudy.apiserver.client.loopback import USER_AGENT, Client
from understudy.apiserver.client.manifests import Document, LoadError, Manifest, documents
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH
from understudy.apiserver.extensions.serving import Serving
from understudy.machinery.errors import StatusError
from understudy.machinery.options import STRICT, WriteOptions
from understudy.machinery.types import NamedTuple, Obj, nested_field

if TYPE_CHECKING:
    from understudy.worlds.world import WorldObject

Pause = Callable[[float], Awaitable[None]]  # waits for some seconds
Show = Callable[[Iterator[Document]], Iterator[Document]]  # returns what it gets, and shows how far that has come
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
PAUSE_SECONDS = 0.001  # between two looks at a definition
LOADING = WriteOptions(dry_run=False, field_manager=USER_AGENT, field_validation=STRICT, force=True)


class Place(NamedTuple):
    """The place of an object, as far as its manifest does not name it.

    namespace   of an object that names none
    kind, name  of the object that has the subresource, where the manifest is of another kind, such as a Scale
    """

    namespace: str
    subresource: str = ""
    kind: str = ""
    name: str = ""

    def kind_of(self, serving: Serving, obj: Obj) -> ServedKind:
        """Return the kind whose path an object is sent to. Raises StatusError (404), RequestError."""
        return find(serving, self.kind) if self.kind else find_kind_of(serving, obj)

    def namespace_of(self, obj: Obj) -> str:
        """Return the namespace of an object."""
        namespace: str = _metadata(obj, "namespace") or self.namespace
        return namespace

    def path(self, serving: Serving, obj: Obj) -> str:
        """Return the path of an object, or of a subresource of it. Raises StatusError (404), RequestError."""
        name = self.name or _metadata(obj, "name")
        return self.kind_of(serving, obj).object(self.namespace_of(obj), name, self.subresource)


async def create(client: Client, pause: Pause, manifest: Manifest, place: Place, options: WriteOptions) -> Obj:
    """Create the object of a manifest; return it as stored. Raises StatusError, RequestError, LoadError.

    A definition is returned once its objects can be created.
    """
    obj = _only(client, manifest)
    if place.subresource:
        return await client.create(place.path(client.serving, obj), obj, query(options))
    served = place.kind_of(client.serving, obj)
    path = served.collection(place.namespace_of(obj))
    stored = await client.create(path, obj, query(options))
    return await _established(client, pause, served, stored, options)


async def update(client: Client, manifest: Manifest, place: Place, options: WriteOptions) -> Obj:
    """Replace an object by that of a manifest; return it as stored. Raises StatusError, RequestError, LoadError."""
    obj = _only(client, manifest)
    return await client.update(place.path(client.serving, obj), obj, query(options))


async def apply(client: Client, pause: Pause, manifest: Manifest, namespace: str, options: WriteOptions) -> list[Obj]:
    """Apply the objects of a manifest, in order; return them as stored. Raises StatusError, RequestError, LoadError."""
    return [await _apply(client, pause, document.obj, namespace, options) for document in _read(client, manifest)]


async def load(client: Client, pause: Pause, manifest: Manifest, show: Show = iter) -> None:
    """Apply the objects that a server begins with. Raises LoadError, which names file and document.

    An object may have a uid: it gets a new one, as every object does, and those that come later refer to that one.
    """
    uids: dict[str, str] = {}
    for document in show(_read(client, manifest)):
        uid = _metadata(document.obj, "uid")
        obj = _with_metadata(_with_uids(document.obj, uids), uid=None) if uid or uids else document.obj
        try:
            stored = await _apply(client, pause, obj, "default", LOADING)
        except (StatusError, RequestError) as error:
            raise LoadError(f"{document.where}: {error}") from None
        if uid:
            uids[uid] = stored["metadata"]["uid"]


def _with_uids(value: Any, uids: Mapping[str, str]) -> Any:
    """Return a value in which uids, those of owners, consumers and others, are exchanged by new ones."""
    if isinstance(value, dict):
        return {
            name: uids.get(member, member) if name == "uid" and isinstance(member, str) else _with_uids(member, uids)
            for name, member in value.items()
        }
    return [_with_uids(member, uids) for member in value] if isinstance(value, list) else value


def query(options: WriteOptions) -> Mapping[str, str]:
    """Return the parameters of a write; empty ones are not sent."""
    return {
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
        "dryRun": "All" if options.dry_run else "",
        "force": "true" if options.force else "",
    }


async def _apply(client: Client, pause: Pause, obj: Obj, namespace: str, options: WriteOptions) -> Obj:
    """Apply an object and its status; create one that has a generateName instead of a name.

    Managed fields, which an applied object may not have, are left out. A dry run leaves out the status.
    """
    place = Place(namespace)
    if not _metadata(obj, "name"):
        return await create(client, pause, obj, place, replace(options, force=None))
    served, path = place.kind_of(client.serving, obj), place.path(client.serving, obj)
    applied = _with_metadata(obj, managedFields=None)
    stored = await client.patch(path, applied, APPLY_PATCH, query(options))
    if obj.get("status") and served.kind.has_status and not options.dry_run:
        if _metadata(obj, "resourceVersion"):  # it may have changed with what is not the status
            applied = _with_metadata(applied, resourceVersion=stored["metadata"]["resourceVersion"])
        stored = await client.patch(f"{path}/status", applied, APPLY_PATCH, query(options))
    return await _established(client, pause, served, stored, options)


async def _established(client: Client, pause: Pause, served: ServedKind, stored: Obj, options: WriteOptions) -> Obj:
    """Return a stored object; a definition once it is established, or known to have names that others have."""
    if (served.kind.group, served.kind.resource) != DEFINITIONS or options.dry_run:
        return stored
    path = served.object("", stored["metadata"]["name"])
    while not any(map(_is_decisive, stored["status"].get("conditions") or ())):
        await pause(PAUSE_SECONDS)
        stored = await client.get(path)
    return stored


def _is_decisive(condition: Obj) -> bool:
    """Report whether a condition says that a definition is established, or that its names are not accepted."""
    return (condition["type"], condition["status"]) in (("Established", "True"), ("NamesAccepted", "False"))


def _read(client: Client, manifest: Manifest) -> Iterator[Document]:
    """Yield the objects of a manifest; those of a world in versions that are served. Raises LoadError."""

    def read(name: str) -> Iterator[WorldObject]:
        from understudy.apiserver.encoding.world_forms import read_world  # few load a world

        return read_world(name, client.serving.version, client.serving, client.gates)

    return documents(manifest, read)


def _only(client: Client, manifest: Manifest) -> Obj:
    """Return the object of a manifest. Raises RequestError if there is not exactly one, LoadError."""
    objects = [document.obj for document in _read(client, manifest)]
    if len(objects) != 1:
        raise RequestError(f"want one object, not {len(objects)}: `apply` takes several")
    return objects[0]


def _metadata(obj: Obj, field: str) -> Any:
    """Return a field of an object's metadata, "" if it is missing."""
    return nested_field(obj, "metadata", field, default="")


def _with_metadata(obj: Obj, **fields: Any) -> Obj:
    """Return an object with fields of its metadata set, or left out where they are None."""
    metadata = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if value is not None}}
