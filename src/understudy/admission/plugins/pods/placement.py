"""ExtendedResourceToleration and LimitPodHardAntiAffinityTopology: where pods may be placed."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.resources import is_extended
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery import errors
from understudy.machinery.types import Obj, nested_field

HOSTNAME = "kubernetes.io/hostname"
_WRITES = (Operation.CREATE, Operation.UPDATE)


class ExtendedResourceToleration:
    """Lets pods onto nodes that are tainted by the name of an extended resource which the pod requests."""

    name = "ExtendedResourceToleration"

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "pods", "") and point.operation in _WRITES

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add a toleration for each extended resource."""
        spec = attributes.new["spec"]
        requested = {
            name
            for container in containers(spec, "containers", "initContainers")
            for name in nested_field(container, "resources", "requests", default={})
        }
        for name in sorted(filter(is_extended, requested)):
            added = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            tolerations = [added if _without_time(each) == added else each for each in spec.get("tolerations") or ()]
            spec["tolerations"] = tolerations if added in tolerations else [*tolerations, added]


def _without_time(toleration: Obj) -> Obj:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value != ""}


class LimitPodHardAntiAffinityTopology:
    """Refuses pods that keep others away from more than a node."""

    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, point: Point) -> bool:
        return point[1:4] == ("", "pods", "") and point.operation in _WRITES

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a required anti-affinity by another topology key than the name of the host."""
        pod = attributes.new
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        for term in nested_field(pod, "spec", "affinity", "podAntiAffinity", required, default=()):
            key = term.get("topologyKey", "")
            if key != HOSTNAME:
                text = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME}"
                )
                raise errors.forbidden("", "pods", pod["metadata"].get("name", ""), f"{text} is allowed")
