"""PATCH: an object as a JSON, merge or strategic merge patch changes it, or as server-side apply does.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go (`PatchResource`).
"""

from __future__ import annotations

from understudy.apiserver.endpoints.handlers.patchers import PATCHERS, Current
from understudy.apiserver.endpoints.handlers.write_request import (
    WriteRequest,
    check_name,
    check_named,
    check_namespace,
    set_managed_fields,
)
from understudy.apiserver.endpoints.negotiation import (
    APPLY_CBOR_PATCH,
    APPLY_PATCH,
    APPLY_PATCHES,
    CUSTOM_PATCHES,
    PATCHES,
    patch_type,
)
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, object_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.registry.etcd_limits import TooLargeError
from understudy.apiserver.registry.store import Transform
from understudy.kinds.declarations.codec import Sent
from understudy.kinds.declarations.kind import Kind
from understudy.machinery import errors
from understudy.machinery.options import write_options
from understudy.machinery.patch import patch_body
from understudy.machinery.patch.apply import apply_body
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj, deep_copy


def patches_of(request: Request, kind: Kind) -> tuple[str, ...]:
    """Return the media types of patches that a request for a kind may have."""
    patches = PATCHES if kind.custom is None else CUSTOM_PATCHES
    return (*patches, APPLY_CBOR_PATCH) if request.serves_cbor else patches


def check_patch(request: Request, media: str) -> None:
    """Raise 400 for a body that is no JSON, or for server-side apply no YAML, before the object is looked up.

    Since 1.37 (upstream: `validateAndTranscodePatch`).
    """
    if request.release < V1_37:
        return
    if media == APPLY_PATCH:
        apply_body.check(request.body)
    elif media == APPLY_CBOR_PATCH:
        apply_body.check_cbor(request.body, request.release)
    elif not patch_body.is_json(request.body):
        raise errors.bad_request("invalid JSON patch")


async def patch(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PATCH of an object, or of a subresource that is the object itself, in any of the four forms."""
    media = patch_type(request.headers, patches_of(request, scope.kind))
    check_named(scope)
    form_of(request, scope)
    request.check_body()
    options = write_options(request.query, request.method, request.release, apply=media in APPLY_PATCHES)
    check_patch(request, media)
    write = WriteRequest(state, request, scope, options)
    write.audit_patch(media)
    target, applies = write.target(scope.name), media in APPLY_PATCHES
    transform = _apply_transform(write) if applies else _patch_transform(write, media)
    try:
        entry, created = await state.registry.update(
            target, transform, create=applies and not scope.subresource, validate=write.validate
        )
    except TooLargeError:
        if applies:
            raise
        transform = _without_managed_fields(transform)
        entry, created = await state.registry.update(target, transform, validate=write.validate)
    return await object_response(request, scope, entry, 201 if created else 200)


def _without_managed_fields(transform: Transform) -> Transform:
    """Return a transform that patches in the same way and drops the managed fields."""

    async def patched(current: Obj | None) -> Obj:
        obj = await transform(current)
        set_managed_fields(obj, None)
        return obj

    return patched


def _patch_transform(write: WriteRequest, media: str) -> Transform:
    """Return the transform of a patch. It reads the patch only when it runs: a missing object is reported first."""
    scope = write.scope

    async def transform(current: Obj | None) -> Obj:
        if current is None:
            raise errors.not_found(scope.kind.group, scope.kind.resource, scope.name)
        live = write.live(current)
        obj = write.defaulted(patch_live(write, media, live))
        write.update_managed_fields(live, obj)
        return await _checked(write, obj, current)

    return transform


def _apply_transform(write: WriteRequest) -> Transform:
    """Return the transform that applies the body to the stored object, or creates one."""
    scope = write.scope

    async def transform(current: Obj | None) -> Obj:
        live = write.live(current) if current else None
        obj = apply_to_live(write, live)
        if live is not None and any(item is live.get(key) for key, item in obj.items() if isinstance(item, dict)):
            obj = deep_copy(obj)  # at most owners change: the rest is the stored object's own, which must not be edited
        write.default(obj)
        if current is None and obj["metadata"].get("uid"):
            uid = obj["metadata"]["uid"]
            message = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(scope.kind.group, scope.kind.resource, scope.name, message)
        return await _checked(write, obj, current)

    return transform


async def _checked(write: WriteRequest, obj: Obj, current: Obj | None) -> Obj:
    """Check the metadata of a patched object, and return its internal form as mutating admission leaves it."""
    check_namespace(obj, write.scope)
    check_name(obj, write.scope)
    return await write.admit(write.internal(obj), current)


def patch_live(write: WriteRequest, media: str, live: Obj) -> Sent:
    """Patch an object in the version of the request with the body's JSON, merge or strategic merge patch.

    Raises 400, 413, 422 and, for strategic merge patches, 500.
    """
    decoder = write.scope.decoder
    current = Current(live, decoder, write.options.field_validation, write.ctx)
    return PATCHERS[media](write.request.body, current)


def apply_to_live(write: WriteRequest, live: Obj | None) -> Obj:
    """Apply the body to an object in the version of the request (None: there is none) as server-side apply does.

    It has its managed fields; it is `live` itself if nothing changes. Raises 400, 409, 500.
    """
    options = write.options
    patch = applied_patch(write)
    obj = write.field_manager.apply(live, patch, options.field_manager, write.ctx.now, force=bool(options.force))
    for text in patch.warnings:
        write.ctx.warn(text)
    return obj


def applied_patch(write: WriteRequest) -> apply_body.Patch:
    """Return the body of an apply request. Raises 400."""
    request = write.request
    media = request.headers["Content-Type"].partition(";")[0]
    parse = apply_body.parse_cbor if media == APPLY_CBOR_PATCH else apply_body.parse
    return parse(request.body, write.options.field_validation, request.release)
