"""POST, PUT and PATCH of objects: from a body to what the registry stores.

PUT, the four kinds of patches and apply differ in how they get from the current object to the wanted one; the registry
does the rest for all of them.
"""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.patchers import PATCHERS, Current
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, patch_type
from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.responsewriters.writers import form_of, object_reply
from understudy.apiserver.endpoints.scope import Api, Target
from understudy.apiserver.registry.encoded import from_internal, to_internal
from understudy.apiserver.registry.kind import Strategy
from understudy.apiserver.registry.rest import Write, strategy_of
from understudy.apiserver.registry.store import Transform
from understudy.machinery import errors
from understudy.machinery.options import WriteOptions, write_options
from understudy.machinery.patch.apply import apply, managed_fields
from understudy.machinery.types import Obj

WIPED = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


class Writer:
    """One write of an object through the API: what its steps share."""

    def __init__(self, api: Api, call: Call, target: Target, options: WriteOptions) -> None:
        self.api = api
        self.call = call
        self.target = target
        self.options = options
        self.ctx = api.context(call, target)
        self.strategy: Strategy = strategy_of(target.kind, target.subresource)
        self.agent = call.headers.get("User-Agent", "")

    def write(self, name: str) -> Write:
        target = self.target
        return Write(target.kind, target.namespace, name, self.strategy, self.ctx, self.options.dry_run)

    @property
    def reset(self) -> tuple[tuple[str, ...], ...]:
        """The fields that this request cannot change, which nobody comes to own by it."""
        fields = self.strategy.reset_fields
        return fields.get(self.target.version, fields.get("", ()))

    def convert(self, obj: Obj, source: str, wanted: str) -> Obj | None:
        return self.api.convert(self.target, obj, source, wanted)

    def own(self, live: Obj | None, obj: Obj) -> None:
        """Records in `obj` who owns what. Both in the version of the request, typed."""
        converts = self.target.version in self.target.kind.rules.conversions
        owners = managed_fields.update_managed_fields(
            live,
            self.live(self.internal(obj)) if converts else obj,  # with what a conversion adds
            struct=self.target.struct,
            api_version=self.target.api_version,
            manager=managed_fields.manager_name(self.options.field_manager, self.agent),
            subresource=self.target.subresource,
            now=self.ctx.now,
            reset=self.reset,
            convert=self.convert,
        )
        set_managed_fields(obj, owners)

    def live(self, current: Obj) -> Obj:
        return from_internal(self.target.kind, self.target.version, current)

    def internal(self, obj: Obj) -> Obj:
        out = to_internal(self.target.kind, self.target.version, obj)
        out["metadata"] = dict(out["metadata"])
        return out

    def default(self, obj: Obj) -> None:
        self.target.rules.defaults(obj, self.ctx)

    def defaulted(self, sent: request_body.Sent) -> Obj:
        """An object that may be in another version, with that version's defaults, in the version of the request."""
        return self.api.defaulted(self.target, sent.obj, sent.gvk.api_version, self.ctx)


def set_managed_fields(obj: Obj, owners: list[Obj]) -> None:
    fields = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    if owners:
        fields["managedFields"] = owners
    obj["metadata"] = fields


async def create(api: Api, call: Call, target: Target) -> Reply:
    """POST to a collection."""
    form_of(call, target)
    options = write_options(call.query, call.method, call.release)
    writer = Writer(api, call, target, options)
    obj = request_body.read_object(call, api.schemas, target.kind, target.version, options.field_validation)
    check_namespace(obj, target)
    writer.default(obj)
    wipe(obj)
    unique_owners(obj, writer.ctx)
    writer.own(None, obj)
    entry = await api.registry.create(writer.write(""), writer.internal(obj))
    return object_reply(call, target, entry, 201)


async def update(api: Api, call: Call, target: Target) -> Reply:
    """PUT of an object or its status."""
    form_of(call, target)
    options = write_options(call.query, call.method, call.release)
    writer = Writer(api, call, target, options)

    def read() -> Obj:
        obj = request_body.read_object(call, api.schemas, target.kind, target.version, options.field_validation)
        check_namespace(obj, target)
        check_name(obj, target)
        writer.default(obj)
        unique_owners(obj, writer.ctx)
        return obj

    first = [read()]
    uid = str(first[0]["metadata"].get("uid", ""))

    def transform(current: Obj | None) -> Obj:
        obj = first.pop() if first else read()
        writer.own(writer.live(current) if current else None, obj)
        return writer.internal(obj)

    entry, created = await api.registry.update(writer.write(target.name), transform, uid=uid)
    return object_reply(call, target, entry, 201 if created else 200)


