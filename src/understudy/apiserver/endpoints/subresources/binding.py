"""Bindings, which assign a pod to a node: those of a pod and those that name one.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage.
"""

from __future__ import annotations

from functools import partial

from understudy.apiserver.endpoints.handlers import request_body
from understudy.apiserver.endpoints.handlers.create import read_part
from understudy.apiserver.endpoints.handlers.write_request import WriteRequest
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import created_response, form_of
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources.pod_conditions import with_pod_condition
from understudy.apiserver.registry.rest import WriteTarget
from understudy.kinds.common.formats import invalid_texts
from understudy.machinery import errors
from understudy.machinery.golang.text import aggregate
from understudy.machinery.options import WriteOptions, write_options
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, not_supported, required
from understudy.machinery.validation.names import subdomain_name


async def create(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer POST bindings: assign the pod that the body names to a node. Raises 400, 403, 404, 406, 409, 500."""
    form_of(request, scope)
    options = write_options(request.query, request.method, request.release)
    write = WriteRequest(state, request, scope, options)

    def read() -> Obj:
        binding = request_body.read_object(request, scope.codec, options.field_validation)
        write.audit(binding)
        return binding

    binding = await write.admit_new_part(read, partial(_check_target, request))
    return await _assign(state, request, scope, binding, options)


async def of_pod(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Answer POST pods/NAME/binding: assign a pod to a node. Raises 400, 403, 404, 406, 409, 500.

    Upstream: `BindingREST.Create`.
    """
    form_of(request, scope)
    options = write_options(request.query, request.method, request.release)

    def check(binding: Obj) -> None:
        if binding["metadata"].get("name") != scope.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        _check_target(request, binding)

    sent = await read_part(state, request, scope, options, check)
    return await _assign(state, request, scope, sent, options)


async def _assign(
    state: ServerState, request: Request, scope: RequestScope, binding: Obj, options: WriteOptions
) -> Response:
    """Assign the pod that a binding names to its node (`assignPod`)."""
    name = binding["metadata"].get("name", "")
    node = binding.get("target") or {}
    if not name:
        raise errors.bad_request("Name parameter required.")
    pods = state.release.kind("", "Pod")
    assert pods is not None
    annotations = binding["metadata"].get("annotations") or {}
    labels = binding["metadata"].get("labels") or {}
    sent = binding["metadata"]

    def bind(pod: Obj) -> Obj:
        _check_bindable(pod, sent, name)
        fields = dict(pod["metadata"])
        if annotations:
            fields["annotations"] = {**(fields.get("annotations") or {}), **annotations}
        if labels and ctx.gates[features.POD_TOPOLOGY_LABELS_ADMISSION]:
            fields["labels"] = {**(fields.get("labels") or {}), **labels}
        spec, status = {**pod["spec"], "nodeName": node["name"]}, with_pod_condition(pod, "PodScheduled", ctx.now)
        if ctx.gates[features.CLEARING_NOMINATED_NODE_NAME_AFTER_BINDING]:
            status = {name: value for name, value in status.items() if name != "nominatedNodeName"}
        return {**pod, "metadata": fields, "spec": spec, "status": status}

    ctx = state.context(request, scope)
    await state.registry.modify(
        WriteTarget(pods, scope.namespace, name, pods.behavior.strategy, ctx, options.dry_run), bind
    )
    return created_response(request, scope)


def _check_target(request: Request, binding: Obj) -> None:
    """Raise 500 for a binding to what is no node (`ValidatePodBinding`)."""
    if field_errors := _binding_errors(binding.get("target") or {}, request.release):
        raise errors.unknown_error(aggregate([error.text(request.release) for error in field_errors]))


def _binding_errors(node: Obj, version: Version) -> Errors:
    """Find errors in the target of a binding."""
    path = Path("target")
    field_errors: Errors = []
    if node.get("kind") not in (None, "", "Node"):
        field_errors.append(not_supported(path.child("kind"), node["kind"], ["Node", "<empty>"]))
    if not node.get("name"):
        field_errors.append(required(path.child("name")))
    elif not field_errors and version >= V1_37:
        field_errors += invalid_texts(subdomain_name(node["name"], False), node["name"], path.child("name"))
    return field_errors


def _check_bindable(pod: Obj, binding: Obj, name: str) -> None:
    """Raise 409 for a pod that is assigned, deleted, gated, or not the one that the binding names."""
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
