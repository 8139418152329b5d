"""The steps that POST, PUT and PATCH share: conversion, defaults, managed fields, admission, checks of the metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from understudy.admission import chain
from understudy.apiserver.encoding.conversion import bare, from_internal, to_internal
from understudy.apiserver.endpoints.negotiation import APPLY_CBOR_PATCH, APPLY_PATCH, PROTOBUF
from understudy.apiserver.endpoints.object_interfaces import RegistryObjects
from understudy.apiserver.endpoints.request import Request
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.rest import WriteTarget, strategy_of
from understudy.kinds.context import Context
from understudy.kinds.declarations.codec import Sent
from understudy.kinds.declarations.kind import Strategy
from understudy.machinery import errors
from understudy.machinery.auth.forbidden import forbidden
from understudy.machinery.golang.json_writer import encode, holds_unreadable
from understudy.machinery.options import WriteOptions, write_options_object
from understudy.machinery.patch.apply import apply_body, managers
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.patch.apply.manager_names import manager_name
from understudy.machinery.releases.version import V1_34, V1_37
from understudy.machinery.serializer.json_fast import as_sent, keep_empty_fields
from understudy.machinery.types import Obj, deep_copy, named_kind

DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)
INVALID_MANAGED_FIELDS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating "
    "admission controller; please fix your requests: {}"
)


class WriteRequest:
    """A request that writes an object, with the steps that POST, PUT and PATCH share."""

    def __init__(self, state: ServerState, request: Request, scope: RequestScope, options: WriteOptions) -> None:
        self.state = state
        self.request = request
        self.scope = scope
        self.options = options
        self.ctx = state.context(request, scope)
        self.strategy: Strategy = strategy_of(scope.kind, scope.subresource)
        self.agent = request.headers.get("User-Agent", "")
        self._described: chain.Attributes | None = None

    @property
    def field_manager(self) -> FieldManager:
        """Return the field manager for bodies of this request."""
        return self.state.field_manager(self.scope)

    def audit_part(self, sent: Sent) -> None:
        """Note the body of a subresource for the audit log."""
        self.audit({"kind": sent.gvk.kind, "apiVersion": sent.gvk.api_version, **bare(sent.obj)})

    def audit_patch(self, media: str) -> None:
        """Note the patch of the request for the audit log: as JSON, though before 1.37 YAML and CBOR are left as
        they are."""
        if (events := self.request.audit) is not None and events.wants_objects:
            body, release = self.request.body, self.request.release
            if media == APPLY_PATCH and release >= V1_37:
                body = apply_body.as_json(body)
            elif media == APPLY_CBOR_PATCH and release >= V1_37:
                body = apply_body.cbor_as_json(body, release)
            events.note_patch(body)

    def audit(self, sent: Obj) -> None:
        """Note the object of the request, in the version that was sent, for the audit log (`LogRequestObject`)."""
        events = self.request.audit
        if events is None:
            return

        def encoded() -> bytes:
            obj, kind = deep_copy(sent), named_kind(sent)
            if kind.kind == self.scope.kind.name:  # else it is the body of a subresource, or a review
                self.default(obj)
            ordered = RegistryObjects(self.state.registry, self.state.schemas, lasts=False).in_order(obj, kind)
            return encode(as_sent(ordered))

        events.note_request(sent.get("metadata") or {}, encoded)

    def target(self, name: str) -> WriteTarget:
        """Return the target of this write for the registry; `name` is "" for a new object."""
        scope = self.scope
        return WriteTarget(scope.kind, scope.namespace, name, self.strategy, self.ctx, self.options.dry_run)

    def update_managed_fields(self, live: Obj | None, obj: Obj) -> None:
        """Set the managed fields of `obj`, in place. It replaces `live` (None: it is created); both are in the version
        of the request, with kind and apiVersion. Raises RequestAbortedError if `obj` has raw parts that are no JSON, as
        only protobuf can have them."""
        if PROTOBUF in self.request.headers.get("Content-Type", "") and holds_unreadable(obj):
            raise errors.RequestAbortedError
        conversion = self.scope.kind.behavior.conversions.get(self.scope.version)
        adds = conversion is not None and not conversion.lossless
        new = obj
        if adds:  # managed fields are of the object with what a conversion adds; Go keeps empty lists of the metadata
            new = self.live(self.internal(obj))
            new["metadata"] = keep_empty_fields(obj["metadata"], new["metadata"])
        manager = manager_name(self.options.field_manager, self.agent)
        owners = self.field_manager.update(live, new, manager, self.ctx.now)
        set_managed_fields(obj, owners)

    async def admit(self, obj: Obj, old: Obj | None) -> Obj:
        """Return an internal object as mutating admission leaves it; `old` is the stored one, None for a new object.

        Raises 403 for roles and bindings that grant what the user does not hold.
        """
        if old is None:
            self._check_creatable(obj)
        admission = self._admission(old)
        if admission.is_empty:
            admission.admitting.skipped += 1
        else:
            owners = obj["metadata"].get("managedFields")
            attributes = self._attributes(obj, old)
            await admission.admit(attributes, self.ctx)
            obj = attributes.new
            check_namespace(obj, self.scope)
            self._restore_managed_fields(obj, owners)
        dedup_owner_references(obj, self.ctx, after_admission=True)
        if self.state.escalation is not None:
            self.state.escalation.check(self.request.user, self.request.info, obj, old)
        return obj

    def _restore_managed_fields(self, obj: Obj, owners: list[Obj] | None) -> None:
        """Set the managed fields that an object had before admission, in place, if those that it has are invalid.

        Upstream: `managedFieldsValidatingAdmissionController`.
        """
        after = obj["metadata"].get("managedFields")
        if after == owners:
            return
        try:
            managers.decode(after)
        except managers.InvalidEntry as error:
            self.ctx.warn(INVALID_MANAGED_FIELDS.format(error))
            set_managed_fields(obj, owners)

    def _check_creatable(self, obj: Obj) -> None:
        """Raise 403 for a new custom resource whose definition is being deleted (`forbidCreateAdmission`).

        Before 1.34 only POST is refused, when it is routed.
        """
        kind = self.scope.kind
        if kind.custom is not None and "create" not in kind.verbs and kind.release >= V1_34:
            reason = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(kind.group, kind.resource, obj["metadata"].get("name", ""), reason)

    async def validate(self, obj: Obj, old: Obj | None) -> None:
        """Ask validating admission about an internal object. Raises StatusError if a plugin refuses it.

        An update that creates needs the permission to create, too.
        """
        if old is None and self.request.info.verb in ("update", "patch"):
            self._authorize_create()
        admission = self._admission(old)
        if admission.is_empty:
            admission.validation.skipped += 1
        else:
            await admission.validate(self._attributes(obj, old), self.ctx)

    def _authorize_create(self) -> None:
        """Raise 403 if the user may not create what an update did not find, 500 if that cannot be found out. Upstream:
        `withAuthorization`."""
        create = replace(self.request.info, verb="create")
        decision = self.ctx.authorizer.authorize(self.request.user, create)
        if decision.error and not decision.allowed:
            raise errors.internal_error(decision.error)
        if not decision.allowed:
            raise forbidden(self.request.user, create, decision.reason)

    async def admit_new_part(self, read: Callable[[], Obj], check: Callable[[Obj], object] = lambda obj: None) -> Obj:
        """Return an object that is not stored, such as a binding or a review, as admission leaves it.

        `read` returns it as it was sent; `check` is called between mutating and validating admission. Raises 400 for
        another namespace than that of the path, and StatusError as `read` does or if a plugin refuses the object.
        """
        obj = await self.mutate_new_part(read)
        check(obj)
        await self.validate(obj, None)
        return obj

    async def mutate_new_part(self, read: Callable[[], Obj]) -> Obj:
        """Return an object that is not stored as mutating admission leaves it; `read` returns it as it was sent.

        Raises 400 for another namespace than that of the path, and StatusError as `read` does or if a plugin refuses
        the object.
        """

        def prepare() -> Obj:
            kind = self.scope.body_kind
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, **bare(read())}
            check_namespace(obj, self.scope)
            dedup_owner_references(obj, self.ctx)
            self.update_managed_fields(None, obj)
            return obj

        return await self.admit(await self.request.read(prepare), None)

    def _admission(self, old: Obj | None) -> chain.Admission:
        """Return the plugins to ask about a new object or an update."""
        return self.state.chain.of(self.scope.point(chain.Operation.CREATE if old is None else chain.Operation.UPDATE))

    def _attributes(self, obj: Obj, old: Obj | None) -> chain.Attributes:
        """Describe this write to admission plugins. The description is made once for each stored object."""
        described = self._described
        if described is not None and described.old_object is old:
            described.object = obj
            described.name = described.name or (obj.get("metadata") or {}).get("name", "")  # generated meanwhile
            return described
        self._described = described = self.scope.attributes(
            chain.Operation.CREATE if old is None else chain.Operation.UPDATE,
            self.ctx,
            obj,
            old,
            options=write_options_object(self.request.query, create=old is None),
            dry_run=self.options.dry_run,
        )
        return described

    def live(self, current: Obj) -> Obj:
        """Return a stored object in the version of the request."""
        return from_internal(self.scope.kind, self.scope.version, current)

    def internal(self, obj: Obj) -> Obj:
        """Return the internal form of an object in the version of the request, with its own metadata."""
        out = to_internal(self.scope.kind, self.scope.version, obj)
        out["metadata"] = dict(out["metadata"])
        return out

    def default(self, obj: Obj) -> None:
        """Set the defaults of an object in the version of the request, in place."""
        self.scope.behavior.defaults(obj, self.ctx)

    def defaulted(self, sent: Sent) -> Obj:
        """Return a sent object in the version of the request, with the defaults of the version that it was sent in."""
        scope = self.scope
        return self.state.versions.defaulted(scope.kind, scope.version, sent.obj, sent.gvk.api_version, self.ctx)


def set_managed_fields(obj: Obj, owners: list[Obj] | None) -> None:
    """Give an object other managed fields, or None, in place. Its metadata are replaced, since others may share
    them."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    obj["metadata"] = metadata | ({"managedFields": owners} if owners else {})


