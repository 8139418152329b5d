"""The plugin ResourceQuota: charges the quotas of a namespace for new and growing objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.context import Context
from understudy.admission.plugins.resource_quota.charge import Request, charges
from understudy.admission.plugins.resource_quota.usage import usage_of
from understudy.machinery.types import Obj

# Takes the quota as it is stored, returns its new `status.used`; None: nothing changes. May raise StatusError.
Charge = Callable[[Obj], Obj | None]


class QuotaStore(Protocol):
    """Writes the status of resource quotas."""

    async def update_used(self, namespace: str, name: str, charge: Charge, ctx: Context) -> None:
        """Store what `charge` makes of a quota's `status.used`, and ask it again if somebody else wrote meanwhile."""


class ResourceQuota:
    """Refuses objects that the quotas of their namespace have no room for."""

    name = "ResourceQuota"

    def __init__(self, quotas: QuotaStore) -> None:
        self._quotas = quotas

    def handles(self, point: Point) -> bool:
        if not point.namespaced or point.subresource:
            return False
        usage = usage_of(point.group, point.resource)
        if usage is None:
            return False
        return point.operation == Operation.CREATE or (point.operation == Operation.UPDATE and usage.updates)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Charge the quotas; a dry run only asks them. Raises 403.

        As in the real server nothing is given back if the object is refused afterwards, for its name is taken.
        """
        namespace, point = attributes.namespace, attributes.point
        quotas = list(ctx.listing("", "resourcequotas", namespace)) if namespace else []
        if not quotas:
            return
        usage = usage_of(point.group, point.resource)
        assert usage is not None  # handles() has seen to that
        request = Request(point.group, point.resource, usage, attributes.new, attributes.old_object, ctx)
        for name in charges(quotas, request):
            if not attributes.dry_run:

                def charge(quota: Obj, name: str = name) -> Obj | None:
                    return charges([quota], request).get(name)

                await self._quotas.update_used(namespace, name, charge, ctx)
