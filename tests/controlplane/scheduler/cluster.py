"""The scheduler of 1.37 in memory, without a server."""

from __future__ import annotations

from tests.controlplane.scheduler.objects import device_class, node_obj, resource_slice
from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Scheduler
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.runtime import Framework
from understudy.controlplane.scheduler.group_cycle import GroupOutcome, GroupScheduler
from understudy.controlplane.scheduler.plugins.defaults import default_plugins
from understudy.controlplane.scheduler.pod_groups import PodGroups
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import Obj

GATES = ("GenericWorkload", "DRAWorkloadResourceClaims", "DRANodeAllocatableResources")


class Cluster:
    """A scheduler that knows groups and all that devices can do, with the nodes of some names, each with a device."""

    def __init__(self, *nodes: str, without: str = "") -> None:
        gates = Gates.of(V1_37, {gate: gate != without for gate in GATES})
        self.cache = NodeCache()
        self.devices = Devices(V1_37, gates)
        self.claims = ClaimTracker(self.devices.allocated)
        self.groups = PodGroups(self.cache)
        self.plugins = default_plugins(V1_37, gates, self.cache, self.claims, self.devices, self.groups)
        framework = Framework(self.plugins)
        self.scheduler = Scheduler(framework, self.cache, V1_37)
        self.of_groups = GroupScheduler(self.scheduler, framework, self.groups)
        self.devices.put_class(device_class())
        for name in nodes:
            self.cache.set_node(node_obj(name))
            self.devices.put_slice(resource_slice(name))

    def schedule(self, group: Obj, *pods: PodInfo) -> GroupOutcome:
        """Make an attempt for a group and its waiting pods."""
        self.groups.put(group)
        for each in pods:
            self.groups.put_pod(each)
        return self.of_groups.schedule(group, pods)
