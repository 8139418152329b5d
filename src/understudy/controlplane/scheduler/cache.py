"""The nodes and the pods on them, including those with a binding on its way. Upstream: `backend/cache`."""

from __future__ import annotations

from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.machinery.types import NamedTuple, Obj


class _Placed(NamedTuple):
    pod: PodInfo
    node: str
    assumed: bool


class NodeCache:
    """Counts pods on nodes. A pod whose node is not known (yet) is remembered for when it comes.

    nodes  by name, those first that came first
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._placed: dict[str, _Placed] = {}

    def set_node(self, obj: Obj) -> None:
        """Take in a node that is new or has changed."""
        name = obj["metadata"]["name"]
        if name in self.nodes:
            self.nodes[name].set_node(obj)
            return
        node = self.nodes[name] = NodeInfo(obj)
        for placed in self._placed.values():
            if placed.node == name:
                node.add_pod(placed.pod)

    def remove_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self.nodes.pop(name, None)

    def set_pod(self, pod: PodInfo) -> None:
        """Take in a pod that is bound to a node, be it for the first time or changed."""
        self._place(pod, pod.node_name, assumed=False)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone, or will not come to its node. Does nothing if the pod is not known."""
        placed = self._placed.pop(uid, None)
        if placed and placed.node in self.nodes:
            self.nodes[placed.node].remove_pod(placed.pod)

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count a pod that is being bound to a node."""
        self._place(pod, node, assumed=True)

    def forget(self, uid: str) -> None:
        """Stop to count a pod after its binding has failed, unless it has been seen on a node in the meantime."""
        if self.is_assumed(uid):
            self.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        """Report whether a pod is being bound."""
        return uid in self._placed and self._placed[uid].assumed

    def _place(self, pod: PodInfo, node: str, *, assumed: bool) -> None:
        self.remove_pod(pod.uid)
        self._placed[pod.uid] = _Placed(pod, node, assumed)
        if node in self.nodes:
            self.nodes[node].add_pod(pod)
