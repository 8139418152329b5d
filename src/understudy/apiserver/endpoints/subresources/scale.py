"""The scale subresource: the desired and current replicas of a workload or custom resource, as autoscaling/v1 Scale.

A Scale is a view: writing it changes the replicas of the object behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.apiserver.encoding.conversion import bare
from understudy.apiserver.encoding.encoded import internal
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.patch import check_patch, patch_live, patches_of
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest, check_name, check_namespace
from understudy.apiserver.endpoints.negotiation import APPLY_PATCHES, patch_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, scale_response
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources.scale_views import view_of
from understudy.apiserver.registry.corrupt_objects import read_anew
from understudy.machinery import errors
from understudy.machinery.options import minimum_version, write_options
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import GroupVersionKind, Obj

GVK = GroupVersionKind("autoscaling", "v1", "Scale")
SCALE_GROUPS = {"deployments": "apps", "replicasets": "apps", "replicationcontrollers": "autoscaling"}  # before 1.33


async def get_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of a scale. Raises 400, 404, 500 and 504; before 1.33, all are 404 for most workloads."""
    kind = scope.kind
    form_of(request, scope)
    version = minimum_version(request.query)
    try:
        await state.registry.not_older(kind, version)
        entry = await state.registry.get(kind, scope.namespace, scope.name)
    except errors.StatusError:
        if kind.custom is not None or kind.resource not in SCALE_GROUPS or kind.release >= V1_33:
            raise
        raise errors.not_found(SCALE_GROUPS[kind.resource], f"{kind.resource}/scale", scope.name) from None
    return scale_response(request, scope, view_of(scope).shown(internal(read_anew(entry, kind, state.gates), kind)))


async def update_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PUT of a scale (`ScaleREST.Update`). Raises 400, 404, 406, 409, 422."""
    form_of(request, scope)
    options = write_options(request.query, request.method, request.release)
    view = view_of(scope)
    try:
        sent = request_body.read(request, scope.decoder, options.field_validation)
    except errors.StatusError as error:
        if error.code != 400:
            raise
        raise view.refused_body(error) from None
    request_body.check_version(sent, scope.decoder.kind)
    write = WriteRequest(state, request, scope, options)
    write.audit_part(sent)
    check_namespace(sent.obj, scope)
    check_name(sent.obj, scope)
    uid = str(sent.obj["metadata"].get("uid", ""))

    def replace(live: Obj) -> Obj:
        scale = {**live, **sent.obj}
        view.own(write, live, scale)
        return scale

    return await _write(write, replace, uid)


async def patch_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PATCH of a scale. It reads the patch only once the object is there: a missing one is reported first."""
    media = patch_type(request.headers, patches_of(request, scope.kind))
    form_of(request, scope)
    request.check_body()
    options = write_options(request.query, request.method, request.release, apply=media in APPLY_PATCHES)
    check_patch(request, media)
    write = WriteRequest(state, request, scope, options)
    write.audit_patch(media)
    view = view_of(scope)

    def change(live: Obj) -> Obj:
        if media in APPLY_PATCHES:
            scale = view.apply(write, live)
        else:
            scale = {"kind": GVK.kind, "apiVersion": GVK.api_version, **bare(patch_live(write, media, live).obj)}
            view.own(write, live, scale)
        check_namespace(scale, scope)
        check_name(scale, scope)
        return scale

    return await _write(write, change)


async def _write(write: WriteRequest, change: Callable[[Obj], Obj], uid: str = "") -> Response:
    """Store the replicas that `change` sets in the Scale of an object, and answer with the new Scale.

    `uid` is a precondition.
    """
    scope, view = write.scope, view_of(write.scope)

    async def transform(obj: Obj | None) -> Obj:
        assert obj is not None  # update() has refused a missing one
        live = view.live(obj)
        scale = await write.admit(change(live), live)
        changed = view.changed(obj, scale, live)
        if scale["metadata"].get("resourceVersion"):
            changed["metadata"] = {**changed["metadata"], "resourceVersion": scale["metadata"]["resourceVersion"]}
        return changed

    async def validate(obj: Obj, old: Obj | None) -> None:
        await write.validate(view.written(obj), None if old is None else view.written(old))

    entry, _ = await write.state.registry.update(write.target(scope.name), transform, uid=uid, validate=validate)
    return scale_response(write.request, scope, view.written(internal(entry, scope.kind)))