async def patch(api: Api, call: Call, target: Target) -> Reply:
    """PATCH of an object or its status, in any of the four forms."""
    media = patch_type(call.headers)
    form_of(call, target)
    options = write_options(call.query, call.method, call.release, apply=media == APPLY_PATCH)
    writer = Writer(api, call, target, options)
    if media == APPLY_PATCH:
        transform = _applying(writer)
    else:
        transform = _patching(writer, media)
    entry, created = await api.registry.update(
        writer.write(target.name), transform, create=media == APPLY_PATCH and not target.subresource
    )
    return object_reply(call, target, entry, 201 if created else 200)


def _patching(writer: Writer, media: str) -> Transform:
    """The patch is read when there is an object to apply it to: a missing one is told of first."""
    target, validation = writer.target, writer.options.field_validation

    def transform(current: Obj | None) -> Obj:
        if current is None:
            raise errors.not_found(target.kind.group, target.kind.resource, target.name)
        live = writer.live(current)
        kind = target.kind.gvk(target.version)
        sent = PATCHERS[media](writer.call.body, Current(live, kind, writer.api.schemas, validation, writer.ctx))
        obj = writer.defaulted(sent)
        writer.own(live, obj)
        check_namespace(obj, target)
        check_name(obj, target)
        unique_owners(obj, writer.ctx)
        return writer.internal(obj)

    return transform


def _applying(writer: Writer) -> Transform:
    target, options = writer.target, writer.options

    def transform(current: Obj | None) -> Obj:
        patch = apply.parse(writer.call.body, options.field_validation)
        live = writer.live(current) if current else None
        obj = apply.apply(
            live,
            patch.obj,
            struct=target.struct,
            api_version=target.api_version,
            manager=options.field_manager,
            force=bool(options.force),
            subresource=target.subresource,
            now=writer.ctx.now,
            reset=writer.reset,
            convert=writer.convert,
            duplicates=patch.duplicates,
        )
        for text in patch.warnings:
            writer.ctx.warn(text)
        if current is not None and obj is live:
            return current
        writer.default(obj)
        if current is None and obj["metadata"].get("uid"):
            uid = obj["metadata"]["uid"]
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(target.kind.group, target.kind.resource, target.name, why)
        check_namespace(obj, target)
        check_name(obj, target)
        unique_owners(obj, writer.ctx)
        return writer.internal(obj)

    return transform


def wipe(obj: Obj) -> None:
    """Takes out of a new object's metadata what only the server says."""
    fields = {name: value for name, value in obj["metadata"].items() if name not in WIPED}
    obj["metadata"] = {**fields, "creationTimestamp": None}


def check_namespace(obj: Obj, target: Target) -> None:
    """The body's namespace is the path's, or none. What is in no namespace forgets one that it is said to be in."""
    fields = obj["metadata"]
    if not target.kind.namespaced:
        if "namespace" in fields:
            obj["metadata"] = {name: value for name, value in fields.items() if name != "namespace"}
        return
    if not fields.get("namespace"):
        obj["metadata"] = {**fields, "namespace": target.namespace}
    elif fields["namespace"] != target.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def read_part(api: Api, call: Call, target: Target, options: WriteOptions) -> Obj:
    """The body of a subresource that is of a kind of its own. Raises 400; 403 and 404 where the namespace takes nothing
    new."""
    kind = target.kind.subresources[target.subresource].kind
    sent = request_body.read(call, api.schemas, kind, options.field_validation).obj
    check_namespace(sent, target)
    api.registry.admit_namespace(target.kind, target.namespace, {"name": target.name})
    return sent


def check_name(obj: Obj, target: Target) -> None:
    name = obj["metadata"].get("name", "")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def unique_owners(obj: Obj, ctx: Context) -> None:
    """Takes repeated owner references out, with a warning."""
    owners = obj["metadata"].get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: list[Obj] = []
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if repeated:
        ctx.warn(DUPLICATE_OWNERS.format(uids=", ".join(repeated)))
        obj["metadata"] = {**obj["metadata"], "ownerReferences": kept}
