"""AlwaysDeny and DenyServiceExternalIPs: refuse requests of everybody."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery.types import nested_field


class AlwaysDeny:
    """Refuses every request that would change or connect to something."""

    name = "AlwaysDeny"

    def handles(self, point: Point) -> bool:
        return True

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        raise attributes.forbidden("admission control is denying all modifications")


class DenyServiceExternalIPs:
    """Refuses services with external IPs that they do not have yet."""

    name = "DenyServiceExternalIPs"

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "services", "") and point.operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        new, old = (
            set(nested_field(service or {}, "spec", "externalIPs", default=()))
            for service in (attributes.object, attributes.old_object)
        )
        if not new <= old:
            raise attributes.forbidden("Use of external IPs is denied by admission control")
