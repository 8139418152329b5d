"""The places whose contents `understudy snapshot` reads and writes, as users write them:

    sqlite:FILE       what --storage sqlite:FILE keeps
    etcd:URL,URL      an etcd, in the layout of kube-apiserver
    FILE              a snapshot of etcd, or a SQLite file
    http(s)://…       a running server that asks for no credentials
    kubeconfig:FILE   the server of its current context; with nothing behind the colon, that of KUBECONFIG

The first three are engines, of which the bytes are read; a server is asked for its objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.apiserver.client.connection import Connection
from understudy.apiserver.encoding.conversion import from_internal, to_internal
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.registry.stored_values import StoredValues
from understudy.apiserver.serving.release import Release
from understudy.apiserver.storage.engine import Contents, Engine, Show, Write
from understudy.apiserver.storage.interface import Raw, StorageError
from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases.features import Gates
from understudy.machinery.serializer.json import decode_value
from understudy.machinery.types import NamedTuple, Obj, named_kind

if TYPE_CHECKING:
    from understudy.controlplane.client.resources import Resource

_SQLITE, _ETCD, _KUBECONFIG = "sqlite:", "etcd:", "kubeconfig:"
_SQLITE_HEADER = b"SQLite format 3\0"


class ObjectKey(NamedTuple):
    """The name of an object among those of all kinds; `namespace` is "" for kinds without."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


class State(NamedTuple):
    """The objects of a place, in the preferred version of each kind, and a line for each that cannot be read."""

    objects: Mapping[ObjectKey, Obj]
    unread: Sequence[str]


class Nobody:
    """Learns of no writes: nothing is written but by this process."""

    def take(self, writes: Sequence[Write], revision: int) -> None:
        """Take nothing."""

    def start_over(self, contents: Contents) -> None:
        """Take nothing."""


def connection_to(place: str) -> Connection | None:
    """Return the connection to a running server, None for any other place. Raises ValueError, OSError."""
    if place.startswith(("http://", "https://")):
        return Connection(url=place.rstrip("/"))
    if not place.startswith(_KUBECONFIG):
        return None
    from understudy.apiserver.client.external.kubeconfig_reader import default_kubeconfig, read_kubeconfig

    return read_kubeconfig(place.removeprefix(_KUBECONFIG) or default_kubeconfig())


def engine_of(place: str, *, new: bool = False) -> Engine:
    """Return the engine of a place that is no running server; `new` ones may be missing. Raises StorageError."""
    if place.startswith(_ETCD):
        from understudy.apiserver.storage.engines.etcd.engine import EtcdEngine

        return EtcdEngine(place.removeprefix(_ETCD).split(","))
    file = Path(place.removeprefix(_SQLITE))
    if not new and not file.is_file():
        raise StorageError(f"{file}: there is no such file")
    if place.startswith(_SQLITE) or _begins_as_sqlite(file):
        from understudy.apiserver.storage.engines.sqlite import SQLiteEngine

        return SQLiteEngine(file)
    if new:
        raise StorageError(f"{place}: want sqlite:FILE or etcd:URL to write to")
    from understudy.apiserver.storage.engines.etcd_snapshot import EtcdSnapshotEngine

    return EtcdSnapshotEngine(file)


def _begins_as_sqlite(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


async def contents_of(place: str, release: Release) -> Contents:
    """Return all that a place holds: of a server its objects, else its history as well.

    Raises StorageError, ConnectionError, StatusError, ValueError.
    """
    connection = connection_to(place)
    if connection is None:
        engine = engine_of(place)
        contents = await engine.open(Nobody())
        await engine.close()
        return contents
    values, writes = _values(release), list[Write]()
    objects, unread = await _served(connection)
    if unread:
        raise ValueError(unread[0])
    for resource, obj in objects:
        key, value = _stored_form(release, resource, obj)
        writes.append(Write(key, values.encode(key, value), int(obj["metadata"]["resourceVersion"])))
    writes.sort(key=lambda write: write.revision)
    last = writes[-1].revision if writes else 1
    return Contents(writes, last, last)


async def state_of(place: str, release: Release, show: Show = iter) -> State:
    """Return the objects of a place, those of an engine by `show`, which learns how far that has come.

    Raises StorageError, ConnectionError, StatusError, ValueError.
    """
    connection = connection_to(place)
    if connection is not None:
        objects, unread = await _served(connection)
        return State({_key(obj): obj for _, obj in objects}, unread)
    values, last = _values(release), dict[str, Raw | None]()
    for key, raw, _ in (await contents_of(place, release)).writes:
        last[key] = raw
    held, unread = dict[ObjectKey, Obj](), list[str]()
    for key, raw in show(last.items()):
        try:
            obj = None if raw is None else _served_form(values, key, raw)
        except ValueError as why:
            unread.append(f"{place}: {why}")
            continue
        if obj is not None:
            held[_key(obj)] = obj
    return State(held, unread)


async def _served(connection: Connection) -> tuple[list[tuple[Resource, Obj]], list[str]]:
    """Return all objects of a running server with their resources, and a line for each kind that it cannot list."""
    from understudy.controlplane.client.api_client import APIClient
    from understudy.controlplane.recorder.recording import Recording, objects_of, resources_of

    listed = Recording("")
    async with APIClient(connection, "understudy-snapshot") as client:
        objects = [
            (resource, obj)
            async for resource in resources_of(client.get_path, listed)
            if resource.group != "events.k8s.io"  # the same as those of the core group
            async for obj in objects_of(client.get_path, resource)
        ]
    return objects, listed.unread


def _values(release: Release) -> StoredValues:
    return StoredValues(release, release.version, Gates.of(release.version))


def _key(obj: Obj) -> ObjectKey:
    group, _, kind = named_kind(obj)
    metadata = obj["metadata"]
    return ObjectKey(group, kind, metadata.get("namespace", ""), metadata["name"])


def _served_form(values: StoredValues, key: str, raw: Raw) -> Obj | None:
    """Return a stored object as it is served, None for what the real server keeps for itself. Raises ValueError."""
    kind = values.kind_of(key)
    obj = values.decode(key, raw)
    if kind is not None and not kind.verbs:
        return None
    served: Obj = json.loads(encode(obj if kind is None else from_internal(kind, kind.versions[0], obj)))
    return served


def _stored_form(release: Release, resource: Resource, obj: Obj) -> tuple[str, Obj]:
    """Return the key of a served object, and its internal form."""
    metadata = {field: value for field, value in obj["metadata"].items() if field != "resourceVersion"}
    named, group, version = {**obj, "metadata": metadata}, resource.group, resource.version
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    kind = release.kind(group, resource.kind)
    if kind is None:
        return f"/registry/{group}/{resource.plural}/{namespace}{'/' if namespace else ''}{name}", named
    return key_of(kind, namespace, name), to_internal(kind, version, decode_value(named, kind.struct(version))[0])
