"""TaintNodesByCondition: taint new nodes as not ready, until a controller sees that they are."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context

NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodesByCondition:
    """Taints new nodes as not ready."""

    name = "TaintNodesByCondition"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.CREATE, "", "nodes", "")

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        spec = attributes.new["spec"]
        taints = spec.get("taints") or []
        if not any(t.get("key") == NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
