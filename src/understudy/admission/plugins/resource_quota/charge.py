"""Charge an object to resource quotas: check that there is room, and compute the new `status.used`.

The server only ever adds to `status.used`. A controller counts afresh and gives back; a quota whose status does not
mention a resource does not limit it.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.admission.chain import Point
from understudy.admission.plugins.resource_quota.evaluator import ScopeError, Usage
from understudy.admission.plugins.resource_quota.limited import LimitedResource, go_text
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import Amounts, added, masked, parsed
from understudy.machinery import errors
from understudy.machinery.quantity import canonical_text, parse
from understudy.machinery.releases.version import V1_33
from understudy.machinery.types import Obj, dataclass

_ZERO = parse("0")


@dataclass(frozen=True, slots=True)
class Request:
    """An object to be charged to quotas; `old` is the stored object, None for a new one."""

    point: Point
    usage: Usage
    obj: Obj
    old: Obj | None
    ctx: Context

    def refused(self, why: str) -> errors.StatusError:
        """Return a 403 for the object."""
        return errors.admission_forbidden(self.point.group, self.point.resource, self.obj["metadata"], why)


def charges(quotas: Sequence[Obj], request: Request, limited: Sequence[LimitedResource] = ()) -> dict[str, Obj]:
    """Return the new `status.used` by the name of the quota, for the quotas that change.

    limited  what must be covered by a quota

    Raises 403, and 500 for a quota with a scope that cannot be evaluated.
    """
    try:
        scopes = _in_scopes(limited, request)
    except ScopeError:
        return {}  # as kube-apiserver, which logs it
    concerned = [quota for quota in quotas if _concerns(quota, request)]
    for quota in concerned:
        _check_known(quota, request)
    if not concerned and not limited:
        return {}
    used = request.usage.measure(request.obj, request.ctx)
    increase = _increase(used, request)
    if increase or any(not _counted_before(quota, request) for quota in concerned):
        _check_covered(quotas, concerned, limited, scopes, used, request)
    charged = {}
    for quota in concerned:
        more = increase if _counted_before(quota, request) else _positive(used)
        charged[quota["metadata"]["name"]] = _charged(quota, more, request)
    return {name: used for name, used in charged.items() if used is not None}


def _in_scopes(limited: Sequence[LimitedResource], request: Request) -> list[Obj]:
    """Return the limited scopes that the object is in, of whatever resource. Raises ScopeError."""
    return [scope for resource in limited for scope in resource.scopes if request.usage.in_scope(scope, request.obj)]


def _check_covered(
    quotas: Sequence[Obj],
    concerned: Sequence[Obj],
    limited: Sequence[LimitedResource],
    scopes: Sequence[Obj],
    used: Amounts,
    request: Request,
) -> None:
    """Raise 403 for a limited resource, and 500 for a limited scope, that no quota covers."""
    own = [each for each in limited if (each.group, each.resource) == request.point[1:3]]
    covered = {name for quota in concerned for name in _counted(quota, request)}
    names = {name for name in _positive(used) if any(each.names(name) for each in own)}
    if missing := sorted(names - covered):
        raise request.refused(f"insufficient quota to consume: {','.join(missing)}")
    inside = {
        scope["scopeName"]
        for quota in quotas
        for scope in _scopes(quota)
        if scopes and request.usage.in_scope(scope, request.obj)
    }
    if uncovered := [go_text(scope) for scope in scopes if scope["scopeName"] not in inside]:
        raise errors.unknown_error(f"insufficient quota to match these scopes: [{' '.join(uncovered)}]")


def _scopes(quota: Obj) -> list[Obj]:
    """Return the scopes of a quota as selectors."""
    spec = quota["spec"]
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or []]
    return scopes + ((spec.get("scopeSelector") or {}).get("matchExpressions") or [])


def _hard(quota: Obj) -> dict[str, str]:
    return (quota.get("status") or {}).get("hard") or {}


def _used(quota: Obj) -> dict[str, str]:
    return (quota.get("status") or {}).get("used") or {}


def _counted(quota: Obj, request: Request) -> list[str]:
    """Return the resources of a quota that count the object's kind, sorted."""
    return sorted(name for name in _hard(quota) if request.usage.counts(name, request.ctx))


def _concerns(quota: Obj, request: Request) -> bool:
    """Report whether a quota limits a resource of the object's kind, and the object is in all of its scopes."""
    return _matches(quota, request.obj, request)


def _matches(quota: Obj, obj: Obj, request: Request) -> bool:
    """Report whether a quota counts an object, the new or the stored one (upstream: `Matches`)."""
    try:
        inside = [request.usage.in_scope(scope, obj) for scope in _scopes(quota)]
    except ScopeError as why:
        name = quota["metadata"]["name"]
        raise errors.unknown_error(f"error matching scopes of quota {name}, err: {why}") from None
    return all(inside) and bool(_counted(quota, request))


def _check_known(quota: Obj, request: Request) -> None:
    """Raise 403 if the object does not state a limited resource, or the quota's status does not say what is used."""
    name, resources = quota["metadata"]["name"], _counted(quota, request)
    missing = request.usage.missing(request.obj, resources, request.ctx)
    if missing:
        raise request.refused(f"failed quota: {name}: {missing}")
    if not _used(quota).keys() >= set(resources):
        raise request.refused(f"status unknown for quota: {name}, resources: {','.join(resources)}")


def _increase(used: Amounts, request: Request) -> Amounts:
    """Return the amounts that the object uses beyond those of the stored object (`SubtractWithNonNegativeResult`)."""
    if request.old is not None:
        before = request.usage.measure(request.old, request.ctx)
        used = {name: amount - before.get(name, _ZERO) for name, amount in used.items()}
    return _positive(used)


def _positive(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _counted_before(quota: Obj, request: Request) -> bool:
    """Report whether a quota counts the increase of an object only: since 1.33 not one that comes into its scopes."""
    return request.old is None or request.ctx.release < V1_33 or _matches(quota, request.old, request)


def _charged(quota: Obj, more: Amounts, request: Request) -> Obj | None:
    """Return the new `status.used` of a quota, None if nothing changes. Raises 403 if it would exceed `status.hard`."""
    hard, used = parsed(_hard(quota)), parsed(_used(quota))
    requested = masked(more, hard)
    total = added(used, requested)
    exceeded = sorted(name for name in requested if total[name] > hard[name])
    if exceeded and request.point.subresource != "status":  # what a status says has happened already
        columns = (",".join(f"{name}={amounts[name]}" for name in exceeded) for amounts in (requested, used, hard))
        texts = (f"{what}: {text}" for what, text in zip(("requested", "used", "limited"), columns, strict=True))
        raise request.refused(f"exceeded quota: {quota['metadata']['name']}, {', '.join(texts)}")
    return {name: canonical_text(str(amount)) for name, amount in sorted(total.items())} if requested else None
