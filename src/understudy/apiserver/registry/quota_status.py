"""Writes the status of resource quotas for the plugin ResourceQuota, as the server itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from understudy.apiserver.encoding.conversion import bare, from_internal
from understudy.apiserver.registry.rest import WriteTarget
from understudy.apiserver.registry.store import Registry, validate_all
from understudy.kinds.context import Context
from understudy.machinery.patch.apply.field_manager import FieldManager
from understudy.machinery.types import Obj

if TYPE_CHECKING:
    from understudy.admission.plugins.resource_quota.plugin import Charge

MANAGER = "kube-apiserver"


class QuotaStatus:
    """Updates the status subresource of quotas in a registry (`QuotaStore`)."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def update_used(self, namespace: str, name: str, charge: Charge, ctx: Context) -> None:
        """Store what `charge` makes of a quota, with `status.used` owned by the server."""
        kind = self._registry.resources.kind("", "ResourceQuota")
        assert kind is not None
        assert kind.behavior.status is not None
        strategy, version = kind.behavior.status, kind.versions[0]
        fields = FieldManager(
            kind.codec(version).object_type, version, subresource="status", reset=strategy.reset_fields
        )

        async def transform(quota: Obj | None) -> Obj:
            assert quota is not None
            used = charge(quota)
            if used is None:
                return quota
            live = from_internal(kind, version, quota)
            new = {**live, "status": {**live["status"], "used": used}}
            owners = fields.update(live, new, MANAGER, ctx.now)
            return bare({**new, "metadata": {**new["metadata"], "managedFields": owners}})

        target = WriteTarget(kind, namespace, name, strategy, replace(ctx, subresource="status", version=version))
        await self._registry.update(target, transform, validate=validate_all)
