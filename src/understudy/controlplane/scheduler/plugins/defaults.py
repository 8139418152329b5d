"""The plugins in the order in which they run. Upstream: `getDefaultPlugins`."""

from __future__ import annotations

from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.plugin import Plugin
from understudy.controlplane.scheduler.plugins.default_preemption import DefaultPreemption
from understudy.controlplane.scheduler.plugins.dynamicresources.dynamic_resources import DynamicResources
from understudy.controlplane.scheduler.plugins.gang_scheduling import GangScheduling
from understudy.controlplane.scheduler.plugins.node_affinity import NodeAffinity
from understudy.controlplane.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from understudy.controlplane.scheduler.plugins.node_name import NodeName
from understudy.controlplane.scheduler.plugins.node_ports import NodePorts
from understudy.controlplane.scheduler.plugins.node_resources import Fit
from understudy.controlplane.scheduler.plugins.node_unschedulable import NodeUnschedulable
from understudy.controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from understudy.controlplane.scheduler.plugins.taint_toleration import TaintToleration
from understudy.controlplane.scheduler.pod_groups import PodGroups
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.util.clock import SYSTEM_CLOCK, Clock


def default_plugins(
    version: Version,
    gates: Gates,
    cache: NodeCache,
    claims: ClaimTracker,
    devices: Devices,
    groups: PodGroups | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> list[Plugin]:
    """Return the plugins of a release. `groups`: the groups of pods, None if pods have none."""
    return [
        SchedulingGates(),
        NodeUnschedulable(gates),
        NodeName(),
        TaintToleration(version, gates),
        NodeAffinity(),
        NodePorts(),
        Fit(version, devices.class_of),
        DynamicResources(version, gates, claims, devices, groups, lambda: clock.now()),
        DefaultPreemption(cache),
        *([NodeDeclaredFeatures(version)] if gates[features.NODE_DECLARED_FEATURES] else []),
        *([GangScheduling(groups)] if groups is not None else []),
    ]
