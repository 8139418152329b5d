"""How objects of any kind are deleted: preconditions, finalizers, propagation, grace.

What a deletion does to an object that is there:

    nothing holds it                     it goes
    it has finalizers, or gets one       it is marked (deletionTimestamp) and stays until an update takes the last away
    its kind grants a grace period       it is marked and stays until it is deleted again with 0
    it is marked already                 nothing, but that a shorter grace period is taken over

https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.admission.context import Context
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.registry.store import Registry
from understudy.apiserver.storage.interface import Entry, RevisionConflictError
from understudy.machinery import clock, errors
from understudy.machinery.options import DeleteOptions
from understudy.machinery.types import Obj

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
# Asks admission about the deletion of a stored object. May raise StatusError.
ValidateDeletion = Callable[[Obj], Awaitable[None]]


async def validate_all(old: Obj) -> None:
    """Let every deletion pass, for what the server itself deletes."""


class Deletion:
    """The deletion of objects of one kind, by one request."""

    def __init__(self, registry: Registry, kind: Kind, ctx: Context, validate: ValidateDeletion = validate_all) -> None:
        self.registry = registry
        self.store = registry.store
        self.kind = kind
        self.ctx = ctx
        self.validate = validate

    async def run(self, namespace: str, name: str, options: DeleteOptions) -> tuple[Entry, bool]:
        """The object as it was left, or as it was last, and whether it is gone. Raises 404, 409."""
        while True:
            entry = await self.registry.get(self.kind, namespace, name)
            try:
                return await self._once(entry, options)
            except RevisionConflictError:
                continue

    async def _once(self, entry: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
        before = entry.object
        await self.validate(before)
        self.check_preconditions(before, options)
        obj: Obj = {**before, "metadata": dict(before["metadata"])}
        if self.kind.behavior.begin_termination and "deletionTimestamp" not in obj["metadata"]:
            return await self._terminate(entry, obj, options)
        if self.kind.behavior.held_by_spec_finalizers(obj):
            return entry, False
        pending, graceful = self._mark_graceful(obj, options)
        if pending:
            return entry, False
        self._set_finalizers(obj["metadata"], options)
        held = bool(obj["metadata"].get("finalizers"))
        if held and not graceful:
            self._mark(obj["metadata"])
        if held or (graceful and options.grace_period):
            return await self._store(entry, obj, options), False
        if graceful:
            entry = await self._store(entry, obj, options)
        if options.dry_run:
            return entry, True
        return await self.store.delete(entry.key, entry.revision), True

    async def _terminate(self, entry: Entry, obj: Obj, options: DeleteOptions) -> tuple[Entry, bool]:
        """The first of two deletions: what is inside has to go before the object does."""
        obj["metadata"]["deletionTimestamp"] = self.ctx.now
        self._set_finalizers(obj["metadata"], options)
        assert self.kind.behavior.begin_termination is not None
        self.kind.behavior.begin_termination(obj, self.ctx)
        return await self._store(entry, obj, options), False

    async def _store(self, entry: Entry, obj: Obj, options: DeleteOptions) -> Entry:
        obj["metadata"].pop("resourceVersion", None)
        if obj == entry.value:
            return entry
        if options.dry_run:
            return Entry(entry.key, obj, entry.revision)
        return await self.store.update(entry.key, obj, entry.revision)

    def check_preconditions(self, obj: Obj, options: DeleteOptions) -> None:
        """Raises 409."""
        fields = obj["metadata"]
        kind = self.kind
        if options.uid is not None and options.uid != fields["uid"]:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({fields['uid']}). "
                "The object might have been deleted and then recreated"
            )
            raise errors.conflict(kind.stored.group, kind.name, fields["name"], why)
        if options.version is not None and options.version != fields["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in "
                f"record ({fields['resourceVersion']}). The object might have been modified"
            )
            raise errors.conflict(kind.stored.group, kind.name, fields["name"], why)

    def _mark_graceful(self, obj: Obj, options: DeleteOptions) -> tuple[bool, bool]:
        """(an earlier deletion is still pending, this one grants a grace period or ends one). Marks the object."""
        fields = obj["metadata"]
        if options.grace_period is not None and options.grace_period < 0:
            options.grace_period = 1
        grace = self.kind.behavior.graceful_delete
        if grace is None:
            return False, False
        if "deletionTimestamp" in fields:
            before = fields.get("deletionGracePeriodSeconds")
            if before is None:
                return False, False
            if options.grace_period is None or options.grace_period >= before:
                return True, False
            requested = clock.parse_timestamp(fields["deletionTimestamp"]) - before
            fields["deletionTimestamp"] = clock.timestamp(requested + options.grace_period)
            fields["deletionGracePeriodSeconds"] = options.grace_period
            return False, True
        period = options.grace_period = grace(obj, options.grace_period)
        marked = clock.parse_timestamp(self.ctx.now) + period
        fields["deletionTimestamp"] = clock.timestamp(marked)
        fields["deletionGracePeriodSeconds"] = period
        if fields.get("generation"):
            fields["generation"] += 1
        return False, True

    def _mark(self, fields: Obj) -> None:
        """Deletion without grace, that something holds up."""
        if "deletionTimestamp" not in fields:
            if fields.get("generation"):
                fields["generation"] += 1
            fields["deletionTimestamp"] = self.ctx.now
        fields["deletionGracePeriodSeconds"] = 0

    def _set_finalizers(self, fields: Obj, options: DeleteOptions) -> None:
        """The garbage collector's finalizers, as the options or else the object have them."""
        have = fields.get("finalizers") or []
        policy = self._propagation(have, options)
        kept = [f for f in have if f not in (ORPHAN, FOREGROUND)]
        if policy == "Orphan":
            kept.append(ORPHAN)
        elif policy == "Foreground":
            kept.append(FOREGROUND)
        if set(kept) != set(have):
            fields["finalizers"] = kept
            if not kept:
                del fields["finalizers"]

    def _propagation(self, finalizers: list[str], options: DeleteOptions) -> str:
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
