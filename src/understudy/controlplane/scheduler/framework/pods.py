"""A pod as plugins see it: what it requests, worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

from understudy.controlplane.client.pod_claims import group_name
from understudy.controlplane.scheduler.framework.resizes import NO_RESIZES, Resizes, of_all_containers, of_whole
from understudy.kinds.core.pods.containers.claim_requests import of_claims
from understudy.kinds.core.pods.containers.pod_requests import added
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import NamedTuple, Obj, dataclass

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
Resources = dict[str, int]  # cpu in thousandths, everything else in whole units


@lru_cache(4096)
def _amount(name: str, text: str) -> int:
    return in_units(name, parse(text))


def amounts(resource_list: Mapping[str, str] | None) -> Resources:
    """Return a ResourceList as integers."""
    return {name: _amount(name, text) for name, text in (resource_list or {}).items()}


@dataclass(frozen=True)
class Counted:
    """The kinds of amounts that a pod takes of its node beside the requests of its containers.

    pod_level  requests of the pod as a whole (feature gate PodLevelResources)
    claims     what its devices use of the node (DRANodeAllocatableResources, of 1.37)
    resizes    what resizes grant it and leave it
    """

    pod_level: bool = False
    claims: bool = False
    resizes: Resizes = NO_RESIZES

    @classmethod
    def of(cls, version: Version, gates: Gates) -> Counted:
        """Return the kinds that count in a release."""
        return cls(
            pod_level=gates[features.POD_LEVEL_RESOURCES],
            claims=version >= V1_37 and gates[features.DRA_NODE_ALLOCATABLE_RESOURCES],
            resizes=Resizes.of(version, gates),
        )


JUST_CONTAINERS = Counted()


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
    """A pod with what scheduling it takes into account. Upstream: `framework.PodInfo`."""

    def __init__(self, obj: Obj, counted: Counted = JUST_CONTAINERS) -> None:
        self.obj = obj
        self.spec: Obj = obj["spec"]
        self.status: Obj = obj.get("status") or {}
        self.namespace: str = obj["metadata"]["namespace"]
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"]["uid"]
        self.counted = counted

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
        return self._total(NO_RESIZES, {})

    @cached_property
    def taken(self) -> Resources:
        """Return the amounts that the pod takes of its node: its requests and what its devices use there.

        Upstream: `CalculateResource`.
        """
        used = of_claims(self.status) if self.counted.claims else {}
        return self._total(self.counted.resizes, {name: in_units(name, amount) for name, amount in used.items()})

    @cached_property
    def resized(self) -> Resources:
        """Return the amounts that the pod takes of its node without what its devices use."""
        return self._total(self.counted.resizes, {})

    def _total(self, resizes: Resizes, used: Resources) -> Resources:
        """Return the requests of the pod with its overhead, without those that are zero. Upstream: `PodRequests`."""
        total = of_all_containers(self.spec, self.status, resizes, amounts, used)
        if self.counted.pod_level:
            total |= of_whole(self.spec, self.status, resizes, amounts)
        total = added(total, amounts(self.spec.get("overhead")))
        return {name: amount for name, amount in total.items() if amount}

    def with_status(self, fields: Obj) -> PodInfo:
        """Return the pod with other fields in its status; the pod itself if there are none."""
        if not fields:
            return self
        return PodInfo({**self.obj, "status": {**self.status, **fields}}, self.counted)

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


def in_units(name: str, amount: Quantity) -> int:
    """Return the amount of a resource as an integer, rounded up."""
    return amount.scaled(-3 if name == CPU else 0)
