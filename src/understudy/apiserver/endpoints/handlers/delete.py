"""DELETE of an object and of a collection: preconditions, finalizers, propagation, grace.

What a deletion does to an object that is there:

    nothing holds it                     it goes
    it has finalizers, or gets one       it is marked (deletionTimestamp) and stays until an update takes the last away
    its kind grants a grace period       it is marked and stays until it is deleted again with 0
    it is marked already                 nothing, but that a shorter grace period is taken over

https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from understudy.admission.chain import Operation
from understudy.admission.context import Context
from understudy.apiserver.endpoints.negotiation import PROTOBUF, YAML, body_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import (
    form_of,
    list_response,
    object_response,
    value_response,
)
from understudy.apiserver.endpoints.scope import RequestScope, ServerState, selector_of
from understudy.apiserver.registry.kind import Kind
from understudy.apiserver.storage.interface import Entry, RevisionConflictError
from understudy.machinery import clock, errors
from understudy.machinery.options import DeleteOptions, boolean, integer, list_options, validated_delete_options
from understudy.machinery.releases import features
from understudy.machinery.serializer.json import DecodeError, decode_parsed, parse_json, read_type_meta, yaml_to_json
from understudy.machinery.serializer.protobuf import decode as decode_protobuf
from understudy.machinery.typeinfo.scheme import decode_delete_options
from understudy.machinery.types import Obj

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
ALL = 2**63 - 1
# Asks admission about the deletion of a stored object. May raise StatusError.
ValidateDeletion = Callable[[Obj], Awaitable[None]]


async def validate_all(old: Obj) -> None:
    """Let every deletion pass, for what the server itself deletes."""


async def delete(state: ServerState, request: Request, scope: RequestScope) -> Response:
    form_of(request, scope)
    options = delete_options(state, request)
    if why := scope.behavior.protected.get(scope.name):
        raise errors.forbidden(scope.kind.group, scope.kind.resource, scope.name, why)
    ctx = state.context(request, scope)
    deletion = Deletion(state, scope.kind, ctx, _validate(state, scope, ctx))
    entry, gone = await deletion.run(scope.namespace, scope.name, options)
    accepted = not gone and options.orphan_dependents is False
    status = 202 if accepted else 200
    if gone and not scope.behavior.delete_returns_object:
        return value_response(request, scope, _success(scope, entry), status)
    return object_response(request, scope, entry, status)


def _success(scope: RequestScope, entry: Entry) -> Obj:
    details: Obj = {"name": scope.name}
    if scope.kind.group:
        details["group"] = scope.kind.group
    details |= {"kind": scope.kind.resource, "uid": entry.value["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def delete_collection(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Deletes what a list with the same parameters would show, and answers that list."""
    form_of(request, scope)
    listing = list_options(request.query, request.release, watch=False, watch_list=state.gates[features.WATCH_LIST])
    selector = selector_of(scope, listing)
    options = delete_options(state, request)
    listing.limit = listing.limit or ALL  # reads as lists with a limit do: at exactly its resourceVersion
    page = await state.registry.list(scope.kind, scope.namespace, listing, selector)
    ctx = state.context(request, scope)
    deletion = Deletion(state, scope.kind, ctx, _validate(state, scope, ctx))
    for entry in page.entries:
        fields = entry.value["metadata"]
        try:
            await deletion.run(fields.get("namespace", ""), fields["name"], replace(options))
        except errors.StatusError as error:
            if error.code != 404:
                raise
    return list_response(request, scope, page)


def _validate(state: ServerState, scope: RequestScope, ctx: Context) -> ValidateDeletion:
    """Return what asks admission about the deletion of an object (`AdmissionToValidateObjectDeleteFunc`)."""
    admission = state.chain.of(scope.point(Operation.DELETE))
    if admission is None:
        return validate_all

    async def validate(old: Obj) -> None:
        attributes = scope.attributes(Operation.DELETE, ctx, old=old, dry_run=ctx.dry_run)
        await admission.admit(attributes, ctx)
        await admission.validate(attributes, ctx)

    return validate


class Deletion:
    """The deletion of objects of one kind, by one request."""

    def __init__(self, state: ServerState, kind: Kind, ctx: Context, validate: ValidateDeletion = validate_all) -> None:
        self.validate = validate
        self.state = state
        self.kind = kind
        self.ctx = ctx
        self.store = state.registry.store

    async def run(self, namespace: str, name: str, options: DeleteOptions) -> tuple[Entry, bool]:
        """The object as it was left, or as it was last, and whether it is gone. Raises 404, 409."""
        while True:
            entry = await self.state.registry.get(self.kind, namespace, name)
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


def delete_options(state: ServerState, request: Request) -> DeleteOptions:
    """From the body, or else from the query. Raises 400, 422, and 500 for a body that is something else."""
    if request.body:
        body = _body(state, request)
        preconditions = body.get("preconditions") or {}
        options = DeleteOptions(
            grace_period=body.get("gracePeriodSeconds"),
            dry_run=bool(body.get("dryRun")),
            orphan_dependents=body.get("orphanDependents"),
            propagation=body.get("propagationPolicy"),
            uid=preconditions.get("uid"),
            version=preconditions.get("resourceVersion"),
        )
        return validated_delete_options(options, body.get("dryRun") or [], request.release)
    query = request.query
    if not query:
        return DeleteOptions()
    options = DeleteOptions(
        grace_period=integer(query.get("gracePeriodSeconds")) if "gracePeriodSeconds" in query else None,
        dry_run=bool(query.all("dryRun")),
        orphan_dependents=boolean(query, "orphanDependents"),
        propagation=query.get("propagationPolicy") if "propagationPolicy" in query else None,
        uid=query.get("uid") or None,
        version=query.get("resourceVersion") or None,
    )
    return validated_delete_options(options, query.all("dryRun"), request.release)


def _body(state: ServerState, request: Request) -> Obj:
    """Return the DeleteOptions of a body. Raises 500 for a body that is something else, and 415."""
    media = body_type(request.headers.get("Content-Type", ""))
    try:
        if media == PROTOBUF:
            return decode_protobuf(request.body, state.schemas.kind("", "v1", "DeleteOptions"))
        body = parse_json(yaml_to_json(request.body)[0] if media == YAML else request.body)
        return decode_delete_options(
            state.schemas, *read_type_meta(body), lambda struct: decode_parsed(body, struct)[0]
        )
    except DecodeError as why:
        raise errors.unknown_error(str(why)) from None
