"""Subresources with a body of their own: binding and eviction. `scale`, `tokenrequests` and `kubelet` have the others.

Those that are the object itself (status, finalize, ephemeralcontainers, approval) are written like the object, with
another strategy: see `Rules.subresources`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from understudy.admission.field import Errors, Path, not_supported, required
from understudy.apiserver import deletion, errors, kubelet, tokenrequests
from understudy.apiserver.api import Api, Target
from understudy.apiserver.call import Call, Reply
from understudy.apiserver.kind import Context, Kind, Subresource
from understudy.apiserver.options import DeleteOptions, WriteOptions, write_options
from understudy.apiserver.registry import Write
from understudy.apiserver.rendering import value_reply
from understudy.apiserver.scale import get_scale, patch_scale, update_scale
from understudy.apiserver.types import Obj
from understudy.apiserver.writes import read_part

Handler = Callable[[Api, Call, Target], Awaitable[Reply]]

CREATED: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
CONNECT = ("get", "create")
PROXY = "proxy"


# --- binding ----------------------------------------------------------------------------------------------------


async def bind(api: Api, call: Call, target: Target) -> Reply:
    """POST pods/NAME/binding: a node for a pod."""
    options = write_options(call)
    sent = read_part(api, call, target, options)
    if (sent["metadata"].get("name") or target.name) != target.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    return await assign(api, call, target, sent, options)


async def assign(api: Api, call: Call, target: Target, binding: Obj, options: WriteOptions) -> Reply:
    """Binds the pod that the binding names."""
    name = binding["metadata"].get("name") or target.name
    node = binding.get("target") or {}
    found = _binding_errors(node)
    if found:
        texts = [str(e) for e in found]
        raise errors.unknown_error(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
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
        status = _with_condition(pod, _true("PodScheduled", ctx.now))
        return {**pod, "metadata": fields, "spec": _with_node(pod["spec"], node["name"]), "status": status}

    ctx = api.context(call, target)
    await api.registry.modify(Write(pods, target.namespace, name, pods.rules.strategy, ctx, options.dry_run), transform)
    return value_reply(call, target, CREATED, 201)


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
        why = f"Precondition failed: UID in precondition: {binding['uid']}, UID in object meta: {fields['uid']}"
        raise errors.conflict("", "pods/binding", name, why)
    if "deletionTimestamp" in fields:
        raise errors.conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    assigned = pod["spec"].get("nodeName")
    if assigned:
        raise errors.conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        raise errors.conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _with_node(spec: Obj, node: str) -> Obj:
    """The spec with a node in its place among the fields."""
    out: Obj = {}
    for field, value in spec.items():
        if field == "securityContext" and "nodeName" not in out:
            out["nodeName"] = node
        out[field] = value
    out["nodeName"] = node
    return out


def _true(condition: str, now: str) -> Obj:
    return {"type": condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}


def _with_condition(pod: Obj, condition: Obj) -> Obj:
    """The status with a condition, in the place of one of the same type."""
    status = pod.get("status") or {}
    others = [c for c in status.get("conditions") or [] if c["type"] != condition["type"]]
    head = {"phase": status["phase"]} if "phase" in status else {}
    rest = {name: value for name, value in status.items() if name not in ("phase", "conditions")}
    return {**head, "conditions": [*others, condition], **rest}


# --- eviction ---------------------------------------------------------------------------------------------------


async def evict(api: Api, call: Call, target: Target) -> Reply:
    """POST pods/NAME/eviction: deletes a pod if its disruption budgets allow that."""
    options = write_options(call)
    sent = read_part(api, call, target, options)
    if sent["metadata"].get("name") != target.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    entry = await api.registry.get(target.kind, target.namespace, target.name)
    delete = _delete_options(sent.get("deleteOptions") or {}, options.dry_run)
    if not _needs_no_budget(entry.object):
        await _take_disruption(api, call, target, entry.object, delete.dry_run)
    await _delete_evicted(api, target, api.context(call, target), delete)
    return value_reply(call, target, CREATED, 201)


async def _delete_evicted(api: Api, target: Target, ctx: Context, options: DeleteOptions) -> None:
    """Notes in the pod why it goes, and deletes it. Raises 409 for preconditions that it does not meet."""
    deleting = deletion.Deletion(api, target.kind, ctx)

    def transform(pod: Obj | None) -> Obj:
        assert pod is not None  # modify() has refused a missing one
        deleting.check_preconditions(pod, options)
        return {**pod, "status": _with_condition(pod, _evicted(ctx))}

    if not options.dry_run:
        write = Write(target.kind, target.namespace, target.name, target.rules.strategy, ctx)
        noted = await api.registry.modify(write, transform)
        if options.version is not None:
            options.version = str(noted.revision)
    await deleting.run(target.namespace, target.name, options)


def _evicted(ctx: Context) -> Obj:
    return {
        **_true("DisruptionTarget", ctx.now),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


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


async def _take_disruption(api: Api, call: Call, target: Target, pod: Obj, dry_run: bool) -> None:
    """Uses up one disruption of the budget that covers the pod. Raises 429 and 500."""
    budgets = api.release.kind("policy", "PodDisruptionBudget")
    if budgets is None:
        return
    covering = [b for b in await api.registry.all(budgets, target.namespace) if _covers(b.object, pod)]
    if not covering:
        return
    if len(covering) > 1:
        raise errors.unknown_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if _is_no_loss(pod, covering[0].object):
        return
    name = covering[0].object["metadata"]["name"]
    ctx = api.context(call, target)

    def transform(budget: Obj | None) -> Obj:
        assert budget is not None
        return _disrupted(budget, pod["metadata"]["name"], ctx.now)

    await api.registry.modify(Write(budgets, target.namespace, name, budgets.rules.strategy, ctx, dry_run), transform)


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
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    labels = pod["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(labels, expression) for expression in selector.get("matchExpressions") or [])


def _meets(labels: Obj, expression: Obj) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


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


HANDLERS: dict[tuple[str, str], dict[str, Handler]] = {
    ("pods", "binding"): {"create": bind},
    ("pods", "eviction"): {"create": evict},
    ("pods", "log"): {"get": kubelet.log},
    ("serviceaccounts", "token"): {"create": tokenrequests.create},
    ("pods", "portforward"): dict.fromkeys(CONNECT, kubelet.forward),
    **{("pods", name): dict.fromkeys(CONNECT, kubelet.run) for name in ("attach", "exec")},
}
SCALE: dict[str, Handler] = {"get": get_scale, "update": update_scale, "patch": patch_scale}


def handler(kind: Kind, subresource: Subresource, verb: str) -> Handler | None:
    """For a verb of a subresource; None: it is not allowed."""
    if subresource.name == PROXY:
        return kubelet.proxy
    if verb not in subresource.verbs:
        return None
    if subresource.name == "scale":
        return SCALE[verb]
    return HANDLERS.get((kind.resource, subresource.name), {}).get(verb, _unsupported)


async def _unsupported(api: Api, call: Call, target: Target) -> Reply:
    what = f"{target.kind.resource}/{target.subresource}"
    raise errors.StatusError(501, "NotImplemented", f"understudy does not support {what}", {})
