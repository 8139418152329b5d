"""POST pods/NAME/eviction: deletes a pod if its disruption budgets allow that.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.label_selectors import matches
from understudy.apiserver.endpoints.handlers.create import read_part
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import created_response
from understudy.apiserver.endpoints.scope import RequestScope, ServerState
from understudy.apiserver.endpoints.subresources.pod_conditions import with_pod_condition
from understudy.apiserver.registry.delete import Deletion
from understudy.apiserver.registry.rest import WriteTarget
from understudy.machinery import errors
from understudy.machinery.options import DeleteOptions, write_options
from understudy.machinery.types import Obj

WHY = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}


async def evict(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Raises 400, 403, 404, 409, 429, 500."""
    options = write_options(request.query, request.method, request.release)
    sent = await read_part(state, request, scope, options)
    if sent["metadata"].get("name") != scope.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    entry = await state.registry.get(scope.kind, scope.namespace, scope.name)
    delete = _delete_options(sent.get("deleteOptions") or {}, options.dry_run)
    if not _needs_no_budget(entry.object):
        await _take_disruption(state, request, scope, entry.object, delete.dry_run)
    await _delete_evicted(state, scope, state.context(request, scope), delete)
    return created_response(request, scope)


async def _delete_evicted(state: ServerState, scope: RequestScope, ctx: Context, options: DeleteOptions) -> None:
    """Notes in the pod why it goes, and deletes it. Raises 409 for preconditions that it does not meet."""
    deletion = Deletion(state.registry, scope.kind, ctx)

    def note(pod: Obj) -> Obj:
        deletion.check_preconditions(pod, options)
        return {**pod, "status": with_pod_condition(pod, "DisruptionTarget", ctx.now, **WHY)}

    if not options.dry_run:
        write = WriteTarget(scope.kind, scope.namespace, scope.name, scope.behavior.strategy, ctx)
        noted = await state.registry.modify(write, note)
        if options.version is not None:
            options.version = str(noted.revision)
    await deletion.run(scope.namespace, scope.name, options)


def _delete_options(sent: Obj, dry_run: bool) -> DeleteOptions:
    preconditions = sent.get("preconditions") or {}
    return DeleteOptions(
        grace_period=sent.get("gracePeriodSeconds"),
        dry_run=dry_run or bool(sent.get("dryRun")),
        propagation=sent.get("propagationPolicy"),
        uid=preconditions.get("uid"),
        version=preconditions.get("resourceVersion"),
    )


def _needs_no_budget(pod: Obj) -> bool:
    """Pods that have ended, wait for a node or go already are no loss to anyone."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


async def _take_disruption(state: ServerState, request: Request, scope: RequestScope, pod: Obj, dry_run: bool) -> None:
    """Uses up one disruption of the budget that covers the pod. Raises 429 and 500."""
    budgets = state.release.kind("policy", "PodDisruptionBudget")
    if budgets is None:
        return
    covering = [b for b in await state.registry.all(budgets, scope.namespace) if _covers(b.object, pod)]
    if not covering:
        return
    if len(covering) > 1:
        raise errors.unknown_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if _is_no_loss(pod, covering[0].object):
        return
    name = covering[0].object["metadata"]["name"]
    ctx = state.context(request, scope)

    def disrupt(budget: Obj) -> Obj:
        return _disrupted(budget, pod["metadata"]["name"], ctx.now)

    await state.registry.modify(
        WriteTarget(budgets, scope.namespace, name, budgets.behavior.strategy, ctx, dry_run), disrupt
    )


def _is_no_loss(pod: Obj, budget: Obj) -> bool:
    """Whether a pod that is not ready may go without being counted: always, or while enough others are healthy."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    status = budget.get("status") or {}
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    wanted, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return bool(0 < wanted <= healthy)


def _covers(budget: Obj, pod: Obj) -> bool:
    return matches(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})


def _disrupted(budget: Obj, pod: str, now: str) -> Obj:
    """The budget with one disruption less. Raises 429."""
    status = budget.get("status") or {}
    name = budget["metadata"]["name"]
    said = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} is still being processed by the server.",
        }
        raise errors.too_many_requests(said, 10, [cause])
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} needs {needs} healthy pods and has {has} currently",
        }
        raise errors.too_many_requests(said, 0, [cause])
    disrupted = {**(status.get("disruptedPods") or {}), pod: now}
    return {**budget, "status": {**status, "disruptedPods": disrupted, "disruptionsAllowed": allowed - 1}}
