"""Says why an object does not get on: which program it waits for that does not run here, and how to run that.

    a deleted namespace   namespace a stays until its content is deleted: --controllers=namespace does that
    a pod without a node  pod default/p has no node: --controllers=scheduler finds one

Only objects that no component acts on count: one that a scheduler, kubelet or controller next to the server has touched
says in its status what it waits for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from understudy.kinds.declarations.kind import Kind
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.util.clock import parse_timestamp

LEASE_SECONDS = 40.0  # for which a program counts as running after it has renewed its lease
# The leases of programs next to the server, in these namespaces: each kubelet's has the name of its node.
SYSTEM, NODES = "kube-system", "kube-node-lease"
MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
# Finalizers of kube-controller-manager, and the controller here that removes them.
FINALIZERS = {
    "foregroundDeletion": "garbage-collector",
    "orphan": "garbage-collector",
    "resource.kubernetes.io/delete-protection": "resourceclaim",
    "kubernetes.io/pvc-protection": "",
    "kubernetes.io/pv-protection": "",
}
WORKLOADS = {("apps", resource) for resource in ("deployments", "replicasets", "statefulsets", "daemonsets")}
WORKLOADS |= {("", "replicationcontrollers")}
REMAINING = ("NamespaceContentRemaining", "NamespaceFinalizersRemaining")
CONTROLLER_MANAGER = "that takes kube-controller-manager beside this server, which has no flag for it"
POD = ("", "pods")


class Hint(NamedTuple):
    """Something to say once. Hints of one topic ("namespace", "scheduler") say the same, perhaps of other objects."""

    topic: str
    text: str


class Objects(Protocol):
    """Finds what is stored, as `Registry` does."""

    def lookup(self, group: str, resource: str, namespace: str, name: str) -> Obj | None:
        """Return an object, None if there is none."""

    def listing(self, group: str, resource: str, namespace: str = "") -> list[Obj]:
        """Return the objects of a namespace."""


class Waits:
    """Explains what stored objects wait for.

    controllers  names of those that run behind the server, which need no hint
    """

    def __init__(self, objects: Objects, controllers: Collection[str]) -> None:
        self._objects = objects
        self._controllers = controllers

    def hint(self, kind: Kind, obj: Obj, now: float) -> Hint | None:
        """Return the hint about an object that a client waits for; `now` is in seconds since 1970."""
        resource, name = (kind.group, kind.resource), _name(kind.singular, obj)
        managed = self._renews_lease(SYSTEM, MANAGER, now)
        if "deletionTimestamp" in obj["metadata"]:
            if resource == ("", "namespaces"):
                return self._of_deleted_namespace(name, obj, now, managed)
            if not managed and (hint := self._of_finalizers(name, obj)):
                return hint
        elif not managed and _makes_no_pods(resource, obj):
            return Hint("workloads", f"{name} makes no pods: {CONTROLLER_MANAGER}")
        return self._of_pod(name, obj, now) if resource == POD else None

    def _of_deleted_namespace(self, name: str, namespace: Obj, now: float, managed: bool) -> Hint | None:
        """Return a hint about a deleted namespace that is not gone: nothing empties it, or something in it stays."""
        if "namespace" not in self._controllers and not managed:
            if (namespace.get("status") or {}).get("conditions"):  # somebody else empties it
                return None
            return Hint("namespace", f"{name} stays until its content is deleted: --controllers=namespace does that")
        for pod in self._objects.listing("", "pods", namespace["metadata"]["name"]):
            if hint := self._of_pod(_name("pod", pod), pod, now):
                return hint
        conditions = (namespace.get("status") or {}).get("conditions") or ()
        wrong = [each["message"] for each in conditions if each["type"] in REMAINING and each["status"] == "True"]
        return Hint("namespace", f"{name} stays: {'; '.join(wrong)}") if wrong else None

    def _of_finalizers(self, name: str, obj: Obj) -> Hint | None:
        for finalizer in obj["metadata"].get("finalizers") or ():
            controller = FINALIZERS.get(finalizer)
            if controller is None or controller in self._controllers:
                continue
            way = f"--controllers={controller} does that" if controller else CONTROLLER_MANAGER
            return Hint(finalizer, f"{name} stays until its finalizer {finalizer} is removed: {way}")
        return None

    def _of_pod(self, name: str, pod: Obj, now: float) -> Hint | None:
        """Return a hint about a pod without a node, not started or not gone, if no component works on it."""
        node, status = pod["spec"].get("nodeName"), pod.get("status") or {}
        if not node:
            if status.get("conditions") or pod["spec"].get("schedulingGates"):
                return None
            if "scheduler" in self._controllers or self._renews_lease(SYSTEM, SCHEDULER, now):
                return None
            return Hint("scheduler", f"{name} has no node: --controllers=scheduler finds one, as `understudy dev` does")
        is_deleted = "deletionTimestamp" in pod["metadata"]
        if self._renews_lease(NODES, node, now) or (status.get("startTime") and not is_deleted):
            return None
        what = "stays until a kubelet has ended it (or kubectl delete --force)" if is_deleted else "does not start"
        way = f"`understudy kubelet --node {node} …` stands in for one, `understudy dev` has one for each node"
        return Hint(f"kubelet {what}", f"{name} {what}: node {node} has no kubelet; {way}")

    def _renews_lease(self, namespace: str, name: str, now: float) -> bool:
        """Report whether a program runs next to the server that renews a lease."""
        lease = self._objects.lookup("coordination.k8s.io", "leases", namespace, name) or {}
        renewed: str = (lease.get("spec") or {}).get("renewTime") or ""
        return bool(renewed) and parse_timestamp(renewed) > now - LEASE_SECONDS


def _makes_no_pods(resource: tuple[str, str], obj: Obj) -> bool:
    """Report whether no controller has looked at a workload as it is now."""
    status = obj.get("status") or {}
    if resource in WORKLOADS:
        return bool(status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0))
    return resource == ("batch", "jobs") and not status and not obj["spec"].get("suspend")


def _name(kind: str, obj: Obj) -> str:
    """Return the name of an object for people: `pod default/p`, `namespace a`."""
    metadata = obj["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{kind} {place}{metadata['name']}"
