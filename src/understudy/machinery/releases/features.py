"""Feature gates of a release: their names, and which of them are on.

    gates = Gates.of(V1_32, {"DRAAdminAccess": True})
    gates[features.DRA_ADMIN_ACCESS]                # whether it is on
    gates.set({"DRAAdminAccess": False})            # on a running server

`schemas/feature_gates.json` has every gate over time, as entries [since, stage, default]. Stages are ALPHA, BETA, ""
for general availability, DEPRECATED, and REMOVED for a gate that the release does not have any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple, NewType

import orjson

from understudy.machinery.releases.version import ByRelease, Version

Gate = NewType("Gate", str)

# The gates that rules ask for. Upstream: `k8s.io/kubernetes/pkg/features`.
ALLOW_SERVICE_LB_STATUS_ON_NON_LB = Gate("AllowServiceLBStatusOnNonLB")
CLUSTER_TRUST_BUNDLE_PROJECTION = Gate("ClusterTrustBundleProjection")
COORDINATED_LEADER_ELECTION = Gate("CoordinatedLeaderElection")
CROSS_NAMESPACE_VOLUME_DATA_SOURCE = Gate("CrossNamespaceVolumeDataSource")
DRA_ADMIN_ACCESS = Gate("DRAAdminAccess")
DRA_CONTROL_PLANE_CONTROLLER = Gate("DRAControlPlaneController")
DRA_RESOURCE_CLAIM_DEVICE_STATUS = Gate("DRAResourceClaimDeviceStatus")
DYNAMIC_RESOURCE_ALLOCATION = Gate("DynamicResourceAllocation")
HPA_SCALE_TO_ZERO = Gate("HPAScaleToZero")
IMAGE_VOLUME = Gate("ImageVolume")
IN_PLACE_POD_VERTICAL_SCALING = Gate("InPlacePodVerticalScaling")
IN_PLACE_POD_VERTICAL_SCALING_ALLOCATED_STATUS = Gate("InPlacePodVerticalScalingAllocatedStatus")
JOB_BACKOFF_LIMIT_PER_INDEX = Gate("JobBackoffLimitPerIndex")
JOB_MANAGED_BY = Gate("JobManagedBy")
JOB_POD_REPLACEMENT_POLICY = Gate("JobPodReplacementPolicy")
JOB_SUCCESS_POLICY = Gate("JobSuccessPolicy")
LOAD_BALANCER_IP_MODE = Gate("LoadBalancerIPMode")
MATCH_LABEL_KEYS_IN_POD_AFFINITY = Gate("MatchLabelKeysInPodAffinity")
MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD = Gate("MatchLabelKeysInPodTopologySpread")
MAX_UNAVAILABLE_STATEFUL_SET = Gate("MaxUnavailableStatefulSet")
NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD = Gate("NodeInclusionPolicyInPodTopologySpread")
ORDERED_NAMESPACE_DELETION = Gate("OrderedNamespaceDeletion")
POD_LEVEL_RESOURCES = Gate("PodLevelResources")
POD_LIFECYCLE_SLEEP_ACTION = Gate("PodLifecycleSleepAction")
POD_LIFECYCLE_SLEEP_ACTION_ALLOW_ZERO = Gate("PodLifecycleSleepActionAllowZero")
PROC_MOUNT_TYPE = Gate("ProcMountType")
RECOVER_VOLUME_EXPANSION_FAILURE = Gate("RecoverVolumeExpansionFailure")
RECURSIVE_READ_ONLY_MOUNTS = Gate("RecursiveReadOnlyMounts")
RELAXED_DNS_SEARCH_VALIDATION = Gate("RelaxedDNSSearchValidation")
RELAXED_ENVIRONMENT_VARIABLE_VALIDATION = Gate("RelaxedEnvironmentVariableValidation")
RESOURCE_HEALTH_STATUS = Gate("ResourceHealthStatus")
SELINUX_CHANGE_POLICY = Gate("SELinuxChangePolicy")
SELINUX_MOUNT = Gate("SELinuxMount")
SELINUX_MOUNT_READ_WRITE_ONCE_POD = Gate("SELinuxMountReadWriteOncePod")
SERVICE_TRAFFIC_DISTRIBUTION = Gate("ServiceTrafficDistribution")
SIDECAR_CONTAINERS = Gate("SidecarContainers")
STATEFUL_SET_AUTO_DELETE_PVC = Gate("StatefulSetAutoDeletePVC")
STATEFUL_SET_START_ORDINAL = Gate("StatefulSetStartOrdinal")
SUPPLEMENTAL_GROUPS_POLICY = Gate("SupplementalGroupsPolicy")
USER_NAMESPACES_POD_SECURITY_STANDARDS = Gate("UserNamespacesPodSecurityStandards")
USER_NAMESPACES_SUPPORT = Gate("UserNamespacesSupport")
VOLUME_ATTRIBUTES_CLASS = Gate("VolumeAttributesClass")
WATCH_LIST = Gate("WatchList")

STAGES = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
REMOVED = "REMOVED"


class UnknownGateError(ValueError):
    """Names that no gate of the release has: `names`."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        super().__init__(f"unrecognized feature gate: {', '.join(names)}")


