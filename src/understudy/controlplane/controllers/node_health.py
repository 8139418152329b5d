"""Finds nodes whose kubelet is silent, and taints those that are not ready so that pods are evicted.

    no heartbeat for 50 s (40 s before 1.32)    all conditions that the kubelet writes become Unknown
    Ready is Unknown                            the node has the taint node.kubernetes.io/unreachable with NoExecute
    Ready is False                              node.kubernetes.io/not-ready with NoExecute
    Ready is True                               it has neither
    no node is ready                            none has any: the network is at fault, not the nodes

A heartbeat is a new time in the Lease of the node, or in its condition Ready. Unlike kube-controller-manager this
leaves alone what has no Lease, since a test's nodes have no kubelet in most cases; it taints nodes of one zone at once
instead of one in ten seconds, and does not make the pods on them unready. Source: `monitorNodeHealth`,
`handleDisruption` of k8s.io/kubernetes/pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.errors import StatusError
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
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(ACCOUNT))
        self._heard: dict[str, float] = {}  # when each node was heard last, in seconds of `Clock.monotonic`
        self._reported: dict[str, str] = {}  # the time in the condition Ready of each
        self._all_silent = True  # no node is ready. Upstream: `stateFullDisruption` of all zones
        informers.of(LEASE_PREFIX).add_handler(self._hear, lambda _, new: self._hear(new))
        informers.of(NODE_PREFIX).on_change(self._node_changed)

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
        """Let a node that is silent for too long be unknown; mend its taints."""
        node = self._registry.lookup("", "nodes", "", key)
        if node is None:
            self._heard.pop(key, None)
            self._reported.pop(key, None)
            return
        if (heard := self._heard.get(key)) is not None:
            left = heard + self._grace_period - self._clock.monotonic()
            if left > 0:
                self.queue.add_after(key, left)
            elif condition_of(node, "Ready").get("status") != "Unknown":
                status = {"status": {"conditions": [self._unknown(node, name) for name in CONDITIONS]}}
                await self._patch(key, status, "status")
                return  # the change comes here again
        taints = nested_field(node, "spec", "taints", default=[])
        changed = self._tainted(node, taints)
        if changed != taints:
            version = node["metadata"]["resourceVersion"]
            await self._patch(key, {"metadata": {"resourceVersion": version}, "spec": {"taints": changed or None}})

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
        path = resource_path("", "v1", "nodes", "", key)
        content_type = STRATEGIC_PATCH if subresource else "application/merge-patch+json"
        try:
            await self._client.patch(f"{path}/{subresource}" if subresource else path, patch, content_type)
        except StatusError as error:
            if error.code != 404:
                raise


def _is_own(taint: Obj) -> bool:
    """Report whether a taint is one that this controller adds."""
    return taint["effect"] == "NoExecute" and taint["key"] in TAINTS.values()
