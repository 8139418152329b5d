"""What an object holds: objects of other kinds, created before it is stored and deleted after it is gone, and numbers.

Services hold IPAddresses and node ports. Upstream: `Store.BeginCreate`, `BeginUpdate`, `AfterDelete`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

from understudy.apiserver.encoding.conversion import bare, from_internal
from understudy.apiserver.registry.keys import key_of
from understudy.apiserver.registry.ranges import Ranges, TakenError
from understudy.apiserver.storage.interface import KeyExistsError, RevisionConflictError, Store
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Behavior, Kind, ObjectName, Resources
from understudy.kinds.number_range import NumberRange
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.types import Obj
from understudy.machinery.validation.generated_names import new_uid

MANAGER = "kube-apiserver"


class Allocations:
    """Allocates addresses and ports, and creates and deletes what objects hold, in one store.

    pending  the objects that requests are about to store, by identity: what they hold is not free, though nothing that
             is stored says so. Requests in threads share it with those on the loop
    at_once  calls a function that allocates, while no other request does
    ranges   the numbers that are taken
    """

    def __init__(
        self,
        store: Store,
        resources: Resources,
        pending: dict[int, Obj] | None = None,
        at_once: Callable[[Callable[[], None]], None] = lambda function: function(),
    ) -> None:
        self._store = store
        self._resources = resources
        self.pending: dict[int, Obj] = {} if pending is None else pending
        self._at_once = at_once
        self.ranges = Ranges(store)

    def allocate(self, obj: Obj, allocate: Callable[[], None]) -> None:
        """Call what allocates for an object, in place: all of it is the object's until it is stored or given up.

        Raises what it raises.
        """

        def allocate_and_hold() -> None:
            allocate()
            self.pending[id(obj)] = obj

        self._at_once(allocate_and_hold)

    @contextmanager
    def held(self, obj: Obj) -> Iterator[None]:
        """Hold what is allocated for an object while the caller prepares, validates and stores it."""
        try:
            yield
        finally:
            self.pending.pop(id(obj), None)

    @asynccontextmanager
    async def changed(self, behavior: Behavior, old: Obj | None, new: Obj, ctx: Context) -> AsyncIterator[None]:
        """Create and take what `new` holds while the caller stores it, then let go what only `old` held.

        If the caller fails, all is as before. Raises TakenError for what another server has taken meanwhile.
        """
        before, after = _held(behavior, old, ctx), _held(behavior, new, ctx)
        had, has = _numbers(behavior, old, ctx), _numbers(behavior, new, ctx)
        async with (
            self.ranges.taken({each: bits & ~had.get(each, 0) for each, bits in has.items()}),
            self._created({name: obj for name, obj in after.items() if name not in before}, ctx),
        ):
            yield
        await self._delete(name for name in before if name not in after)
        await self.ranges.release({each: bits & ~has.get(each, 0) for each, bits in had.items()})

    async def release(self, behavior: Behavior, old: Obj, ctx: Context) -> None:
        """Delete what is deleted with an object that is gone, and release its addresses and ports."""
        if behavior.deleted_with is not None:
            await self._delete([behavior.deleted_with(old)])
        await self._delete(_held(behavior, old, ctx))
        await self.ranges.release(_numbers(behavior, old, ctx))

    @asynccontextmanager
    async def _created(self, objects: Mapping[ObjectName, Obj], ctx: Context) -> AsyncIterator[None]:
        """Create objects, and delete them if the caller fails, or one of them is there. Raises TakenError."""
        created: list[ObjectName] = []
        try:
            for name, obj in objects.items():
                await self._create(name, obj, ctx)
                created.append(name)
            yield
        except BaseException:
            await self._delete(created)
            raise

    async def _create(self, name: ObjectName, obj: Obj, ctx: Context) -> None:
        kind = self._resources.kind(name.group, name.kind)
        if kind is None:
            return
        try:
            await self._store.create(key_of(kind, name.namespace, name.name), _complete(kind, obj, ctx))
        except KeyExistsError:
            raise TakenError from None

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


def _numbers(behavior: Behavior, obj: Obj | None, ctx: Context) -> Mapping[NumberRange, int]:
    """Return the bitmaps of the numbers that an object holds."""
    return behavior.numbers(obj, ctx.gates) if behavior.numbers and obj is not None else {}


def _complete(kind: Kind, obj: Obj, ctx: Context) -> Obj:
    """Return an object with the metadata that every stored object has."""
    version = kind.versions[0]
    live = from_internal(kind, version, obj)
    fields = FieldManager(kind.codec(version).object_type, kind.gvk(version).api_version)
    owners = fields.update(None, live, MANAGER, ctx.now)
    metadata = {**live["metadata"], "uid": new_uid(), "creationTimestamp": ctx.now, "managedFields": owners}
    return bare({**live, "metadata": metadata})
