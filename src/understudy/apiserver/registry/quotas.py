"""Writes into the status of resource quotas what new and growing objects use: the server's own writes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from understudy.admission.plugins.resource_quota.charge import Request, charges
from understudy.admission.plugins.resource_quota.usage import usage_of
from understudy.apiserver.registry.encoded import bare, from_internal
from understudy.apiserver.registry.kind import Resources
from understudy.apiserver.registry.rest import WriteTarget
from understudy.machinery.patch.apply import managed_fields
from understudy.machinery.types import Obj

MANAGER = "kube-apiserver"


class QuotaStore(Protocol):
    """Finds the quotas of a namespace, and writes their status."""

    resources: Resources

    def listing(self, group: str, resource: str, namespace: str = "") -> list[Obj]:
        """Return the objects of a resource in a namespace."""

    async def update(self, target: WriteTarget, transform: Any) -> Any:
        """Store what `transform` makes of the current object."""


async def charge(registry: QuotaStore, target: WriteTarget, obj: Obj, old: Obj | None = None) -> None:
    """Charges the quotas of the namespace for what is to be stored; a dry run only asks them. Raises 403.

    As in the real server nothing is given back if the object is refused afterwards, for its name is taken."""
    if target.ctx.subresource or not target.namespace:
        return
    group, resource = target.kind.group, target.kind.resource
    usage = usage_of(group, resource)
    if usage is None or (old is not None and not usage.updates):
        return
    quotas = registry.listing("", "resourcequotas", target.namespace)
    if not quotas:
        return
    request = Request(group, resource, usage, obj, old, target.ctx)
    for name in charges(quotas, request):
        if not target.dry_run:
            await _store(registry, target, name, request)


async def _store(registry: QuotaStore, target: WriteTarget, name: str, request: Request) -> None:
    """Charges one quota, as it is when it is written."""
    kind = registry.resources.kind("", "ResourceQuota")
    assert kind is not None
    assert kind.behavior.status is not None
    strategy, version = kind.behavior.status, kind.versions[0]

    def transform(quota: Obj | None) -> Obj:
        assert quota is not None
        used = charges([quota], request).get(name)
        if used is None:
            return quota
        live = from_internal(kind, version, quota)
        new = {**live, "status": {**live["status"], "used": used}}
        owners = managed_fields.update_managed_fields(
            live,
            new,
            struct=kind.struct(version),
            api_version=version,
            manager=MANAGER,
            subresource="status",
            now=request.ctx.now,
            reset=strategy.reset_fields[""],
            convert=managed_fields.no_conversion,
        )
        return bare({**new, "metadata": {**new["metadata"], "managedFields": owners}})

    ctx = replace(request.ctx, subresource="status", version=version)
    own = replace(target, kind=kind, name=name, strategy=strategy, ctx=ctx, dry_run=False)
    await registry.update(own, transform)
