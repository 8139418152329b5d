"""Removes the finalizer of a PodGroup that is being deleted once no pod of it may run any more.

The admission plugin PodGroupProtection adds it. Source: k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection.
"""

from __future__ import annotations

from understudy.admission.plugins.scheduling.pod_groups import FINALIZER
from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.controlplane.client.pod_claims import group_name
from understudy.machinery.errors import ignore_not_found
from understudy.machinery.types import Obj, nested_field

GROUP, RESOURCE = "scheduling.k8s.io", "podgroups"
PREFIX, PODS = "/registry/podgroups/", "/registry/pods/"
ACCOUNT = "podgroup-protection-controller"


class PodGroupProtectionController(Controller[str]):
    """Lets deleted groups go; keys are "namespace/name"."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(ACCOUNT))
        informers.of(PREFIX).on_change(lambda entry: self.queue.add(entry.key.removeprefix(PREFIX)))
        informers.of(PODS).on_change(self._pod_changed)

    def _pod_changed(self, entry: Entry) -> None:
        if name := group_name(entry.value):
            self.queue.add(f"{entry.value['metadata']['namespace']}/{name}")

    async def sync(self, key: str) -> None:
        """Remove the finalizer of a deleted group without pods that may run."""
        namespace, _, name = key.partition("/")
        kind = self._registry.resources.of_resource(GROUP, RESOURCE)
        group = self._registry.lookup(GROUP, RESOURCE, namespace, name)
        if kind is None or group is None or "deletionTimestamp" not in group["metadata"]:
            return
        finalizers = group["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers or self._is_used(namespace, name):
            return
        version, kept = group["metadata"]["resourceVersion"], [each for each in finalizers if each != FINALIZER]
        patch: Obj = {"metadata": {"resourceVersion": version, "finalizers": kept}}
        with ignore_not_found():
            await self._client.patch(resource_path(GROUP, kind.versions[0], RESOURCE, namespace, name), patch)

    def _is_used(self, namespace: str, name: str) -> bool:
        """Report whether a pod of a group may still run."""
        pods = self._registry.listing("", "pods", namespace)
        phases = [nested_field(pod, "status", "phase") for pod in pods if group_name(pod) == name]
        return any(phase not in ("Succeeded", "Failed") for phase in phases)