def check_namespace(obj: Obj, scope: RequestScope) -> None:
    """Set the namespace of a body from the path, in place (`EnsureObjectNamespaceMatchesRequestNamespace`).

    Kinds without namespaces lose one that was sent. Raises 400 for another namespace.
    """
    fields = obj["metadata"]
    if not scope.kind.namespaced:
        if "namespace" in fields:
            others = {name: value for name, value in fields.items() if name != "namespace"}
            obj["metadata"] = keep_empty_fields(fields, others)
        return
    if not fields.get("namespace"):
        obj["metadata"] = keep_empty_fields(fields, {**fields, "namespace": scope.namespace})
    elif fields["namespace"] != scope.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_named(scope: RequestScope) -> None:
    """Raise 400 for a path without a name, as only those of custom resources can be."""
    if not scope.name:
        raise errors.bad_request("name must be provided")


def check_name(obj: Obj, scope: RequestScope) -> None:
    """Raise 400 unless the body has the name of the path (`checkName`)."""
    name = obj["metadata"].get("name", "")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({scope.name} based on URL) was undeterminable: name must be provided"
        )
    if name != scope.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({scope.name})")


def dedup_owner_references(obj: Obj, ctx: Context, *, after_admission: bool = False) -> None:
    """Remove repeated owner references in place, with a warning (`dedupOwnerReferencesAndAddWarning`).

    after_admission  whether mutating admission has seen the object: patches are cleaned only then
    """
    owners = obj["metadata"].get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: dict[frozenset[tuple[str, str | bool]], Obj] = {}
    repeated: list[str] = []
    for owner in owners:
        fields = frozenset(owner.items())
        if fields in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept[fields] = owner
    if repeated:
        when = " after mutating admission happens" if after_admission else ""
        ctx.warn(DUPLICATE_OWNERS.format(when=when, uids=", ".join(repeated)))
        obj["metadata"] = {**obj["metadata"], "ownerReferences": list(kept.values())}
