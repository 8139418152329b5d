"""Features that a pod needs of its node's kubelet, which declares them in `status.declaredFeatures`.

https://kubernetes.io/docs/concepts/scheduling-eviction/node-declared-features/ (upstream: the plugin, and
`component-helpers/nodedeclaredfeatures`, which says what needs a feature).
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger, declared_features
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import SKIP, CycleState, Plugin, Skip
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, unresolvable
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_31, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj

TEXT = ByRelease(
    {
        V1_31: "node declared features check failed - unsatisfied requirements: {missing}",
        V1_36: "node(s) didn't match Pod's required features",
    }
)


class NodeDeclaredFeatures(Plugin):
    """Keeps pods off nodes that do not declare a feature which the pod needs."""

    name = "NodeDeclaredFeatures"
    triggers = (Trigger(Kind.NODE, Action.ADD), Trigger(Kind.NODE, Action.UPDATE_FEATURES))

    def __init__(self, version: Version) -> None:
        self._version = version

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Skip | None:
        """Skip pods that need none."""
        return None if any(_needed(pod.spec, self._version)) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node that lacks a feature."""
        declared = declared_features(node.obj)
        missing = ", ".join(sorted(name for name in _needed(pod.spec, self._version) if name not in declared))
        return unresolvable(TEXT[self._version].format(missing=missing)) if missing else None

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether a node is new or declares other features than before."""
        return event.old is None or event.new is None or declared_features(event.old) != declared_features(event.new)


def _needed(spec: Obj, version: Version) -> Iterator[str]:
    """Yield the features that a pod needs of its node (upstream: `InferForScheduling`)."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ()), *(spec.get("ephemeralContainers") or ())]
    rules = [rule for container in containers for rule in container.get("restartPolicyRules") or ()]
    if any(rule["action"] == "RestartAllContainers" for rule in rules):
        yield str(features.RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS)
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield str(features.USER_NAMESPACES_HOST_NETWORK_SUPPORT)
    mounts = (mount for container in containers for mount in container.get("volumeMounts") or ())
    if version >= V1_37 and any(mount.get("bindMountOptions") for mount in mounts):
        yield str(features.VOLUME_BIND_MOUNT_OPTIONS)
