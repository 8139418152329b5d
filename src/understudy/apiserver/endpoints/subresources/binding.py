"""Bindings, which assign a pod to a node: those of a pod and those that name one.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage.
"""

from __future__ import annotations

from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.write import read_part
from understudy.apiserver.endpoints.request import Call, Reply
from understudy.apiserver.endpoints.responsewriters.writers import created_reply
from understudy.apiserver.endpoints.scope import Api, Target
from understudy.apiserver.endpoints.subresources.pod_conditions import with_condition
from understudy.apiserver.registry.rest import Write
from understudy.machinery import errors
from understudy.machinery.golang.text import aggregate
from understudy.machinery.options import WriteOptions, write_options
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, not_supported, required


async def create(api: Api, call: Call, target: Target) -> Reply:
    """POST bindings: the pod that the body names."""
    options = write_options(call.query, call.method, call.release)
    binding = request_body.read_object(call, api.schemas, target.kind, target.version, options.field_validation)
    api.registry.admit_namespace(target.kind, target.namespace, binding["metadata"])
    return await _assign(api, call, target, binding, options)


async def of_pod(api: Api, call: Call, target: Target) -> Reply:
    """POST pods/NAME/binding: a node for a pod."""
    options = write_options(call.query, call.method, call.release)
    sent = read_part(api, call, target, options)
    if (sent["metadata"].get("name") or target.name) != target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    return await _assign(api, call, target, sent, options)


async def _assign(api: Api, call: Call, target: Target, binding: Obj, options: WriteOptions) -> Reply:
    """Binds the pod that the binding names."""
    name = binding["metadata"].get("name") or target.name
    node = binding.get("target") or {}
    if found := _binding_errors(node):
        raise errors.unknown_error(aggregate([error.text(target.kind.release) for error in found]))
    if not name:
        raise errors.bad_request("Name parameter required.")
    pods = api.release.kind("", "Pod")
    assert pods is not None
    notes = binding["metadata"].get("annotations") or {}
    labels = binding["metadata"].get("labels") or {}
    sent = binding["metadata"]

    def transform(pod: Obj | None) -> Obj:
        assert pod is not None
        _check_bindable(pod, sent, name)
        fields = dict(pod["metadata"])
        if notes:
            fields["annotations"] = {**(fields.get("annotations") or {}), **notes}
        if labels:
            fields["labels"] = {**(fields.get("labels") or {}), **labels}
        spec, status = {**pod["spec"], "nodeName": node["name"]}, with_condition(pod, "PodScheduled", ctx.now)
        return {**pod, "metadata": fields, "spec": spec, "status": status}

    ctx = api.context(call, target)
    await api.registry.modify(Write(pods, target.namespace, name, pods.rules.strategy, ctx, options.dry_run), transform)
    return created_reply(call, target)


def _binding_errors(node: Obj) -> Errors:
    path = Path("target")
    found: Errors = []
    if node.get("kind") not in (None, "", "Node"):
        found.append(not_supported(path.child("kind"), node["kind"], ["Node", "<empty>"]))
    if not node.get("name"):
        found.append(required(path.child("name")))
    return found


def _check_bindable(pod: Obj, binding: Obj, name: str) -> None:
    """Raises 409."""
    fields = pod["metadata"]
    if binding.get("uid") and binding["uid"] != fields["uid"]:
        raise errors.conflict("", "pods/binding", name, errors.uid_precondition_text(binding["uid"], fields["uid"]))
    if "deletionTimestamp" in fields:
        raise errors.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    assigned = pod["spec"].get("nodeName")
    if assigned:
        raise errors.conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        raise errors.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
