"""Writes into the status of resource quotas what new and growing objects use: the server's own writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.admission.core.quota_usage import usage_of
from understudy.admission.core.resource_quota import Request, charges
from understudy.apiserver.patch import managedfields
from understudy.apiserver.types import Obj
from understudy.apiserver.versions import bare, from_internal

if TYPE_CHECKING:
    from understudy.apiserver.registry import Registry
    from understudy.apiserver.strategies import Write

MANAGER = "kube-apiserver"


async def charge(registry: Registry, write: Write, obj: Obj, old: Obj | None = None) -> None:
    """Charges the quotas of the namespace for what is to be stored; a dry run only asks them. Raises 403.

    As in the real server nothing is given back if the object is refused afterwards, for its name is taken."""
    if write.ctx.subresource or not write.namespace:
        return
    group, resource = write.kind.group, write.kind.resource
    usage = usage_of(group, resource)
    if usage is None or (old is not None and not usage.updates):
        return
    quotas = registry.listing("", "resourcequotas", write.namespace)
    if not quotas:
        return
    request = Request(group, resource, usage, obj, old, write.ctx)
    for name in charges(quotas, request):
        if not write.dry_run:
            await _store(registry, write, name, request)


async def _store(registry: Registry, write: Write, name: str, request: Request) -> None:
    """Charges one quota, as it is when it is written."""
    kind = registry.release.kind("", "ResourceQuota")
    assert kind is not None
    assert kind.rules.status is not None
    strategy, version = kind.rules.status, kind.versions[0]

    def transform(quota: Obj | None) -> Obj:
        assert quota is not None
        used = charges([quota], request).get(name)
        if used is None:
            return quota
        live = from_internal(kind, version, quota)
        new = {**live, "status": {**live["status"], "used": used}}
        owners = managedfields.on_update(
            live,
            new,
            struct=kind.struct(version),
            api_version=version,
            manager=MANAGER,
            subresource="status",
            now=request.ctx.now,
            reset=strategy.reset_fields[""],
            convert=managedfields.unconverted,
        )
        return bare({**new, "metadata": {**new["metadata"], "managedFields": owners}})

    ctx = replace(request.ctx, subresource="status", version=version)
    own = replace(write, kind=kind, name=name, strategy=strategy, ctx=ctx, dry_run=False)
    await registry.update(own, transform)
