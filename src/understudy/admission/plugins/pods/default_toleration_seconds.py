"""DefaultTolerationSeconds: let pods stay five minutes on a node that is not ready, unless they say otherwise."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300


class DefaultTolerationSeconds:
    """Adds tolerations of nodes that are not ready or unreachable to pods that have none."""

    name = "DefaultTolerationSeconds"

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "pods", "") and point.operation in (Operation.CREATE, Operation.UPDATE)

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        spec = attributes.new["spec"]
        tolerations = spec.get("tolerations") or []
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
            for key in (NOT_READY, UNREACHABLE)
            if not any(t.get("key", "") in (key, "") and t.get("effect", "") in ("NoExecute", "") for t in tolerations)
        ]
        if added:
            spec["tolerations"] = [*tolerations, *added]
