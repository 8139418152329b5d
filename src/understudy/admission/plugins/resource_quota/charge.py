"""ResourceQuota: whether a namespace's quotas leave room for an object, and what they are charged for it.

The server itself only ever adds to `status.used`. To count afresh and to give back is up to a controller; a quota whose
status says nothing about a resource limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from understudy.admission.context import Context
from understudy.admission.plugins.resource_quota.amounts import Amounts, added, masked, parsed
from understudy.admission.plugins.resource_quota.usage import ScopeError, Usage
from understudy.machinery import errors
from understudy.machinery.quantity import canonical_text, parse
from understudy.machinery.types import Obj

_ZERO = parse("0")


@dataclass(frozen=True, slots=True)
class Request:
    """An object to be charged for; `old` is what it was, None for a new one."""

    group: str
    resource: str
    usage: Usage
    obj: Obj
    old: Obj | None
    ctx: Context

    def refused(self, why: str) -> errors.StatusError:
        return errors.admission_forbidden(self.group, self.resource, self.obj["metadata"], why)


def charges(quotas: Iterable[Obj], request: Request) -> dict[str, Obj]:
    """What becomes of `status.used`, by the name of the quota; those that stay are left out.

    Raises 403, and 500 for a quota whose scopes make no sense.
    """
    concerned = [quota for quota in quotas if _concerns(quota, request)]
    for quota in concerned:
        _check_known(quota, request)
    more = _more(request) if concerned else {}
    charged = {quota["metadata"]["name"]: _charged(quota, more, request) for quota in concerned} if more else {}
    return {name: used for name, used in charged.items() if used is not None}


def _hard(quota: Obj) -> dict[str, str]:
    return (quota.get("status") or {}).get("hard") or {}


def _used(quota: Obj) -> dict[str, str]:
    return (quota.get("status") or {}).get("used") or {}


def _concerns(quota: Obj, request: Request) -> bool:
    """Whether it has a resource that counts the kind, and the object is in all of its scopes."""
    spec = quota["spec"]
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or []]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    try:
        inside = [request.usage.in_scope(scope, request.obj) for scope in scopes]
    except ScopeError as why:
        name = quota["metadata"]["name"]
        raise errors.unknown_error(f"error matching scopes of quota {name}, err: {why}") from None
    return all(inside) and any(map(request.usage.counts, _hard(quota)))


def _check_known(quota: Obj, request: Request) -> None:
    """Raises 403 for an object that leaves open what it uses, and for a quota of which nobody knows what is used."""
    name, resources = quota["metadata"]["name"], sorted(filter(request.usage.counts, _hard(quota)))
    missing = request.usage.missing(request.obj, resources, request.ctx)
    if missing:
        raise request.refused(f"failed quota: {name}: {missing}")
    if not _used(quota).keys() >= set(resources):
        raise request.refused(f"status unknown for quota: {name}, resources: {','.join(resources)}")


def _more(request: Request) -> Amounts:
    """What the object uses more than before."""
    used = request.usage.measure(request.obj, request.ctx)
    if request.old is not None:
        before = request.usage.measure(request.old, request.ctx)
        used = {name: amount - before.get(name, _ZERO) for name, amount in used.items()}
    return {name: amount for name, amount in used.items() if amount > 0}


def _charged(quota: Obj, more: Amounts, request: Request) -> Obj | None:
    hard, used = parsed(_hard(quota)), parsed(_used(quota))
    requested = masked(more, hard)
    total = added(used, requested)
    exceeded = sorted(name for name in requested if total[name] > hard[name])
    if exceeded:
        shown = (",".join(f"{name}={amounts[name]}" for name in exceeded) for amounts in (requested, used, hard))
        texts = (f"{what}: {text}" for what, text in zip(("requested", "used", "limited"), shown, strict=True))
        raise request.refused(f"exceeded quota: {quota['metadata']['name']}, {', '.join(texts)}")
    return {name: canonical_text(str(amount)) for name, amount in sorted(total.items())} if requested else None
