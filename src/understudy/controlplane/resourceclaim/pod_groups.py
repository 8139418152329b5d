"""Groups of pods, which may have claims that all their pods share (1.36: `DRAWorkloadResourceClaims`)."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.pod_claims import SCHEDULING, entries_of, group_name
from understudy.controlplane.client.resources import Resource
from understudy.machinery.releases.version import V1_31, V1_37, ByRelease, Version
from understudy.machinery.types import Obj

_API = ByRelease({V1_37: "v1beta1", V1_31: "v1alpha2"})


def pod_groups(release: Version) -> Resource:
    """Return PodGroups in the version that the controller of a release uses."""
    return Resource(SCHEDULING, _API[release], "podgroups", "PodGroup")


class PodGroups:
    """The groups that there are; none without the feature.

    resource  PodGroups in the version of the release
    """

    def __init__(self, resource: Resource, informer: Informer | None) -> None:
        self.resource = resource
        self._store = informer.store if informer is not None else None

    @property
    def enabled(self) -> bool:
        """Report whether groups may have claims."""
        return self._store is not None

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return a group, None if there is none."""
        return self._store.get(namespace, name) if self._store is not None else None

    def of_pod(self, pod: Obj) -> Obj | None:
        """Return the group of a pod, None for a pod without one. Raises TryAgainError for a group that is missing."""
        name = group_name(pod)
        if self._store is None or not name:
            return None
        group = self._store.get(pod["metadata"]["namespace"], name)
        if group is None:
            raise TryAgainError(f"PodGroup {pod['metadata']['namespace']}/{name} not found")
        return group

    def is_of_group(self, group: Obj | None, entry: Obj) -> bool:
        """Report whether an entry of a pod is one of its group as well. Upstream: `BindTo`."""
        fields = ("name", "resourceClaimName", "resourceClaimTemplateName")
        return group is not None and any(
            all(of_group.get(field) == entry.get(field) for field in fields) for of_group in entries_of(group)
        )

    def consumer(self, pod: Obj, group: Obj | None, entry: Obj) -> Obj:
        """Return for whom the claim of an entry of a pod is reserved: for its group, or for the pod."""
        if group is not None and self.is_of_group(group, entry):
            metadata = group["metadata"]
            kind = {"apiGroup": SCHEDULING, "resource": self.resource.plural}
            return {**kind, "name": metadata["name"], "uid": metadata["uid"]}
        return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
