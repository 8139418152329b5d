"""Evicts pods from nodes with taints of the effect NoExecute, when their tolerations are over.

    a taint that a pod does not tolerate              evicts it immediately
    one that it tolerates for some seconds            evicts it after these, unless the taint is gone by then
    a second one that it tolerates for less           changes nothing: the plan stays, as that of the real one does

Pods tolerate not-ready and unreachable nodes for five minutes, from admission. Source:
k8s.io/kubernetes/pkg/controller/tainteviction.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.storage.interface import Entry
from understudy.controlplane.allocator.checks.taints import tolerates
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.pod_deletion import add_condition_and_delete
from understudy.controlplane.client.resources import PODS
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.releases import features
from understudy.machinery.types import NamedTuple, Obj, nested_field

NODE_PREFIX, POD_PREFIX = "/registry/minions/", "/registry/pods/"
NAME, ACCOUNT = "taint-eviction-controller", "node-controller"
EVENT = "TaintManagerEviction"
CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class _Plan(NamedTuple):
    """When a pod is evicted, in seconds of `Clock.monotonic`."""

    uid: str
    when: float


class TaintEvictionController(Controller[str]):
    """Keys are "namespace/name" of pods. Upstream: `tainteviction.Controller`."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._gates = context.state.gates
        self._clock = context.state.clock
        self._client = APIClient(context.connection(service_account(ACCOUNT)), CONTROLLER_AGENT, self._clock)
        self._events = EventRecorder(self._client, NAME)
        self._plans: dict[str, _Plan] = {}
        self._taints: dict[str, list[Obj]] = {}  # of tainted nodes, as they were seen last
        informers.of(NODE_PREFIX).on_change(self._node_changed)
        informers.of(POD_PREFIX).on_change(lambda entry: self.queue.add(entry.key.removeprefix(POD_PREFIX)))

    async def run(self) -> None:
        """Evict pods until cancelled."""
        async with self._client, self._events:
            await super().run()

    def _node_changed(self, entry: Entry) -> None:
        name = entry.value["metadata"]["name"]
        taints = _no_execute(self._registry.lookup("", "nodes", "", name))
        if taints == self._taints.get(name, []):
            return
        self._taints[name] = taints
        for pod in self._registry.listing("", "pods"):
            if pod["spec"].get("nodeName") == name:
                self.queue.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")

    async def sync(self, key: str) -> None:
        """Plan the eviction of a pod, evict it if it is time, or give the plan up."""
        namespace, _, name = key.partition("/")
        pod = self._registry.lookup("", "pods", namespace, name)
        node = pod and pod["spec"].get("nodeName")
        taints = _no_execute(self._registry.lookup("", "nodes", "", node)) if node else []
        seconds = _tolerated(pod, taints) if pod else None
        plan = self._plans.get(key)
        if pod is None or seconds is None or (plan is not None and plan.uid != pod["metadata"]["uid"]):
            self._give_up(key)
            plan = None
        if pod is None or seconds is None:
            return
        now = self._clock.monotonic()
        if plan is not None and plan.when > now and None in _tolerations_for(pod, taints):
            self._give_up(key)
            plan = None
        if plan is None:
            plan = self._plans[key] = _Plan(pod["metadata"]["uid"], now + seconds)
        if plan.when > now:
            self.queue.add_after(key, plan.when - now)
        else:
            await self._evict(key, pod)

    async def _evict(self, key: str, pod: Obj) -> None:
        """Delete a pod. Upstream: `addConditionAndDeletePod`."""
        if "deletionTimestamp" not in pod["metadata"]:
            condition: Obj = dict(CONDITION)
            if self._gates[features.POD_OBSERVED_GENERATION_TRACKING]:
                condition["observedGeneration"] = pod["metadata"]["generation"]
            self._tell(key, "Marking for deletion Pod")
            with ignore_not_found():
                await add_condition_and_delete(self._client, pod, condition)
        self._plans.pop(key, None)

    def _give_up(self, key: str) -> None:
        if self._plans.pop(key, None) is not None:
            self._tell(key, "Cancelling deletion of Pod")

    def _tell(self, key: str, what: str) -> None:
        namespace, _, name = key.partition("/")
        about = {"metadata": {"namespace": namespace, "name": name}}
        self._events.event(PODS, about, "Normal", EVENT, f"{what} {key}")


def _no_execute(node: Obj | None) -> list[Obj]:
    """Return the taints of a node that evict pods."""
    taints = nested_field(node, "spec", "taints", default=())
    return [taint for taint in taints if taint["effect"] == "NoExecute"]


def _tolerated(pod: Obj, taints: list[Obj]) -> float | None:
    """Return for how many seconds a pod tolerates taints, None for ever. Upstream: `getMinTolerationTime`."""
    limits = [0 if each is None else each.get("tolerationSeconds") for each in _tolerations_for(pod, taints)]
    return min((max(0, limit) for limit in limits if limit is not None), default=None)


def _tolerations_for(pod: Obj, taints: list[Obj]) -> list[Obj | None]:
    """Return the toleration of a pod for each taint, None for one that it does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or ()
    return [next((each for each in tolerations if tolerates(each, taint)), None) for taint in taints]
