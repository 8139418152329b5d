"""PodSchedulingContexts, by which 1.31 asks for devices of a pod that has a node already."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.resources import Resource
from understudy.machinery.types import Obj

CONTEXTS = Resource("resource.k8s.io", "v1alpha3", "podschedulingcontexts", "PodSchedulingContext")


class SchedulingContexts:
    """Makes the scheduling contexts of pods that got their node without a scheduler that knows claims."""

    def __init__(self, client: APIClient, informers: Informers) -> None:
        self._client = client
        self._store = informers.of(CONTEXTS).store

    def is_missing(self, pod: Obj) -> bool:
        """Report whether a pod with a node has no context, or one for another node."""
        context = self._of(pod)
        return context is None or context["spec"].get("selectedNode") != pod["spec"]["nodeName"]

    async def ensure(self, pod: Obj) -> None:
        """Make the context of a pod name the pod's node. Upstream: `ensurePodSchedulingContext`."""
        context, metadata = self._of(pod), pod["metadata"]
        spec = {"selectedNode": pod["spec"]["nodeName"]}
        if context is not None:
            if self.is_missing(pod):
                await self._client.update(CONTEXTS, {**context, "spec": {**context["spec"], **spec}})
            return
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        named = {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]}
        await self._client.create(CONTEXTS, {"metadata": named, "spec": spec})

    def _of(self, pod: Obj) -> Obj | None:
        return self._store.get(pod["metadata"]["namespace"], pod["metadata"]["name"])
