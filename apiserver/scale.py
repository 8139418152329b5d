"""The scale subresource: how many replicas a workload wants and has, as autoscaling/v1 Scale.

A Scale is a view; writing one changes `spec.replicas` of the workload behind it.
"""

from __future__ import annotations

from understudy.admission.field import Path, invalid
from understudy.apiserver import bodies, errors
from understudy.apiserver.api import Api, Target
from understudy.apiserver.call import Call, Reply
from understudy.apiserver.negotiation import APPLY_PATCH, patch_type
from understudy.apiserver.options import WriteOptions, write_options
from understudy.apiserver.patch import apply
from understudy.apiserver.patching import PATCHERS
from understudy.apiserver.registry import Write
from understudy.apiserver.rendering import value_reply
from understudy.apiserver.types import GroupVersionKind, Obj

GVK = GroupVersionKind("autoscaling", "v1", "Scale")
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
    entry = await api.registry.get(target.kind, target.namespace, target.name)
    return value_reply(call, scale_of(entry.object))


async def update_scale(api: Api, call: Call, target: Target) -> Reply:
    options = write_options(call)
    sent = bodies.read(call, api.schemas, GVK, "autoscaling.Scale", options.field_validation)
    return await _write(api, call, target, options, lambda live: sent.obj)


async def patch_scale(api: Api, call: Call, target: Target) -> Reply:
    media = patch_type(call.headers.get("Content-Type", ""), has_body=bool(call.body))
    options = write_options(call, apply=media == APPLY_PATCH)
    struct = api.schemas.kind(*GVK)
    ctx = api.context(call, target)
    if media == APPLY_PATCH:
        patch = apply.parse(call.body, options.field_validation).obj
        return await _write(api, call, target, options, lambda live: {**live, "spec": patch.get("spec") or {}})
    patched = PATCHERS[media](call.body, options.field_validation)
    return await _write(api, call, target, options, lambda live: patched(live, struct, options.field_validation, ctx))


async def _write(api: Api, call: Call, target: Target, options: WriteOptions, change: object) -> Reply:
    assert callable(change)
    kind, ctx = target.kind, api.context(call, target)

    def transform(workload: Obj | None) -> Obj:
        assert workload is not None
        live = scale_of(workload)
        scale: Obj = change(live)
        _check(target, scale, live)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        fields = dict(workload["metadata"])
        if scale["metadata"].get("resourceVersion"):
            fields["resourceVersion"] = scale["metadata"]["resourceVersion"]
        return {**workload, "metadata": fields, "spec": {**workload["spec"], "replicas": replicas}}

    write = Write(kind, target.namespace, target.name, kind.rules.strategy, ctx, options.dry_run)
    entry, _ = await api.registry.update(write, transform)
    return value_reply(call, scale_of(entry.object))


def _check(target: Target, scale: Obj, live: Obj) -> None:
    """Raises 400, 409, 422."""
    name = scale["metadata"].get("name") or target.name
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    uid = scale["metadata"].get("uid")
    if uid and uid != live["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}"
        raise errors.conflict(target.kind.group, target.kind.resource, target.name, why)
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        found = [invalid(Path("spec", "replicas"), replicas, "must be greater than or equal to 0")]
        raise errors.invalid("autoscaling", "Scale", target.name, found)
