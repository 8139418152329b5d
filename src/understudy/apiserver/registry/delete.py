"""Deletes objects of any kind: preconditions, finalizers, propagation, grace.

What a deletion does to a stored object:

    nothing holds it                     it is removed
    it has finalizers, or gets one       it is marked (deletionTimestamp) and stays until an update removes the last one
    its kind grants a grace period       it is marked and stays until it is deleted again with a grace period of 0
    it is already marked                 nothing, except that a shorter grace period replaces the longer one

Source: k8s.io/apiserver/pkg/registry (rest.BeforeDelete, generic/registry.Store.Delete),
https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.apiserver.encoding.conversion import stored
from understudy.apiserver.encoding.encoded import decoded_anew, internal
from understudy.apiserver.registry.corrupt_objects import original_state, read_anew, unreadable_object
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.storage.interface import Entry, RevisionConflictError, UnreadableError
from understudy.kinds.common.garbage_collection import FOREGROUND, ORPHAN, set_gc_finalizers
from understudy.kinds.context import Context
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.options import DeleteOptions
from understudy.machinery.types import Obj
from understudy.machinery.util import clock

# Asks admission about the deletion of a stored object (`ValidateObjectFunc`). May raise StatusError.
ValidateDeletion = Callable[[Obj], Awaitable[None]]


async def validate_all(old: Obj) -> None:
    """Let every deletion pass, for what the server itself deletes (`ValidateAllObjectFunc`)."""


class Deletion:
    """The deletion of objects of one kind, by one request.

    reads_again  whether a webhook, if one does, converts objects again that it has converted before, as in reads of a
                 single object
    """

    def __init__(
        self,
        registry: Registry,
        kind: Kind,
        ctx: Context,
        validate: ValidateDeletion = validate_all,
        *,
        reads_again: bool = True,
    ) -> None:
        self.registry = registry
        self.kind = kind
        self.ctx = ctx
        self.validate = validate
        self.reads_again = reads_again and kind.watch_cache is not None

    async def run(self, namespace: str, name: str, options: DeleteOptions) -> tuple[Entry, bool]:
        """Delete an object (`Store.Delete`). Return it as it is stored now, or was last, and whether it was removed.

        `options` is changed: the grace period in it becomes the granted one. Raises 404, 409 and what admission raises.
        """
        while True:
            entry = await self.registry.get(self.kind, namespace, name)
            if self.reads_again:
                entry = read_anew(entry, self.kind, self.ctx.gates)
            try:
                return await self._delete_revision(entry, options)
            except RevisionConflictError:
                continue
            except UnreadableError as error:
                raise unreadable_object(entry, error, self.ctx.gates) from None

    async def _delete_revision(self, entry: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
        """Delete an object if the store still holds this revision of it. Raises RevisionConflictError if not."""
        old = internal(entry, self.kind)
        self.check_preconditions(old, options)
        if self.reads_again:
            is_current = bool(options.dry_run) or not self.registry.has_cache(self.kind)
            entry = original_state(entry, self.kind, self.ctx.gates, is_current=is_current)
            old = internal(entry, self.kind)
        obj: Obj = {**old, "metadata": dict(old["metadata"])}
        if self.kind.behavior.begin_termination and "deletionTimestamp" not in obj["metadata"]:
            await self.validate(old)
            return await self._terminate(entry, obj, options)
        if self.kind.behavior.held_by_spec_finalizers(obj):
            return entry, False
        pending, graceful = self._mark_graceful(obj, options)
        if pending:
            return entry, False
        await self.validate(old)
        self._set_finalizers(obj["metadata"], options)
        held = bool(obj["metadata"].get("finalizers"))
        if held and not graceful:
            self._mark(obj["metadata"])
        if held or (graceful and options.grace_period):
            return await self._store(entry, obj, options), False
        if graceful:
            entry = await self._store(entry, obj, options)
        if graceful or old["metadata"].get("finalizers"):  # it was to be updated first, and admission is asked again
            await self.validate(old if options.dry_run else internal(entry, self.kind))
        if options.dry_run:
            return entry, True
        removed = await self.registry.remove(self.kind, entry, self.ctx)
        return decoded_anew(removed, self.kind) if self.reads_again else removed, True

    async def _terminate(self, entry: Entry, obj: Obj, options: DeleteOptions) -> tuple[Entry, bool]:
        """Mark an object whose content has to be removed before it can be deleted itself (namespaces, definitions)."""
        obj["metadata"]["deletionTimestamp"] = self.ctx.now
        assert self.kind.behavior.begin_termination is not None
        self.kind.behavior.begin_termination(obj, options, self.ctx)
        return await self._store(entry, obj, options), False

    async def _store(self, entry: Entry, obj: Obj, options: DeleteOptions) -> Entry:
        """Store a marked object, unless nothing changed or the request is a dry run."""
        obj["metadata"].pop("resourceVersion", None)
        obj = stored(self.kind, obj)
        if obj == entry.value:
            if self.reads_again and not options.dry_run:
                decoded_anew(entry, self.kind)
            return decoded_anew(entry, self.kind) if self.reads_again else entry
        if options.dry_run:
            return Entry(entry.key, obj, entry.revision)
        written = await self.registry.replace(self.kind, entry, obj, self.ctx)
        return decoded_anew(written, self.kind) if self.reads_again else written

    def check_preconditions(self, obj: Obj, options: DeleteOptions) -> None:
        """Raise 409 unless the object has the uid and the resourceVersion that the options require, if any."""
        metadata = obj["metadata"]
        if options.uid is not None and options.uid != metadata.get("uid", ""):
            raise self._conflict(metadata, "uid", options.uid, "deleted and then recreated")
        if options.version is not None and options.version != metadata["resourceVersion"]:
            raise self._conflict(metadata, "resourceVersion", options.version, "modified")

    def _conflict(self, metadata: Obj, field: str, expected: str, event: str) -> errors.StatusError:
        """Return the 409 for a field of the metadata."""
        kind, name, actual = self.kind, metadata["name"], metadata.get(field, "")
        field = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
        if failed := kind.behavior.failed_precondition:
            message = f"{failed}: {field} in precondition: {expected}, {field} in object meta: {actual}"
            return errors.conflict(kind.group, kind.resource, name, message)
        message = (
            f"the {field} in the precondition ({expected}) does not match the {field} in record ({actual}). "
            f"The object might have been {event}"
        )
        return errors.conflict(kind.stored.group, kind.name, name, message)

    def _mark_graceful(self, obj: Obj, options: DeleteOptions) -> tuple[bool, bool]:
        """Mark an object whose kind grants a grace period, in place (`rest.BeforeDelete`).

        Return whether an earlier deletion is still pending, and whether this one grants a grace period or ends one.
        """
        metadata = obj["metadata"]
        if options.grace_period is not None and options.grace_period < 0:
            options.grace_period = 1
        grace = self.kind.behavior.graceful_delete
        if grace is None:
            return False, False
        if "deletionTimestamp" in metadata:
            before = metadata.get("deletionGracePeriodSeconds")
            if not before:  # it goes as soon as nothing holds it
                return False, False
            if options.grace_period is None or options.grace_period >= before:
                return True, False
            requested = clock.parse_timestamp(metadata["deletionTimestamp"]) - before
            metadata["deletionTimestamp"] = clock.timestamp(requested + options.grace_period)
            metadata["deletionGracePeriodSeconds"] = options.grace_period
            return False, True
        period = options.grace_period = grace(obj, options.grace_period)
        metadata["deletionTimestamp"] = clock.timestamp(clock.parse_timestamp(self.ctx.now) + period)
        metadata["deletionGracePeriodSeconds"] = period
        if metadata.get("generation"):
            metadata["generation"] += 1
        return False, True

    def _mark(self, metadata: Obj) -> None:
        """Mark an object as deleted without a grace period, in place (`markAsDeleting`)."""
        if "deletionTimestamp" not in metadata:
            if metadata.get("generation"):
                metadata["generation"] += 1
            metadata["deletionTimestamp"] = self.ctx.now
        metadata["deletionGracePeriodSeconds"] = 0

    def _set_finalizers(self, metadata: Obj, options: DeleteOptions) -> None:
        """Set the garbage collector's finalizers, in place (`deletionFinalizersForGarbageCollection`)."""
        policy = self._propagation_policy(metadata.get("finalizers") or [], options)
        set_gc_finalizers(metadata, {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, []))

    def _propagation_policy(self, finalizers: list[str], options: DeleteOptions) -> str:
        """Return "Orphan", "Foreground" or "Background": from the options, else the finalizers, else the kind."""
        if self.kind.behavior.default_gc_policy == "Unsupported":
            return "Background"
        if options.orphan_dependents is not None:
            return "Orphan" if options.orphan_dependents else "Background"
        if options.propagation is not None:
            return options.propagation
        for finalizer in finalizers:
            if finalizer in (ORPHAN, FOREGROUND):
                return "Orphan" if finalizer == ORPHAN else "Foreground"
        if self.kind.behavior.orphan_warning:
            self.ctx.warn(self.kind.behavior.orphan_warning)
        return self.kind.behavior.default_gc_policy
