"""The class of service of a pod."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj

COMPUTE = ("cpu", "memory")


def qos_class(pod: Obj, gates: Gates) -> str:
    """Return Guaranteed, Burstable or BestEffort, from requests and limits of cpu and memory.

    They are those of the pod as a whole if it has resources, else those of its containers.

    Upstream: `ComputePodQOS`. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for resources in _requirements(pod["spec"], gates):
        _sum(requests, resources.get("requests"))
        if len(_sum(limits, resources.get("limits"))) < len(COMPUTE):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _requirements(spec: Obj, gates: Gates) -> Iterable[Obj]:
    """Return the resources that decide: those of the pod, or those of each container but ephemeral ones."""
    whole: Obj | None = spec.get("resources")
    if whole is not None and gates[features.POD_LEVEL_RESOURCES]:
        # Since 1.37 only what names a resource counts.
        if whole.get("requests") or whole.get("limits") or not gates[features.POD_LEVEL_RESOURCES_FIX_QOS]:
            return [whole]
    return (container.get("resources") or {} for container in containers(spec, "containers", "initContainers"))


def _sum(total: dict[str, Quantity], amounts: dict[str, str] | None) -> list[str]:
    """Add compute resources to `total`; return the names of those that are requested."""
    asked = []
    for name in COMPUTE:
        amount = parse((amounts or {}).get(name, "0"))
        if amount.value > 0:
            asked.append(name)
            total[name] = total[name] + amount if name in total else amount
    return asked
