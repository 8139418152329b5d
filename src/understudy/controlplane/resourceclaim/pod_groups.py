"""Groups of pods, which may have claims that all their pods share (1.36: `DRAWorkloadResourceClaims`)."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.pod_claims import SCHEDULING, entries_of, group_name
from understudy.controlplane.client.resources import Resource, preferred_version
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj


def pod_groups(version: Version) -> Resource:
    """Return PodGroups in the version that the controller of a release uses."""
    return Resource(SCHEDULING, preferred_version(version, SCHEDULING, "PodGroup"), "podgroups", "PodGroup")


class NoGroupsError(Exception):
    """A pod of a group whose claims are not looked at, now or later, since there are no groups of pods."""


class PodGroups:
    """The groups that there are.

    resource  PodGroups in the version of the release
    enabled   whether groups may have claims
    informer  follows the groups, None if there are none
    """

    def __init__(self, version: Version, gates: Gates, informers: Informers) -> None:
        self.resource = pod_groups(version)
        self.enabled = gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]
        self._needs_kind = version >= V1_37  # before, pods of groups were like all others without the feature
        is_followed = self.enabled or (self._needs_kind and gates[features.GENERIC_WORKLOAD])
        self.informer = informers.of(self.resource) if is_followed else None
        self._store = self.informer.store if self.informer is not None else None

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return a group, None if there is none."""
        return self._store.get(namespace, name) if self._store is not None else None

    def of_pod(self, pod: Obj) -> Obj | None:
        """Return the group of a pod, None for a pod without one.

        Raises TryAgainError for a group that is missing, NoGroupsError without the feature gate GenericWorkload.
        """
        name = group_name(pod)
        if not name:
            return None
        if self._store is None:
            if self._needs_kind:
                raise NoGroupsError(f"Pod is a member of PodGroup {name} but GenericWorkload feature is disabled")
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
