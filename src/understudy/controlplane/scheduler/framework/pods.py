"""A pod as plugins see it: what it requests, worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from understudy.controlplane.client.pod_claims import group_name
from understudy.kinds.core.pods.containers.pod_requests import added, of_pod
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery import quantity
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import Obj

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
Resources = dict[str, int]  # cpu in thousandths, everything else in whole units

HUGE_PAGES = "hugepages-"  # of any size


@lru_cache(4096)
def _amount(name: str, text: str) -> int:
    return quantity.parse(text).scaled(-3 if name == CPU else 0)


def amounts(resource_list: Mapping[str, str] | None) -> Resources:
    """Return a ResourceList as integers."""
    return {name: _amount(name, text) for name, text in (resource_list or {}).items()}


class HostPort(NamedTuple):
    """A port of the node that a container takes. An `ip` of 0.0.0.0 stands for all addresses of the node."""

    ip: str
    protocol: str
    port: int

    def conflicts_with(self, other: HostPort) -> bool:
        """Report whether both ports cannot be taken on one node. Upstream: `HostPortInfo.CheckConflict`."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        return same and (self.ip == other.ip or EVERY_ADDRESS in (self.ip, other.ip))


EVERY_ADDRESS = "0.0.0.0"


class PodInfo:
    """A pod with what scheduling it takes into account. Upstream: `framework.PodInfo`.

    pod_level  whether requests of the pod as a whole count (feature gate PodLevelResources)
    """

    def __init__(self, obj: Obj, *, pod_level: bool = False) -> None:
        self.obj = obj
        self.spec: Obj = obj["spec"]
        self.status: Obj = obj.get("status") or {}
        self.namespace: str = obj["metadata"]["namespace"]
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"]["uid"]
        self._pod_level = pod_level

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def group(self) -> str:
        """Return the name of the PodGroup of the pod, "" for a pod without one."""
        return group_name(self.obj)

    @property
    def group_key(self) -> str:
        """Return "namespace/name" of the PodGroup of the pod, "" for a pod without one."""
        return f"{self.namespace}/{self.group}" if self.group else ""

    @property
    def priority(self) -> int:
        """Return the priority of the pod, 0 if it has none."""
        return int(self.spec.get("priority") or 0)

    @property
    def preemption_policy(self) -> str:
        """Return whether other pods may have to go for the pod: "PreemptLowerPriority" or "Never"."""
        return str(self.spec.get("preemptionPolicy") or "PreemptLowerPriority")

    @property
    def node_name(self) -> str:
        """Return the name of the node that the pod is bound to, "" if it is not."""
        return str(self.spec.get("nodeName") or "")

    @property
    def is_terminal(self) -> bool:
        """Report whether the pod has ended and takes no room any more."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def is_being_deleted(self) -> bool:
        """Report whether the pod is to go."""
        return "deletionTimestamp" in self.obj["metadata"]

    @cached_property
    def requests(self) -> Resources:
        """Return the pod's requests of a node, without those that are zero."""
        return {name: amount for name, amount in _requests(self.spec, self._pod_level).items() if amount}

    @cached_property
    def required_nodes(self) -> NodeSelector | None:
        """Return the node selector of the required node affinity, if there is one."""
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        return None if selector is None else NodeSelector(selector)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Return the ports of the node that the pod takes; those of sidecars count. Upstream: `util.GetHostPorts`."""
        containers = [*self.spec["containers"], *filter(is_sidecar, self.spec.get("initContainers") or ())]
        return tuple(
            HostPort(port.get("hostIP") or EVERY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
            for container in containers
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )


def _requests(spec: Obj, pod_level: bool) -> Resources:
    """Return the requests of a pod with its overhead. Upstream: `resource.PodRequests`."""
    total = of_pod(spec, "requests", amounts, _is_set_as_whole if pod_level else lambda _: False)
    return added(total, amounts(spec.get("overhead")))


def _is_set_as_whole(name: str) -> bool:
    """Report whether an amount that a pod sets as a whole wins over those of its containers."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES)
