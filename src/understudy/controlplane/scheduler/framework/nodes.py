"""A node as plugins see it: what it has, and what its pods take of it."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.pods import PODS, HostPort, PodInfo, Resources, amounts
from understudy.machinery.types import Obj


class NodeInfo:
    """A node with its pods. Upstream: `framework.NodeInfo`.

    allocatable  what the node has for pods
    requested    what its pods take together
    pods         its pods by uid, those included that are being bound to it
    """

    def __init__(self, obj: Obj) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.requested: Resources = {}
        self.set_node(obj)

    def set_node(self, obj: Obj) -> None:
        """Take over a changed node; its pods stay."""
        self.obj = obj
        self.name: str = obj["metadata"]["name"]
        self.allocatable = amounts((obj.get("status") or {}).get("allocatable"))

    @property
    def taints(self) -> list[Obj]:
        """Return the taints of the node."""
        return self.obj["spec"].get("taints") or []

    @property
    def allowed_pods(self) -> int:
        """Return the number of pods that the node may have."""
        return self.allocatable.get(PODS, 0)

    @property
    def used_ports(self) -> list[HostPort]:
        """Return the ports of the node that its pods take."""
        return [port for pod in self.pods.values() for port in pod.host_ports]

    def add_pod(self, pod: PodInfo) -> None:
        """Count a pod that is on the node, or on its way to it."""
        self.pods[pod.uid] = pod
        self._request(pod, 1)

    def remove_pod(self, pod: PodInfo) -> None:
        """Count a pod no more that was on the node."""
        self._request(self.pods.pop(pod.uid), -1)

    def without(self, pods: list[PodInfo]) -> NodeInfo:
        """Return the node as it would be without some of its pods."""
        remaining = NodeInfo(self.obj)
        gone = {pod.uid for pod in pods}
        for pod in self.pods.values():
            if pod.uid not in gone:
                remaining.add_pod(pod)
        return remaining

    def _request(self, pod: PodInfo, sign: int) -> None:
        for name, amount in pod.taken.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
