"""Creates, reads and updates objects of any kind.

    create   mutating admission → system metadata → strategy.prepare_for_create → validate → warnings → canonicalize →
             validating admission, quotas last → store
    update   the same around one compare-and-swap loop; PUT, every PATCH and apply differ in their `transform` only

Objects are in the internal form here; `endpoints.handlers` decodes and converts requests and sets managed fields.
Deletion is in `delete`; the steps of writes that do not touch the store are in `rest`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import perf_counter

from understudy.apiserver.encoding.conversion import stored
from understudy.apiserver.encoding.encoded import decoded_anew, internal, shown_as
from understudy.apiserver.registry import etcd_limits, resource_version
from understudy.apiserver.registry.allocations import Allocations
from understudy.apiserver.registry.corrupt_objects import original_state, read_anew, unreadable_for_update
from understudy.apiserver.registry.keys import check_name, key_of, prefix_of
from understudy.apiserver.registry.list import Listing, Page
from understudy.apiserver.registry.ranges import TakenError
from understudy.apiserver.registry.rest import (
    WriteTarget,
    as_read,
    before_create,
    before_update,
    check_version,
    differs_at_once,
    is_unchanged,
    sent_version,
    should_delete_during_update,
    wipe_object_meta_system_fields,
)
from understudy.apiserver.storage.interface import (
    Entry,
    KeyExistsError,
    RevisionConflictError,
    Store,
    UnreadableError,
)
from understudy.apiserver.storage.metrics import (
    CREATE,
    DELETE,
    EQUAL,
    GET,
    UNEQUAL_FAST,
    UNEQUAL_SLOW,
    UPDATE,
    StorageMetrics,
)
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind, Resources
from understudy.machinery import errors
from understudy.machinery.golang.text import parse_int
from understudy.machinery.options import ListOptions
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34, V1_37
from understudy.machinery.selectors.selector import Selector
from understudy.machinery.types import Obj, deep_copy

# Tries to find a name that is free for generateName.
_NAME_TRIES = 8

# Turns the stored object (None: there is none) into the one to be stored, both internal. May raise StatusError.
Transform = Callable[[Obj | None], Awaitable[Obj]]
# Asks validating admission about a prepared object and the stored one (None: it is new). May raise StatusError.
Validate = Callable[[Obj, Obj | None], Awaitable[None]]
# Turns the stored object into the one to be stored. May raise StatusError.
Change = Callable[[Obj], Obj]


async def validate_all(obj: Obj, old: Obj | None) -> None:
    """Let every object pass, for what the server itself writes (`ValidateAllObjectFunc`)."""


class Registry:
    """Reads and writes the store of one server (upstream: `registry.Store`).

    wait_seconds  time that reads wait for a version that the store has not reached yet
    metrics       counts what reads and writes ask of the store
    caches        whether reads are answered as from kube-apiserver's watch cache, of kinds that have one
    """

    def __init__(
        self,
        store: Store,
        resources: Resources,
        allocations: Allocations | None = None,
        metrics: StorageMetrics | None = None,
        *,
        caches: bool = True,
    ) -> None:
        self.store = store
        self.caches = caches
        self.metrics = metrics or StorageMetrics()
        self.resources = resources
        self.allocations = allocations or Allocations(store, resources)
        self.wait_seconds = resource_version.WAIT_SECONDS

    # --- reading ----------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, namespace: str, name: str, *, cached: bool = False) -> Entry:
        """Return the stored object, or (`cached`) what this server knows of it.

        Raises 400 for a name that cannot be one, and 404.
        """
        check_name(name)
        key = key_of(kind, namespace, name)
        if cached:
            entry = self.store.peek(key)
            self.metrics.observe_cached_get(kind)
        else:  # as `metrics.timed` does, at less cost
            started = perf_counter()
            try:
                entry = await self.store.get(key)
            except errors.StatusError:
                self.metrics.observe_error(GET, kind)
                raise
            self.metrics.observe(GET, kind, perf_counter() - started, entry)
        if entry is None:
            raise errors.not_found(kind.group, kind.resource, name)
        return entry

    def lookup(self, group: str, resource: str, namespace: str, name: str) -> Obj | None:
        """Return an object by the name of its resource, None if there is none. Does not wait, so rules can use it."""
        kind = self.resources.of_resource(group, resource)
        entry = kind and self.store.peek(key_of(kind, namespace, name))
        return entry.object if entry else None

    def listing(self, group: str, resource: str, namespace: str = "") -> list[Obj]:
        """Return the objects of a resource, of one namespace or of all. Does not wait, so rules can use it."""
        kind = self.resources.of_resource(group, resource)
        return [entry.object for entry in self.store.scan(prefix_of(kind, namespace))] if kind else []

    def pending_services(self) -> list[Obj]:
        """Return the Services that requests are about to store. Does not wait."""
        return [*self.allocations.pending.values()]

    async def all(self, kind: Kind, namespace: str = "") -> list[Entry]:
        """Return every entry of a kind, of one namespace or of all."""
        return (await self.store.range(prefix_of(kind, namespace))).entries

    async def list(self, kind: Kind, namespace: str, options: ListOptions, selector: Selector, gates: Gates) -> Page:
        """Return a page of a list. Raises 400, 410, 500 and 504 for versions and tokens that cannot be served, and 500
        for objects that a webhook does not convert."""
        name = ""
        if not options.token:  # a continued list goes on with the prefix that it began with
            if kind.namespaced:
                namespace = namespace or selector.namespace
            name = selector.name if namespace or not kind.namespaced else ""
        prefix = prefix_of(kind, namespace)
        return await Listing(
            self.store,
            kind,
            prefix,
            name,
            options,
            selector,
            gates,
            self.wait_seconds,
            self.metrics,
            has_cache=self.has_cache(kind),
        ).page()

    def has_cache(self, kind: Kind) -> bool:
        """Report whether reads of a kind are answered as from kube-apiserver's watch cache."""
        return self.caches and kind.behavior.cached

    async def not_older(self, kind: Kind, version: str) -> None:
        """Wait until the store has what a GET with that resourceVersion may answer. Raises 400, 500 and 504."""
        if self.has_cache(kind):
            await resource_version.wait_for(self.store, version, self.wait_seconds)
        else:
            resource_version.check(self.store, version)

    # --- creating ---------------------------------------------------------------------------------------------

    async def create(self, target: WriteTarget, obj: Obj, validate: Validate) -> Entry:
        """Store a new internal object, which belongs to this call. Raises 403, 404, 409, 422.

        `validate` is validating admission (`createValidation`).
        """
        tries = _NAME_TRIES if obj["metadata"].get("generateName") and not obj["metadata"].get("name") else 1
        for _ in range(tries - 1):
            try:
                return await self._create_once(target, deep_copy(obj), validate)
            except errors.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        return await self._create_once(target, obj, validate)

    async def _create_once(self, target: WriteTarget, obj: Obj, validate: Validate) -> Entry:
        """Complete, validate and store a new object under one name."""
        behavior = target.kind.behavior
        if behavior.allocations is None or target.dry_run:
            await before_create(target, obj)
            return await self._store_new(target, obj, validate)
        while True:
            tried = deep_copy(obj)
            with self.allocations.held(tried), suppress(TakenError):  # then it gets something else
                await before_create(target, tried)
                async with self.allocations.changed(behavior, None, tried, target.ctx):
                    return await self._store_new(target, tried, validate)

    async def _store_new(self, target: WriteTarget, obj: Obj, validate: Validate) -> Entry:
        """Ask validating admission about a complete new object, and store it."""
        kind = target.kind
        await validate(obj, None)
        name = obj["metadata"]["name"]
        key = key_of(kind, target.namespace, name)
        if target.dry_run:
            stored_now = self.store.get(key)
            if await (stored_now if target.name else self.metrics.timed(GET, kind, stored_now)) is not None:
                raise self._exists(target, key, obj)
            return Entry(key, as_read(kind, stored(kind, obj), target.ctx), 0)
        if _is_version(obj["metadata"].pop("resourceVersion", "")):
            raise errors.unknown_error("resourceVersion should not be set on objects to be created")
        value = stored(kind, obj)
        etcd_limits.check(kind, key, value, target.ctx, None, updates=bool(target.name))
        read = as_read(kind, value, target.ctx)
        creation = self.store.create(key, read, None if read is value else value)
        try:
            entry = await self.metrics.timed(UPDATE if target.name else CREATE, kind, creation)
        except KeyExistsError:
            await self.metrics.timed(GET, kind, self.store.get(key))
            raise self._exists(target, key, obj) from None
        if target.ctx.writes is not None:
            target.ctx.writes.append(entry)
        return decoded_anew(entry, kind)

    def _exists(self, target: WriteTarget, key: str, obj: Obj) -> errors.StatusError:
        """Return the 409 for a name that is taken, which says so if its object is being deleted."""
        fields = obj["metadata"]
        constructor = errors.generate_name_conflict if fields.get("generateName") else errors.already_exists
        error = constructor(target.kind.group, target.kind.resource, fields["name"])
        current = self.store.peek(key)
        with suppress(UnreadableError, errors.ConversionError):
            if current is not None and "deletionTimestamp" in decoded_anew(current, target.kind).value["metadata"]:
                error.message = f"object is being deleted: {error.message}"
        return error

    # --- updating ---------------------------------------------------------------------------------------------

    async def update(
        self,
        target: WriteTarget,
        transform: Transform,
        *,
        uid: str = "",
        create: bool = False,
        validate: Validate,
    ) -> tuple[Entry, bool]:
        """Store the current object as `transform` changes it. Return it, and whether it was created.

        `uid` is a precondition, `create` allows a missing object (apply; strategies may allow it for PUT too),
        `validate` is validating admission. Raises 404, 409, 422 and what transform raises.
        """
        check_name(target.name)
        key = key_of(target.kind, target.namespace, target.name)
        # Since 1.34 a missing object that cannot be created is 404, whatever uid was sent.
        may_create = create or target.strategy.create_on_update
        is_current = target.dry_run or not self.has_cache(target.kind)
        while True:
            started = perf_counter()
            written = current = await self.store.get(key)
            seconds = perf_counter() - started
            try:
                if current is not None and target.kind.custom is not None:
                    current = original_state(current, target.kind, target.ctx.gates, is_current=is_current)
                if uid and (current or may_create or target.kind.release < V1_34):
                    _check_uid(target, key, uid, current)
                if current is None:
                    if not may_create:
                        raise errors.not_found(target.kind.group, target.kind.resource, target.name)
                    return await self._create_by_update(target, transform, validate), True
                written = await self._replace(target, current, transform, validate, is_current=is_current)
                return written, False
            except RevisionConflictError:
                is_current = True
            except UnreadableError as error:
                raise error if current is None else unreadable_for_update(current, error, target.ctx.gates) from None
            except errors.ConversionError:
                raise
            except errors.StatusError:
                if current is not None and not is_current:
                    read_anew(current, target.kind, target.ctx.gates)  # what was cached may have been old
                raise
            finally:
                self._count_read(target.kind, current, written, seconds)

    def _count_read(self, kind: Kind, current: Entry | None, written: Entry | None, seconds: float) -> None:
        """Count the read of an update, unless the watch cache is enough to write what was read (`GuaranteedUpdate`)."""
        is_written = current is not None and written is not None and written.revision > current.revision
        if not (is_written and self.has_cache(kind)):
            self.metrics.observe(GET, kind, seconds)

    async def _create_by_update(self, target: WriteTarget, transform: Transform, validate: Validate) -> Entry:
        """Create an object that an update did not find."""
        obj = await transform(None)
        sent_version(obj)
        if target.kind.release >= V1_37:
            wipe_object_meta_system_fields(obj, {})
        if not target.dry_run:
            for name in ("resourceVersion", "selfLink"):
                obj["metadata"].pop(name, None)
        return await self._create_once(target, obj, validate)

    async def _replace(
        self, target: WriteTarget, current: Entry, transform: Transform, validate: Validate, *, is_current: bool
    ) -> Entry:
        """Store an entry as `transform` changes it, or remove it if its deletion waited for this update."""
        kind = target.kind
        old = internal(current, kind)
        obj = await transform(old)
        if obj is old:
            if kind.watch_cache is not None:
                stored(kind, obj)
            return self._unchanged(target, current, is_current=is_current)
        check_version(target, obj, current)
        with self.allocations.held(obj):
            await before_update(target, obj, old)
            if kind.behavior.allocations is None or target.dry_run:
                return await self._store_changed(target, current, obj, validate, is_current=is_current)
            async with self.allocations.changed(kind.behavior, old, obj, target.ctx):
                return await self._store_changed(target, current, obj, validate, is_current=is_current)

    async def _store_changed(
        self, target: WriteTarget, current: Entry, obj: Obj, validate: Validate, *, is_current: bool
    ) -> Entry:
        """Ask validating admission about a complete update, and store it, or remove the object."""
        kind, old = target.kind, internal(current, target.kind)
        started = perf_counter()
        if is_quick := differs_at_once(obj, old):
            self.metrics.observe_comparison(UNEQUAL_FAST, perf_counter() - started)
        await validate(obj, old)
        if should_delete_during_update(kind, obj, old):
            if not is_current:
                read_anew(current, kind, target.ctx.gates)
            original_state(current, kind, target.ctx.gates, is_current=is_current)
            if not target.dry_run:
                decoded_anew(await self.remove(kind, current, target.ctx), kind)
            return shown_as(current, kind, obj)
        obj["metadata"].pop("resourceVersion", None)
        if not target.dry_run:
            obj["metadata"].pop("selfLink", None)
        obj = stored(kind, obj)
        started = perf_counter()
        is_same = is_unchanged(kind, obj, current.value)
        if not is_quick:
            self.metrics.observe_comparison(EQUAL if is_same else UNEQUAL_SLOW, perf_counter() - started)
        if is_same:
            if target.dry_run or not current.is_outdated:
                return self._unchanged(target, current, is_current=is_current)
            obj = current.value  # it is stored in the form of now
        if target.dry_run:
            return Entry(current.key, obj, current.revision)
        written = await self.replace(kind, current, obj, target.ctx)
        if target.strategy.after_update is not None:
            target.strategy.after_update(obj, old, target.ctx)
        return decoded_anew(written, kind)

    def _unchanged(self, target: WriteTarget, current: Entry, *, is_current: bool) -> Entry:
        """Return an entry that an update does not change, read to be sure of that."""
        if not is_current:
            read_anew(current, target.kind, target.ctx.gates)
        return decoded_anew(current, target.kind)

    async def replace(self, kind: Kind, entry: Entry, value: Obj, ctx: Context) -> Entry:
        """Put a value, in the form in which it is stored, in the place of an entry; return the new one.

        Raises 500 for one that is too large, and RevisionConflictError.
        """
        etcd_limits.check(kind, entry.key, value, ctx, entry, updates=True)
        written = await self.metrics.timed(UPDATE, kind, self.store.update(entry.key, value, entry.revision))
        if ctx.writes is not None:
            ctx.writes.append(written)
        return written

    async def remove(self, kind: Kind, entry: Entry, ctx: Context) -> Entry:
        """Remove an object, and what it holds if that can be read; return it as it was last. Raises
        RevisionConflictError."""
        removed = await self.metrics.timed(DELETE, kind, self.store.delete(entry.key, entry.revision))
        if ctx.writes is not None:
            ctx.writes.append(removed)
        with suppress(UnreadableError):
            await self.allocations.release(kind.behavior, entry.value, ctx)
        return removed

    async def modify(self, target: WriteTarget, change: Change) -> Entry:
        """Store a change that the server itself makes, without strategy and admission (a binding). Raises 404."""
        while True:
            current = await self.get(target.kind, target.namespace, target.name)
            obj = change(current.object)
            obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
            if target.dry_run:
                return Entry(current.key, obj, current.revision)
            try:
                return await self.replace(target.kind, current, obj, target.ctx)
            except RevisionConflictError:
                continue


def _is_version(text: str) -> bool:
    """Report whether a new object carries a resourceVersion. Text that is no number is ignored on create."""
    if not text:
        return False
    try:
        return parse_int(text, signed=False) != 0
    except ValueError:
        return False


def _check_uid(target: WriteTarget, key: str, uid: str, current: Entry | None) -> None:
    """Raise 409 unless the stored object has the uid that was sent."""
    actual = current.value["metadata"].get("uid", "") if current else ""
    if actual != uid:
        shown_key = key.removeprefix("/registry") if target.dry_run else key
        text = f"StorageError: invalid object, Code: 4, Key: {shown_key}, ResourceVersion: 0, AdditionalErrorMsg: "
        raise errors.conflict(
            target.kind.group, target.kind.resource, target.name, text + errors.uid_precondition_text(uid, actual)
        )
