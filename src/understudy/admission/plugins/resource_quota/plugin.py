"""The plugin ResourceQuota: charge the quotas of a namespace for new and growing objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.plugins.resource_quota.charge import Request, charges
from understudy.admission.plugins.resource_quota.limited import Limited
from understudy.admission.plugins.resource_quota.usage import usage_of
from understudy.kinds.context import Context
from understudy.machinery.types import Obj

# Takes the stored quota and returns its new `status.used`, None if it stays the same. May raise StatusError.
Charge = Callable[[Obj], Obj | None]


class QuotaStore(Protocol):
    """Writes the status of resource quotas."""

    async def update_used(self, namespace: str, name: str, charge: Charge, ctx: Context) -> None:
        """Store the `status.used` that `charge` returns; call it again if the quota changed meanwhile."""


class ResourceQuota:
    """Refuses objects that would exceed a quota of their namespace, or that need one which is not there."""

    name = "ResourceQuota"

    def __init__(self, quotas: QuotaStore, limited: Limited) -> None:
        self._quotas = quotas
        self._limited = limited.resources

    def handles(self, point: Point) -> bool:
        usage = usage_of(point.group, point.resource) if point.namespaced else None
        if usage is None:
            return False
        if point.operation == Operation.UPDATE:
            return point.subresource in usage.updates
        return point.operation == Operation.CREATE and not point.subresource

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Charge the quotas; a dry run only checks them. Raises 403.

        Like kube-apiserver, this does not refund the quota if the create fails later, for example on a name conflict.
        """
        namespace, point = attributes.namespace, attributes.point
        quotas = list(ctx.listing("", "resourcequotas", namespace)) if namespace else []
        if not namespace or not (quotas or self._limited):
            return
        usage = usage_of(point.group, point.resource)
        assert usage is not None  # handles() is false for kinds without usage
        obj, old = attributes.new, attributes.old_object
        if old is not None and not usage.updates[point.subresource](obj, old, ctx):
            return
        request = Request(point, usage, obj, old, ctx)
        for name in charges(quotas, request, self._limited):
            if not attributes.dry_run:

                def charge(quota: Obj, name: str = name) -> Obj | None:
                    return charges([quota], request).get(name)

                await self._quotas.update_used(namespace, name, charge, ctx)
