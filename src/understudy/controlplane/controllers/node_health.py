"""Finds nodes whose kubelet is silent, and taints those that are not ready so that pods are evicted.

    no heartbeat for 50 s (40 s before 1.32)    all conditions that the kubelet writes become Unknown
    Ready is Unknown                            the node has the taint node.kubernetes.io/unreachable with NoExecute
    Ready is False                              node.kubernetes.io/not-ready with NoExecute
    Ready is True                               it has neither
    no node is ready                            none has any: the network is at fault, not the nodes
    Ready was True, and is Unknown              pods on the node are not ready any more

A heartbeat is a new time in the Lease of the node, or in its condition Ready. Unlike kube-controller-manager this
leaves alone what has no Lease, since a test's nodes have no kubelet in most cases; it taints nodes of one zone at once
instead of one in ten seconds. Nodes that come, go or become silent have events, and so have their pods. Source:
`monitorNodeHealth`, `handleDisruption` of k8s.io/kubernetes/pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.negotiation import MERGE_PATCH, STRATEGIC_PATCH
from understudy.apiserver.storage.interface import Entry
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.resources import NODES, PODS
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.releases.version import V1_31, V1_32, ByRelease
from understudy.machinery.types import Obj, condition_is_true, condition_of, nested_field
from understudy.machinery.util.clock import timestamp

NODE_PREFIX, LEASE_PREFIX = "/registry/minions/", "/registry/leases/kube-node-lease/"
ACCOUNT = "node-controller"
GRACE_PERIOD = ByRelease({V1_31: 40.0, V1_32: 50.0})  # seconds. Upstream: `NodeMonitorGracePeriod`
CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")  # those that kubelets write
TAINTS = {"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"}


class NodeHealthController(Controller[str]):
    """Keeps the conditions of silent nodes, and the taints that evict pods; keys are names of nodes."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._clock = context.state.clock
        self._grace_period = GRACE_PERIOD[context.state.release.version]
        self._client = APIClient(context.connection(service_account(ACCOUNT)), CONTROLLER_AGENT, self._clock)
        self._events = EventRecorder(self._client, ACCOUNT)
        self._known: dict[str, Obj] = {}  # what events about each node refer to. Upstream: `knownNodeSet`
        self._unmarked: set[str] = set()  # silent nodes whose pods may still be ready. Upstream: `nodesToRetry`
        self._heard: dict[str, float] = {}  # when each node was heard last, in seconds of `Clock.monotonic`
        self._reported: dict[str, str] = {}  # the time in the condition Ready of each
        self._all_silent = True  # no node is ready. Upstream: `stateFullDisruption` of all zones
        informers.of(LEASE_PREFIX).add_handler(self._hear, lambda _, new: self._hear(new))
        informers.of(NODE_PREFIX).on_change(self._node_changed)

    async def run(self) -> None:
        """Look at nodes until cancelled."""
        async with self._client, self._events:
            await super().run()

    def _hear(self, lease: Entry) -> None:
        name = lease.key.removeprefix(LEASE_PREFIX)
        self._heard[name] = self._clock.monotonic()
        self.queue.add_after(name, self._grace_period)

    def _node_changed(self, entry: Entry) -> None:
        name = entry.key.removeprefix(NODE_PREFIX)
        heartbeat = condition_of(entry.value, "Ready").get("lastHeartbeatTime") or ""
        if name in self._heard and self._reported.get(name) != heartbeat:
            self._heard[name] = self._clock.monotonic()
        self._reported[name] = heartbeat
        self.queue.add(name)
        self._look_for_disruption()

    def _look_for_disruption(self) -> None:
        """Look at all nodes when the first one is ready, or the last one no more. Upstream: `handleDisruption`."""
        nodes = self._registry.listing("", "nodes")
        all_silent = not any(condition_is_true(node, "Ready") for node in nodes)
        if all_silent == self._all_silent:
            return
        self._all_silent = all_silent
        if not all_silent:  # those that could not be heard have their time once more
            self._heard = dict.fromkeys(self._heard, self._clock.monotonic())
        self.queue.add_all(node["metadata"]["name"] for node in nodes)

    async def sync(self, key: str) -> None:
        """Let a node that is silent for too long be unknown, and its pods not ready; mend its taints."""
        node = self._registry.lookup("", "nodes", "", key)
        if node is None:
            self._forget(key)
            return
        if key not in self._known:
            self._known[key] = {"metadata": {"name": key, "uid": node["metadata"]["uid"]}}
            self._tell(key, "RegisteredNode", f"event: Registered Node {key} in Controller")
        if key in self._unmarked:
            await self._mark_pods(key)
        if (heard := self._heard.get(key)) is not None:
            left = heard + self._grace_period - self._clock.monotonic()
            if left > 0:
                self.queue.add_after(key, left)
            elif condition_of(node, "Ready").get("status") != "Unknown":
                status = {"status": {"conditions": [self._unknown(node, name) for name in CONDITIONS]}}
                await self._patch(key, status, "status")
                if condition_is_true(node, "Ready"):
                    self._tell(key, "NodeNotReady", "status is now: NodeNotReady")
                    self._unmarked.add(key)
                return  # the change comes here again
        taints = nested_field(node, "spec", "taints", default=[])
        changed = self._tainted(node, taints)
        if changed != taints:
            version = node["metadata"]["resourceVersion"]
            await self._patch(key, {"metadata": {"resourceVersion": version}, "spec": {"taints": changed or None}})

    def _forget(self, key: str) -> None:
        self._heard.pop(key, None)
        self._reported.pop(key, None)
        self._unmarked.discard(key)
        if key in self._known:
            self._tell(key, "RemovingNode", f"event: Removing Node {key} from Controller")
            del self._known[key]

    def _tell(self, key: str, reason: str, what: str) -> None:
        self._events.event(NODES, self._known[key], "Normal", reason, f"Node {key} {what}")

    async def _mark_pods(self, key: str) -> None:
        """Let the pods on a node be not ready. Upstream: `MarkPodsNotReady`."""
        now = timestamp(self._clock.now())
        for pod in self._registry.listing("", "pods"):
            if pod["spec"].get("nodeName") != key or not condition_is_true(pod, "Ready"):
                continue
            unready = {"status": "False", "lastTransitionTime": now}
            old = pod["status"]["conditions"]
            conditions = [{**each, **unready} if each["type"] == "Ready" else each for each in old]
            changed = {**pod, "status": {**pod["status"], "conditions": conditions}}
            with ignore_not_found():
                marked = await self._client.update_status(PODS, changed)
                self._events.event(PODS, marked, "Warning", "NodeNotReady", "Node is not ready")
        self._unmarked.discard(key)

    def _unknown(self, node: Obj, name: str) -> Obj:
        """Return a condition of a node that is silent. Upstream: `tryUpdateNodeHealth`."""
        old, now = condition_of(node, name), timestamp(self._clock.now())
        unknown: Obj = {"type": name, "status": "Unknown", "lastTransitionTime": now}
        if not old:
            texts = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            return {**unknown, **texts, "lastHeartbeatTime": node["metadata"]["creationTimestamp"]}
        if old["status"] == "Unknown":
            return old
        return {**unknown, "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}

    def _tainted(self, node: Obj, taints: list[Obj]) -> list[Obj]:
        """Return the taints that a node should have. Upstream: `processTaintBaseEviction`."""
        ready = condition_of(node, "Ready").get("status")
        key = TAINTS.get(ready or "") if not self._all_silent else None
        if ready is None or any(_is_own(taint) and taint["key"] == key for taint in taints):
            return [taint for taint in taints if ready is None or not _is_own(taint) or taint["key"] == key]
        kept = [taint for taint in taints if not _is_own(taint)]
        now = timestamp(self._clock.now())
        return kept if key is None else [*kept, {"key": key, "effect": "NoExecute", "timeAdded": now}]

    async def _patch(self, key: str, patch: Obj, subresource: str = "") -> None:
        content_type = STRATEGIC_PATCH if subresource else MERGE_PATCH
        with ignore_not_found():
            await self._client.patch(NODES, key, patch, content_type=content_type, subresource=subresource)


def _is_own(taint: Obj) -> bool:
    """Report whether a taint is one that this controller adds."""
    return taint["effect"] == "NoExecute" and taint["key"] in TAINTS.values()