class FeatureSpec(NamedTuple):
    """The stage and the default of a gate in one release (`featuregate.FeatureSpec`)."""

    stage: str
    default: bool


class Gates:
    """The gates of one release and whether each is on (`featuregate.MutableFeatureGate`).

    Defaults are those of the release, but for DynamicResourceAllocation, which is always on at first. Rules may ask for
    gates of other releases too: one that came later is off, one that was removed keeps its last default.
    """

    def __init__(self, specs: Mapping[Gate, FeatureSpec | None]) -> None:
        self._known = {gate: spec for gate, spec in specs.items() if spec and spec.stage != REMOVED}
        self._defaults = {gate: spec is not None and spec.default for gate, spec in specs.items()}
        self._defaults[DYNAMIC_RESOURCE_ALLOCATION] = True
        self._on = dict(self._defaults)

    @staticmethod
    def of(release: Version, changes: Mapping[str, bool] | None = None) -> Gates:
        """Return the gates of a release, with changes as users write them. Raises UnknownGateError."""
        gates = Gates({gate: history.get(release) for gate, history in _histories().items()})
        gates.set(changes or {})
        return gates

    def __getitem__(self, gate: Gate) -> bool:
        """Report whether a gate is on. Raises KeyError for a name that no release ever had."""
        return self._on[gate]

    def set(self, changes: Mapping[str, bool]) -> None:
        """Turn gates on and off, AllAlpha and AllBeta before the others.

        Raises UnknownGateError, with nothing changed.
        """
        unknown = [name for name in changes if name not in self._known]
        if unknown:
            raise UnknownGateError(unknown)
        for every, stage in STAGES.items():
            if every in changes:
                self._on |= {gate: changes[every] for gate, spec in self._known.items() if spec.stage == stage}
        self._on |= {Gate(name): on for name, on in changes.items()}

    def reset(self, changes: Mapping[str, bool]) -> None:
        """Turn every gate to its default, then make the changes. Raises UnknownGateError."""
        self._on = dict(self._defaults)
        self.set(changes)

    def in_force(self) -> dict[str, bool]:
        """Return {gate: on} for every gate of the release, sorted by name."""
        return {gate: self._on[gate] for gate in sorted(self._known)}

    def described(self) -> dict[str, tuple[str, bool]]:
        """Return {gate: (stage, on)} for every gate of the release, sorted by name."""
        return {gate: (self._known[gate].stage, self._on[gate]) for gate in sorted(self._known)}


@cache
def _histories() -> dict[Gate, ByRelease[FeatureSpec]]:
    """Return every gate that a release ever had, with what it was from each release on."""
    table = orjson.loads((resources.files("understudy.schemas") / "feature_gates.json").read_bytes())
    return {
        Gate(name): ByRelease({Version.parse(since): FeatureSpec(stage, default) for since, stage, default in history})
        for name, history in table.items()
    }
