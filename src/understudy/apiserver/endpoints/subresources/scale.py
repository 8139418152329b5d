"""The scale subresource: how many replicas a workload wants and has, as autoscaling/v1 Scale.

A Scale is a view; writing one changes `spec.replicas` of the workload behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.admission.validation import objectmeta
from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.patchers import PATCHERS, Current
from understudy.apiserver.endpoints.handlers.write import Writer, check_name, check_namespace
from understudy.apiserver.endpoints.negotiation import APPLY_PATCH, patch_type
from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.responsewriters.writers import form_of, scale_reply
from understudy.apiserver.endpoints.scope import Api, Target
from understudy.apiserver.registry.encoded import bare
from understudy.machinery import errors
from understudy.machinery.options import write_options
from understudy.machinery.patch.apply import apply, managed_fields
from understudy.machinery.patch.apply.scale_handler import to_scale, to_workload
from understudy.machinery.types import GroupVersionKind, Obj
from understudy.machinery.validation.field import Path, invalid

STATUS = (("status",),)
GVK = GroupVersionKind("autoscaling", "v1", "Scale")
SCALE_GROUPS = {"deployments": "apps", "replicasets": "apps", "replicationcontrollers": "autoscaling"}  # in errors
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(workload: Obj) -> Obj:
    """The Scale of a deployment, replica set, stateful set or replication controller."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    replicas = spec.get("replicas", 0)
    have: Obj = {"replicas": status.get("replicas", 0)}
    if selector := _selector(spec.get("selector")):
        have["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": GVK.api_version,
        "metadata": {name: workload["metadata"][name] for name in _SHOWN if name in workload["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": have,
    }


def _selector(selector: Obj | None) -> str:
    """A label selector as text; a replication controller's is a plain map."""
    if not selector:
        return ""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        return ",".join(f"{key}={selector[key]}" for key in sorted(selector))
    terms = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    words = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    for expression in selector.get("matchExpressions") or []:
        values = ",".join(sorted(expression.get("values") or []))
        terms[expression["key"]] = words[expression["operator"]].format(key=expression["key"], values=values)
    return ",".join(terms[key] for key in sorted(terms))


async def get_scale(api: Api, call: Call, target: Target) -> Reply:
    """Whatever is wrong with a workload, most kinds say that its scale is missing; stateful sets say what it is."""
    kind = target.kind
    form_of(call, target)
    try:
        await api.registry.not_older(kind, call.query.get("resourceVersion"))
        entry = await api.registry.get(kind, target.namespace, target.name)
    except errors.StatusError:
        if kind.resource not in SCALE_GROUPS:
            raise
        raise errors.not_found(SCALE_GROUPS[kind.resource], f"{kind.resource}/scale", target.name) from None
    return scale_reply(call, target, scale_of(entry.object))


async def update_scale(api: Api, call: Call, target: Target) -> Reply:
    options = write_options(call.query, call.method, call.release)
    sent = request_body.read(call, api.schemas, GVK, options.field_validation)
    check_namespace(sent.obj, target)
    check_name(sent.obj, target)
    writer = Writer(api, call, target, options)
    uid = str(sent.obj["metadata"].get("uid", ""))
    return await _write(writer, lambda live: _owned(writer, live, {**live, **sent.obj}), uid)


async def patch_scale(api: Api, call: Call, target: Target) -> Reply:
    """The patch is read when there is a workload to apply it to: a missing one is told of first."""
    media = patch_type(call.headers)
    options = write_options(call.query, call.method, call.release, apply=media == APPLY_PATCH)
    writer = Writer(api, call, target, options)

    def change(live: Obj) -> Obj:
        scale = _applied(writer, live) if media == APPLY_PATCH else _patched(writer, media, live)
        check_namespace(scale, target)
        check_name(scale, target)
        return scale

    return await _write(writer, change)


def _patched(writer: Writer, media: str, live: Obj) -> Obj:
    current = Current(live, GVK, writer.api.schemas, writer.options.field_validation, writer.ctx)
    sent = PATCHERS[media](writer.call.body, current)
    return _owned(writer, live, {"kind": GVK.kind, "apiVersion": GVK.api_version, **bare(sent.obj)})


def _owned(writer: Writer, live: Obj, scale: Obj) -> Obj:
    """The Scale with its owners, as seen through it."""
    options = writer.options
    owners = managed_fields.update_managed_fields(
        live,
        scale,
        struct=writer.api.schemas.kind(*GVK),
        api_version=GVK.api_version,
        manager=managed_fields.manager_name(options.field_manager, writer.agent),
        subresource="scale",
        now=writer.ctx.now,
        reset=STATUS,
        convert=managed_fields.no_conversion,
    )
    return {**scale, "metadata": {**scale["metadata"], "managedFields": owners}}


def _applied(writer: Writer, live: Obj) -> Obj:
    patch = apply.parse(writer.call.body, writer.options.field_validation)
    scale = apply.apply(
        live,
        patch.obj,
        struct=writer.api.schemas.kind(*GVK),
        api_version=GVK.api_version,
        manager=writer.options.field_manager,
        force=bool(writer.options.force),
        subresource="scale",
        now=writer.ctx.now,
        reset=STATUS,
        convert=managed_fields.no_conversion,
        duplicates=patch.duplicates,
    )
    for text in patch.warnings:
        writer.ctx.warn(text)
    return scale


async def _write(writer: Writer, change: Callable[[Obj], Obj], uid: str = "") -> Reply:
    target, kind = writer.target, writer.target.kind
    versions = {kind.gvk(version).api_version for version in kind.versions}

    def transform(workload: Obj | None) -> Obj:
        assert workload is not None  # update() has refused a missing one
        before = workload["metadata"].get("managedFields")
        live = scale_of(workload)
        live["metadata"]["managedFields"] = to_scale(before, versions)
        scale = change(live)
        _check(target, scale, live)
        after = to_workload(before or [], scale["metadata"].get("managedFields"), target.api_version, versions)
        fields = {**workload["metadata"], "managedFields": after}
        if scale["metadata"].get("resourceVersion"):
            fields["resourceVersion"] = scale["metadata"]["resourceVersion"]
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        return {**workload, "metadata": fields, "spec": {**workload["spec"], "replicas": replicas}}

    entry, _ = await writer.api.registry.update(writer.write(target.name), transform, uid=uid)
    return scale_reply(writer.call, target, scale_of(entry.object))


def _check(target: Target, scale: Obj, live: Obj) -> None:
    """Raises 409 and 422."""
    fields, replicas = scale["metadata"], (scale.get("spec") or {}).get("replicas", 0)
    found = objectmeta.validate(fields, namespaced=True) + objectmeta.finalizer_names(fields)
    if replicas < 0:
        found.append(invalid(Path("spec", "replicas"), replicas, "must be greater than or equal to 0"))
    if found:
        raise errors.invalid("autoscaling", "Scale", target.name, found, target.kind.release)
    uid = fields.get("uid")
    if uid and uid != live["metadata"]["uid"]:
        why = errors.uid_precondition_text(uid, live["metadata"]["uid"])
        raise errors.conflict(target.kind.group, f"{target.kind.resource}/scale", target.name, why)
