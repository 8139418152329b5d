"""POST pods/NAME/eviction: delete a pod if its disruption budget allows it.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from understudy.apiserver.endpoints.handlers.create import read_part
from understudy.apiserver.endpoints.request import Request, Response
from understudy.apiserver.endpoints.responsewriters.writers import created_response, form_of
from understudy.apiserver.endpoints.scope import RequestScope
from understudy.apiserver.endpoints.server_state import ServerState
from understudy.apiserver.endpoints.subresources.pod_conditions import with_pod_condition
from understudy.apiserver.registry.delete import Deletion
from understudy.apiserver.registry.rest import WriteTarget
from understudy.apiserver.storage.interface import Entry
from understudy.kinds.common.label_selectors import matches
from understudy.kinds.context import Context
from understudy.machinery import errors
from understudy.machinery.options import (
    UNSAFE_DELETE,
    DeleteOptions,
    read_delete_options,
    validated_delete_options,
    write_options,
)
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path, invalid

MAX_DISRUPTED_PODS = 2000  # those that a budget's controller has not seen go
WHY = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}


async def evict(state: ServerState, request: Request, scope: RequestScope) -> Response:
    """Evict a pod. Raises 400, 403, 404, 406, 409, 422, 429, 500."""
    form_of(request, scope)
    written = write_options(request.query, request.method, request.release)
    sent = await read_part(state, request, scope, written, lambda sent: _delete_options(sent, request, scope.name))
    options = _delete_options(sent, request, scope.name)
    entry = await state.registry.get(scope.kind, scope.namespace, scope.name)
    budget = None
    if not _needs_no_budget(entry.object):
        budget = await _take_disruption(state, request, scope, entry.object, bool(options.dry_run))
    ctx = state.context(request, scope)
    if budget is None:
        await _delete_evicted(state, scope, ctx, options)
    else:
        await _delete_unready(state, scope, ctx, options, entry, budget)
    return created_response(request, scope)


async def _delete_unready(
    state: ServerState, scope: RequestScope, ctx: Context, options: DeleteOptions, entry: Entry, budget: str
) -> None:
    """Delete a pod that may go because it is not ready, unless it has changed since.

    The version that was looked at replaces the client's own precondition. Raises 409, and 429 in place of a 409 if the
    client had none.
    """
    try:
        await _delete_evicted(state, scope, ctx, replace(options, version=str(entry.revision)))
    except errors.StatusError as error:
        if error.code != 409 or options.version is not None:
            raise
        raise _being_processed(budget) from None


async def _delete_evicted(state: ServerState, scope: RequestScope, ctx: Context, options: DeleteOptions) -> None:
    """Note in the pod why it goes, and delete it (upstream: `addConditionAndDeletePod`). Raises 409 and 422.

    Options are validated only after the note, where empty preconditions count for nothing.
    """
    deletion = Deletion(state.registry, scope.kind, ctx)
    noticed = replace(options, uid=options.uid or None, version=options.version or None)

    def note(pod: Obj) -> Obj:
        deletion.check_preconditions(pod, noticed)
        return {**pod, "status": with_pod_condition(pod, "DisruptionTarget", ctx.now, **WHY)}

    if not options.dry_run:
        write = WriteTarget(scope.kind, scope.namespace, scope.name, scope.behavior.strategy, ctx)
        noted = await state.registry.modify(write, note)
        if options.version is not None:
            options = replace(options, version=str(noted.revision))
    await deletion.run(scope.namespace, scope.name, validated_delete_options(options, state.release.version))


def _delete_options(eviction: Obj, request: Request, name: str) -> DeleteOptions:
    """Return the options of the eviction of a pod, with the `dryRun` of the query (upstream: `propagateDryRun`).

    Raises 400 for the eviction of another pod, 422 for an option that pods must not be evicted with, and 500 for
    another `dryRun` in the query.
    """
    if eviction["metadata"].get("name") != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    sent = eviction.get("deleteOptions") or {}
    if sent.get(UNSAFE_DELETE):
        text = "can not be set for pod eviction, try after removing the option"
        raise errors.invalid(
            "policy", "Eviction", name, [invalid(Path("deleteOptions", UNSAFE_DELETE), True, text)], request.release
        )
    options, dry_run = read_delete_options(sent), request.query.all("dryRun")
    if options.dry_run and dry_run and options.dry_run != dry_run:
        both = f"[{' '.join(dry_run)}] and [{' '.join(options.dry_run)}]"
        raise errors.unknown_error(f"Non-matching dry-run options in request and content: {both}")
    return replace(options, dry_run=options.dry_run or dry_run)


def _needs_no_budget(pod: Obj) -> bool:
    """Report whether a pod has ended, is pending or goes already (upstream: `canIgnorePDB`)."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


