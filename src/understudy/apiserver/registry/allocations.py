"""The objects of other kinds that an object holds: created before it is stored, deleted after it is gone.

Services hold IPAddresses. Upstream: `Store.BeginCreate`, `BeginUpdate`, `AfterDelete`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

from understudy.apiserver.encoding.conversion import bare, from_internal
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.storage.interface import KeyExistsError, RevisionConflictError, Store
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Kind, ObjectName, Resources
from understudy.machinery import errors
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.types import Obj
from understudy.machinery.validation.generated_names import new_uid

MANAGER = "kube-apiserver"


class Allocations:
    """Creates and deletes what objects hold, in one store.

    pending  the objects that requests are about to store, by identity: what they hold is not free, though nothing that
             is stored says so for node ports. Requests in threads share it with those on the loop
    """

    def __init__(self, store: Store, resources: Resources, pending: dict[int, Obj] | None = None) -> None:
        self._store = store
        self._resources = resources
        self.pending: dict[int, Obj] = {} if pending is None else pending

    @asynccontextmanager
    async def changed(self, behavior: Behavior, old: Obj | None, new: Obj, ctx: Context) -> AsyncIterator[None]:
        """Hold the addresses and ports of `new` while the caller stores it, then release those that only `old` held.

        If the caller fails, what was allocated for it is released. Raises 409 for what somebody else holds, which only
        happens where another server writes to the same store.
        """
        before, after = _held(behavior, old, ctx), _held(behavior, new, ctx)
        added = {name: obj for name, obj in after.items() if name not in before}
        self.pending[id(new)] = new
        try:
            async with self._created(added, ctx):
                yield
        finally:
            del self.pending[id(new)]
        await self._delete(name for name in before if name not in after)

    async def release(self, behavior: Behavior, old: Obj, ctx: Context) -> None:
        """Delete what is deleted with an object that is gone, and release its addresses and ports."""
        if behavior.deleted_with is not None:
            await self._delete([behavior.deleted_with(old)])
        await self._delete(_held(behavior, old, ctx))

    @asynccontextmanager
    async def _created(self, objects: Mapping[ObjectName, Obj], ctx: Context) -> AsyncIterator[None]:
        """Create objects, and delete them if the caller fails. Raises 409."""
        await self._create(objects, ctx)
        try:
            yield
        except BaseException:
            await self._delete(objects)
            raise

    async def _create(self, objects: Mapping[ObjectName, Obj], ctx: Context) -> None:
        for name, obj in objects.items():
            kind = self._resources.kind(name.group, name.kind)
            if kind is None:
                continue
            try:
                await self._store.create(key_of(kind, name.namespace, name.name), _complete(kind, obj, ctx))
            except KeyExistsError:
                raise errors.already_exists(kind.group, kind.resource, name.name) from None

    async def _delete(self, names: Iterable[ObjectName]) -> None:
        for name in names:
            kind = self._resources.kind(name.group, name.kind)
            entry = kind and await self._store.get(key_of(kind, name.namespace, name.name))
            if entry:
                with suppress(RevisionConflictError):  # it was changed or deleted meanwhile, and is somebody else's now
                    await self._store.delete(entry.key, entry.revision)


def _held(behavior: Behavior, obj: Obj | None, ctx: Context) -> Mapping[ObjectName, Obj]:
    """Return the objects that an object holds."""
    return behavior.allocations(obj, ctx) if behavior.allocations and obj is not None else {}


def _complete(kind: Kind, obj: Obj, ctx: Context) -> Obj:
    """Return an object with the metadata that every stored object has."""
    version = kind.versions[0]
    live = from_internal(kind, version, obj)
    fields = FieldManager(kind.codec(version).object_type, kind.gvk(version).api_version)
    owners = fields.update(None, live, MANAGER, ctx.now)
    metadata = {**live["metadata"], "uid": new_uid(), "creationTimestamp": ctx.now, "managedFields": owners}
    return bare({**live, "metadata": metadata})
