"""Rights that parts of a claim's status need (KEP-4817): the scheduler binds claims, each driver reports its devices.

They are verbs of resources that do not exist otherwise: `resourceclaims/binding`, everywhere, for `allocation` and
`reservedFor`; `resourceclaims/driver`, by the driver's name, for `devices`.

Source: k8s.io/kubernetes/pkg/registry/resource/utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from understudy.kinds.common.equality import semantic_deep_equal
from understudy.kinds.context import Context
from understudy.machinery.auth.forbidden import forbidden as action_forbidden
from understudy.machinery.auth.users import ACCOUNT, User
from understudy.machinery.releases import features
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.field import Errors, Path, forbidden

NODE_NAME = "authentication.kubernetes.io/node-name"  # extra information of a token that is bound to a pod
ASSOCIATED, ARBITRARY = "associated-node:", "arbitrary-node:"  # in front of the verb
_ALLOCATION, _DEVICES = Path("status", "allocation"), Path("status", "devices")


def validate(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the user may write what changes in the status of a claim."""
    if not ctx.gates[features.DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION]:
        return []
    status, before = obj.get("status") or {}, old.get("status") or {}
    errors = _binding(status, before, ctx)
    if status.get("allocation") is not None:
        errors += _drivers(status, before, ctx)
    return errors


def _binding(status: Obj, before: Obj, ctx: Context) -> Errors:
    """Check the right to change the allocation and the consumers of a claim (`AuthorizedForBinding`)."""
    if all(semantic_deep_equal(status.get(field), before.get(field)) for field in ("allocation", "reservedFor")):
        return []
    verb = ctx.action.verb
    refusal = _refusal(verb, "binding", "", "", ctx)
    text = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{verb}" permission: {refusal}'
    )
    return [forbidden(_ALLOCATION, text)] if refusal else []


def _drivers(status: Obj, before: Obj, ctx: Context) -> Errors:
    """Check the right to report devices of each driver whose devices change (`AuthorizedForDeviceStatus`).

    A service account whose token is bound to a pod on the node of the allocation needs one of two verbs.
    """
    node = _node(status["allocation"])
    prefixes = (ASSOCIATED, ARBITRARY) if node and node == _node_of_account(ctx) else (ARBITRARY,)
    verbs = [prefix + ctx.action.verb for prefix in prefixes]
    errors: Errors = []
    for driver in sorted(_changed_drivers(status.get("devices") or (), before.get("devices") or ())):
        refusals = [_refusal(verb, "driver", ctx.action.namespace, driver, ctx) for verb in verbs]
        if all(refusals):
            text = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
            errors.append(forbidden(_DEVICES, f"{text} permission: {refusals[0]}"))
    return errors


def _refusal(verb: str, subresource: str, namespace: str, name: str, ctx: Context) -> str:
    """Return the reason that the user may not do something with claims, "" if it is allowed."""
    user = User.of_info(ctx.requester)
    question = replace(ctx.action, verb=verb, subresource=subresource, namespace=namespace, name=name)
    decision = ctx.authorizer.authorize(user, question)
    return "" if decision.allowed else action_forbidden(user, question, decision.refusal).message


def _changed_drivers(devices: Sequence[Obj], before: Sequence[Obj]) -> set[str]:
    """Return the drivers of devices that are new, changed or gone (`getModifiedDrivers`)."""
    new, old = ({_key(device): device for device in each} for each in (devices, before))
    changed = (key for key in {*new, *old} if not semantic_deep_equal(new.get(key), old.get(key)))
    return {key[0] for key in changed}


def _key(device: Obj) -> tuple[str, ...]:
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def _node(allocation: Obj) -> str:
    """Return the name of the only node that an allocation is for, "" for any other selector of nodes."""
    terms: Sequence[Obj] = nested_field(allocation, "nodeSelector", "nodeSelectorTerms", default=())
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields: Sequence[Obj] = terms[0].get("matchFields") or ()
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values: Sequence[str] = fields[0].get("values") or ()
    return values[0] if len(values) == 1 else ""


def _node_of_account(ctx: Context) -> str:
    """Return the node of the pod that a service account's token is bound to, "" for others."""
    user = User.of_info(ctx.requester)
    nodes = user.extra.get(NODE_NAME) or ()
    return nodes[0] if user.name.startswith(ACCOUNT) and len(nodes) == 1 else ""
