"""Taints nodes by their conditions, so that the scheduler passes over those that are not ready.

    new Node                       has the taint node.kubernetes.io/not-ready, from admission
    condition Ready is False       keeps it; Unknown has node.kubernetes.io/unreachable
    Ready is True, or not known    loses it
    spec.unschedulable (a cordon)  has node.kubernetes.io/unschedulable; pressures have their own taints

All have the effect NoSchedule. Heartbeats, and the taints that evict pods, are the part of `node_health`.

Source: `doNoScheduleTaintingPass` and `reconcileNodeLabels` of k8s.io/kubernetes/pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import timestamp

PREFIX = "/registry/minions/"
ACCOUNT = "node-controller"
NO_SCHEDULE = "NoSchedule"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# The taint of a condition with a status.
TAINTS = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
OWN_TAINTS = {UNSCHEDULABLE, *TAINTS.values()}
# The labels of an older name that have the value of a newer one.
OLDER_LABELS = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


class NodeLifecycleController(Controller[str]):
    """Keeps the taints of nodes, and two labels; keys are names of nodes."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._clock = context.state.clock
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(ACCOUNT))
        informers.of(PREFIX).on_change(lambda entry: self.queue.add(entry.key.removeprefix(PREFIX)))

    async def sync(self, key: str) -> None:
        """Add the taints that a node lacks, then remove those that it should not have, then mend its labels."""
        for changes in (self._taints_added, self._taints_removed, _labels_mended):
            node = self._registry.lookup("", "nodes", "", key)
            if node is None:
                return
            patch = changes(node)
            if patch is None:
                continue
            with ignore_not_found():
                await self._client.patch(resource_path("", "v1", "nodes", "", key), patch)

    def _taints_added(self, node: Obj) -> Obj | None:
        taints = _spec(node).get("taints") or []
        keys = [key for key in _keys(node) if not any(_is_of_schedule(taint, key) for taint in taints)]
        now = timestamp(self._clock.now())
        added = [{"key": key, "effect": NO_SCHEDULE, "timeAdded": now} for key in keys]
        return _patch_of_taints(node, [*taints, *added]) if added else None

    def _taints_removed(self, node: Obj) -> Obj | None:
        taints, keys = _spec(node).get("taints") or [], _keys(node)
        kept = [taint for taint in taints if not _is_own(taint) or taint["key"] in keys]
        return _patch_of_taints(node, kept) if kept != taints else None


def _spec(node: Obj) -> Obj:
    return node.get("spec") or {}


def _keys(node: Obj) -> list[str]:
    """Return the keys of the taints that a node should have."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    keys = [TAINTS.get((condition["type"], condition["status"]), "") for condition in conditions]
    keys += [UNSCHEDULABLE] if _spec(node).get("unschedulable") else []
    return list(dict.fromkeys(filter(None, keys)))


def _is_of_schedule(taint: Obj, key: str) -> bool:
    return bool(taint["key"] == key and taint["effect"] == NO_SCHEDULE)


def _is_own(taint: Obj) -> bool:
    return taint["effect"] == NO_SCHEDULE and taint["key"] in OWN_TAINTS


def _patch_of_taints(node: Obj, taints: list[Obj]) -> Obj:
    """Return a patch that replaces the taints of a node, unless that has changed meanwhile."""
    return {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints or None}}


def _labels_mended(node: Obj) -> Obj | None:
    labels = node["metadata"].get("labels") or {}
    wrong = {
        older: labels[name]
        for name, older in OLDER_LABELS.items()
        if name in labels and labels.get(older) != labels[name]
    }
    return {"metadata": {"labels": wrong}} if wrong else None
