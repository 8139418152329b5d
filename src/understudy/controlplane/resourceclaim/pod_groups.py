"""Groups of pods, which may have claims that all their pods share (1.36: `DRAWorkloadResourceClaims`)."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.pod_claims import group_name
from understudy.controlplane.client.resources import pod_groups
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj


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
