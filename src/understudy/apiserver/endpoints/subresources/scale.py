"""The scale subresource: the desired and current replicas of a workload, as autoscaling/v1 Scale.

A Scale is a view: writing it changes `spec.replicas` of the workload behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from understudy.admission.validation import objectmeta
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.patch import apply_to_live, patch_live, patches_of
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest, check_name, check_namespace
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, patch_type
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import form_of, scale_response
from understudy.apiserver.endpoints.scope import RequestScope, ServerState
from understudy.apiserver.registry.encoding.conversion import bare
from understudy.machinery import errors
from understudy.machinery.options import write_options
from understudy.machinery.patch.apply.scale_handler import to_scale, to_workload
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.validation.field import Path, invalid

GVK = GroupVersionKind("autoscaling", "v1", "Scale")
SCALE_GROUPS = {"deployments": "apps", "replicasets": "apps", "replicationcontrollers": "autoscaling"}  # in errors
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Obj) -> Obj:
    """Return the Scale of a deployment, replica set, stateful set or replication controller."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    replicas = spec.get("replicas", 0)
    current: Obj = {"replicas": status.get("replicas", 0)}
    if selector := _selector(spec.get("selector")):
        current["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": GVK.api_version,
        "metadata": {name: workload["metadata"][name] for name in _SHOWN if name in workload["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": current,
    }


def _selector(selector: Obj | None) -> str:
    """Return a label selector as text (`FormatLabelSelector`). That of a replication controller is a plain map."""
    if not selector:
        return ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    terms = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    formats = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    for expression in selector.get("matchExpressions") or []:
        values = ",".join(sorted(expression.get("values") or []))
        terms[expression["key"]] = formats[expression["operator"]].format(key=expression["key"], values=values)
    return ",".join(terms[key] for key in sorted(terms))


async def get_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer GET of a scale. Raises 404; for stateful sets 400, 500 and 504 too, which are 404 for other kinds."""
    kind = scope.kind
    form_of(request, scope)
    try:
        await state.registry.not_older(kind, request.query.get("resourceVersion"))
        entry = await state.registry.get(kind, scope.namespace, scope.name)
    except errors.StatusError:
        if kind.resource not in SCALE_GROUPS:
            raise
        raise errors.not_found(SCALE_GROUPS[kind.resource], f"{kind.resource}/scale", scope.name) from None
    return scale_response(request, scope, scale_of(entry.object))


async def update_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PUT of a scale (`ScaleREST.Update`). Raises 400, 404, 409, 422."""
    options = write_options(request.query, request.method, request.release)
    sent = request_body.read(request, state.decoder(scope), options.field_validation)
    check_namespace(sent.obj, scope)
    check_name(sent.obj, scope)
    write = WriteRequest(state, request, scope, options)
    uid = str(sent.obj["metadata"].get("uid", ""))

    def replace(live: Obj) -> Obj:
        scale = {**live, **sent.obj}
        write.update_managed_fields(live, scale)
        return scale

    return await _write(write, replace, uid)


async def patch_scale(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer PATCH of a scale. It reads the patch only once the workload is there: a missing one is reported first."""
    media = patch_type(request.headers, patches_of(scope.kind))
    options = write_options(request.query, request.method, request.release, apply=media == APPLY_PATCH)
    write = WriteRequest(state, request, scope, options)

    def change(live: Obj) -> Obj:
        if media == APPLY_PATCH:
            scale = apply_to_live(write, live)
        else:
            scale = {"kind": GVK.kind, "apiVersion": GVK.api_version, **bare(patch_live(write, media, live).obj)}
            write.update_managed_fields(live, scale)
        check_namespace(scale, scope)
        check_name(scale, scope)
        return scale

    return await _write(write, change)


async def _write(write: WriteRequest, change: Callable[[Obj], Obj], uid: str = "") -> Response:
    """Store the replicas that `change` sets in the Scale of the workload, and answer with the new Scale.

    `uid` is a precondition.
    """
    scope, kind = write.scope, write.scope.kind
    versions = {kind.gvk(version).api_version for version in kind.versions}

    async def transform(workload: Obj | None) -> Obj:
        assert workload is not None  # update() has refused a missing one
        before = workload["metadata"].get("managedFields")
        live = scale_of(workload)
        live["metadata"]["managedFields"] = to_scale(before, versions)
        scale = await write.admit(change(live), live)
        _check(scope, scale, live)
        after = to_workload(before or [], scale["metadata"].get("managedFields"), scope.api_version, versions)
        fields = {**workload["metadata"], "managedFields": after}
        if scale["metadata"].get("resourceVersion"):
            fields["resourceVersion"] = scale["metadata"]["resourceVersion"]
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        return {**workload, "metadata": fields, "spec": {**deepcopy(workload["spec"]), "replicas": replicas}}

    async def validate(workload: Obj, old: Obj | None) -> None:
        await write.validate(scale_of(workload), None if old is None else scale_of(old))

    entry, _ = await write.state.registry.update(write.target(scope.name), transform, uid=uid, validate=validate)
    return scale_response(write.request, scope, scale_of(entry.object))


def _check(scope: RequestScope, scale: Obj, live: Obj) -> None:
    """Raise 422 for an invalid Scale, and 409 for one with another uid."""
    fields, replicas = scale["metadata"], (scale.get("spec") or {}).get("replicas", 0)
    field_errors = objectmeta.validate(fields, namespaced=True) + objectmeta.finalizer_names(fields)
    if replicas < 0:
        field_errors.append(invalid(Path("spec", "replicas"), replicas, "must be greater than or equal to 0"))
    if field_errors:
        raise errors.invalid("autoscaling", "Scale", scope.name, field_errors, scope.kind.release)
    uid = fields.get("uid")
    if uid and uid != live["metadata"]["uid"]:
        message = errors.uid_precondition_text(uid, live["metadata"]["uid"])
        raise errors.conflict(scope.kind.group, f"{scope.kind.resource}/scale", scope.name, message)