async def _take_disruption(
    state: ServerState, request: Request, scope: RequestScope, pod: Obj, dry_run: bool
) -> str | None:
    """Use up one disruption of the budget that covers the pod, if it needs one. Raises 429 and 500.

    Returns the budget's name if it needs none because it is not ready.
    """
    budgets = state.release.kind("policy", "PodDisruptionBudget")
    if budgets is None:
        return None
    covering = [b for b in await state.registry.all(budgets, scope.namespace) if _covers(b.object, pod)]
    if not covering:
        return None
    if len(covering) > 1:
        raise errors.unknown_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    name = str(covering[0].object["metadata"]["name"])
    if _is_no_loss(pod, covering[0].object):
        return name
    ctx = state.context(request, scope)

    def disrupt(budget: Obj) -> Obj:
        return _disrupted(budget, pod["metadata"]["name"], ctx.now, ctx.release)

    await state.registry.modify(
        WriteTarget(budgets, scope.namespace, name, budgets.behavior.strategy, ctx, dry_run), disrupt
    )
    return None


def _is_no_loss(pod: Obj, budget: Obj) -> bool:
    """Report whether a pod is not ready and may go without being counted: always, or while enough are healthy."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
        return False
    status = budget.get("status") or {}
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return bool(0 < desired <= healthy)


def _covers(budget: Obj, pod: Obj) -> bool:
    """Report whether the selector of a budget matches a pod."""
    return matches(budget["spec"].get("selector"), pod["metadata"].get("labels") or {})


def _condition(status: Obj) -> Obj:
    """Return the condition `DisruptionAllowed` of a budget, {} if it has none."""
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == "DisruptionAllowed"), {})


def _counts(status: Obj) -> str:
    """Return the numbers of pods that a budget needs and has, as a sentence."""
    needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return f"needs {needs} healthy pods and has {has} currently"


def _reason(status: Obj) -> str:
    """Return the reason that a budget allows no disruption: its numbers, or that it failed to sync."""
    condition, refusal = _condition(status), "does not allow evicting pods currently"
    message = condition.get("message") if condition.get("status") == "False" else ""
    if message and condition.get("reason") == "SyncFailed":
        return f"{refusal} because it failed sync: {message}"
    if status.get("currentHealthy", 0) <= status.get("desiredHealthy", 0):
        return _counts(status)
    return f"{refusal} ({condition.get('reason', '')}): {message}" if message else refusal


_REASON: ByRelease[Callable[[Obj], str]] = ByRelease({V1_35: _reason, V1_31: _counts})


def _disrupted(budget: Obj, pod: str, now: str, version: Version) -> Obj:
    """Return the budget with one disruption less. Raises 403 and 429."""
    status = budget.get("status") or {}
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _being_processed(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden("policy", "poddisruptionbudget", name, text)
    if allowed == 0:
        raise _violation(f"The disruption budget {name} {_REASON[version](status)}", 0)
    disrupted = {**(status.get("disruptedPods") or {}), pod: now}
    status = {**status, "disruptedPods": disrupted, "disruptionsAllowed": allowed - 1}
    return {**budget, "status": _with_condition(status, now) if allowed == 1 else status}


def _with_condition(status: Obj, now: str) -> Obj:
    """Return the status of a budget that allows no more disruptions (upstream: `UpdateDisruptionAllowedCondition`)."""
    conditions = status.get("conditions") or []
    before = _condition(status)
    condition = {
        **before,
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": before["lastTransitionTime"] if before.get("status") == "False" else now,
        "reason": "InsufficientPods",
        "message": "",
    }
    kept = [condition if c is before else c for c in conditions]
    return {**status, "conditions": kept if before else [*kept, condition]}


def _being_processed(budget: str) -> errors.StatusError:
    """Return the 429 for a budget or a pod that has just changed (upstream: `createTooManyRequestsError`)."""
    return _violation(f"The disruption budget {budget} is still being processed by the server.", 10)


def _violation(cause: str, retry_after: int) -> errors.StatusError:
    """Return the 429 for a pod that its budget protects; `retry_after` in seconds, 0 for no hint."""
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return errors.too_many_requests(message, retry_after, [{"reason": "DisruptionBudget", "message": cause}])
