"""PATCH: an object as a JSON, merge or strategic merge patch, or an apply, changes it."""

from __future__ import annotations

from copy import deepcopy

from understudy.apiserver.endpoints.handlers.patchers import PATCHERS, Current
from understudy.apiserver.endpoints.handlers.write_request import (
    WriteRequest,
    check_name,
    check_namespace,
    dedup_owner_references,
)
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, patch_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, object_response
from understudy.apiserver.endpoints.scope import RequestScope, ServerState
from understudy.apiserver.registry.store import Transform
from understudy.machinery import errors
from understudy.machinery.options import write_options
from understudy.machinery.patch.apply import apply
from understudy.machinery.types import Obj


async def patch(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """PATCH of an object or its status, in any of the four forms."""
    media = patch_type(request.headers)
    form_of(request, scope)
    options = write_options(request.query, request.method, request.release, apply=media == APPLY_PATCH)
    write = WriteRequest(state, request, scope, options)
    if media == APPLY_PATCH:
        transform = _applying(write)
    else:
        transform = _patching(write, media)
    entry, created = await state.registry.update(
        write.target(scope.name),
        transform,
        create=media == APPLY_PATCH and not scope.subresource,
        validate=write.validate,
    )
    return object_response(request, scope, entry, 201 if created else 200)


def _patching(write: WriteRequest, media: str) -> Transform:
    """The patch is read when there is an object to apply it to: a missing one is told of first."""
    scope, validation = write.scope, write.options.field_validation

    async def transform(current: Obj | None) -> Obj:
        if current is None:
            raise errors.not_found(scope.kind.group, scope.kind.resource, scope.name)
        live = write.live(current)
        kind = scope.kind.gvk(scope.version)
        sent = PATCHERS[media](write.request.body, Current(live, kind, write.state.schemas, validation, write.ctx))
        obj = write.defaulted(sent)
        write.update_managed_fields(live, obj)
        check_namespace(obj, scope)
        check_name(obj, scope)
        dedup_owner_references(obj, write.ctx)
        return await write.admit(write.internal(obj), current)

    return transform


def _applying(write: WriteRequest) -> Transform:
    scope, options = write.scope, write.options

    async def transform(current: Obj | None) -> Obj:
        patch = apply.parse(write.request.body, options.field_validation)
        live = write.live(current) if current else None
        obj = apply.apply(
            live,
            patch.obj,
            struct=scope.struct,
            api_version=scope.api_version,
            manager=options.field_manager,
            force=bool(options.force),
            subresource=scope.subresource,
            now=write.ctx.now,
            reset=write.reset,
            convert=write.convert,
            duplicates=patch.duplicates,
        )
        for text in patch.warnings:
            write.ctx.warn(text)
        if current is not None and obj is live:
            return current
        if live is not None and any(item is live.get(key) for key, item in obj.items() if isinstance(item, dict)):
            obj = deepcopy(obj)  # only owners change: the rest is the stored object's own, which nobody may edit
        write.default(obj)
        if current is None and obj["metadata"].get("uid"):
            uid = obj["metadata"]["uid"]
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(scope.kind.group, scope.kind.resource, scope.name, why)
        check_namespace(obj, scope)
        check_name(obj, scope)
        dedup_owner_references(obj, write.ctx)
        return await write.admit(write.internal(obj), current)

    return transform
