"""The class of service of a pod."""

from __future__ import annotations

from understudy.admission.validation.core.pods.containers_of import containers
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj

COMPUTE = ("cpu", "memory")


def qos_class(pod: Obj) -> str:
    """Return Guaranteed, Burstable or BestEffort, from the containers' requests and limits of cpu and memory.

    Upstream: `ComputePodQOS`. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for container in containers(pod["spec"], "containers", "initContainers"):
        resources = container.get("resources") or {}
        _sum(requests, resources.get("requests"))
        if len(_sum(limits, resources.get("limits"))) < len(COMPUTE):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _sum(total: dict[str, Quantity], amounts: dict[str, str] | None) -> list[str]:
    """Add compute resources to `total`; return the names of those that are requested."""
    asked = []
    for name in COMPUTE:
        amount = parse((amounts or {}).get(name, "0"))
        if amount.value > 0:
            asked.append(name)
            total[name] = total[name] + amount if name in total else amount
    return asked
