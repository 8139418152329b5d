"""Feature gates of a release: their names, and which of them are on.

    gates = Gates.of(V1_32, {"DRAAdminAccess": True})
    gates[features.DRA_ADMIN_ACCESS]                # whether it is on
    gates.set({"DRAAdminAccess": False})            # on a running server

`schemas/feature_gates.json` has every gate over time, as entries [since, stage, default, locked]. Stages are ALPHA,
BETA, "" for general availability, DEPRECATED, and REMOVED for a gate that the release does not have any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NewType

import orjson

from understudy.machinery.releases.recorded import read_release_file
from understudy.machinery.releases.version import V1_31, ByRelease, Version
from understudy.machinery.types import NamedTuple
from understudy.machinery.util.spelling import did_you_mean
from understudy.schemas import SCHEMAS

Gate = NewType("Gate", str)

# The gates that rules ask for. Upstream: `k8s.io/kubernetes/pkg/features`.
AGGREGATED_DISCOVERY_REMOVE_BETA_TYPE = Gate("AggregatedDiscoveryRemoveBetaType")
ALLOW_INSECURE_KUBELET_CERTIFICATE_SIGNING_REQUESTS = Gate("AllowInsecureKubeletCertificateSigningRequests")
ALLOW_PARSING_USER_UID_FROM_CERT_AUTH = Gate("AllowParsingUserUIDFromCertAuth")
ALLOW_SERVICE_LB_STATUS_ON_NON_LB = Gate("AllowServiceLBStatusOnNonLB")
ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION = Gate("AllowUnsafeMalformedObjectDeletion")
ANONYMOUS_AUTH_CONFIGURABLE_ENDPOINTS = Gate("AnonymousAuthConfigurableEndpoints")
API_SERVER_IDENTITY = Gate("APIServerIdentity")
JWKS_METRICS = Gate("StructuredAuthenticationConfigurationJWKSMetrics")
API_SERVER_TRACING = Gate("APIServerTracing")
API_SERVER_WEBHOOK_AUTHENTICATION_TOKEN = Gate("APIServerWebhookAuthenticationToken")
ATOMIC_WRITE_VOLUME_USER_FIELDS = Gate("AtomicWriteVolumeUserFields")
AUTHORIZE_NODE_WITH_SELECTORS = Gate("AuthorizeNodeWithSelectors")
AUTHORIZE_POD_WEBSOCKET_UPGRADE_CREATE_PERMISSION = Gate("AuthorizePodWebsocketUpgradeCreatePermission")
AUTHORIZE_WITH_SELECTORS = Gate("AuthorizeWithSelectors")
CBOR_SERVING_AND_STORAGE = Gate("CBORServingAndStorage")
CLEARING_NOMINATED_NODE_NAME_AFTER_BINDING = Gate("ClearingNominatedNodeNameAfterBinding")
CLUSTER_TRUST_BUNDLE = Gate("ClusterTrustBundle")
CLUSTER_TRUST_BUNDLE_PROJECTION = Gate("ClusterTrustBundleProjection")
COMPONENT_FLAGZ = Gate("ComponentFlagz")
COMPONENT_STATUSZ = Gate("ComponentStatusz")
COMPOSITE_POD_GROUP = Gate("CompositePodGroup")
CONSTRAINED_IMPERSONATION = Gate("ConstrainedImpersonation")
CONTAINER_RESTART_RULES = Gate("ContainerRestartRules")
CONTAINER_STOP_SIGNALS = Gate("ContainerStopSignals")
COORDINATED_LEADER_ELECTION = Gate("CoordinatedLeaderElection")
CRD_VALIDATION_RATCHETING = Gate("CRDValidationRatcheting")
CROSS_NAMESPACE_VOLUME_DATA_SOURCE = Gate("CrossNamespaceVolumeDataSource")
CSI_SERVICE_ACCOUNT_TOKEN_SECRETS = Gate("CSIServiceAccountTokenSecrets")
CSI_VOLUME_HEALTH = Gate("CSIVolumeHealth")
CUSTOM_RESOURCE_FIELD_SELECTORS = Gate("CustomResourceFieldSelectors")
DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS = Gate("DeploymentReplicaSetTerminatingReplicas")
DISABLE_ALLOCATOR_DUAL_WRITE = Gate("DisableAllocatorDualWrite")
DRA_ADMIN_ACCESS = Gate("DRAAdminAccess")
DRA_CONSUMABLE_CAPACITY = Gate("DRAConsumableCapacity")
DRA_CONTROL_PLANE_CONTROLLER = Gate("DRAControlPlaneController")
DRA_DERIVED_ATTRIBUTES = Gate("DRADerivedAttributes")
DRA_DEVICE_BINDING_CONDITIONS = Gate("DRADeviceBindingConditions")
DRA_DEVICE_COMPATIBILITY_GROUPS = Gate("DRADeviceCompatibilityGroups")
DRA_DEVICE_TAINTS = Gate("DRADeviceTaints")
DRA_DEVICE_TAINT_RULES = Gate("DRADeviceTaintRules")
DRA_EXTENDED_RESOURCE = Gate("DRAExtendedResource")
DRA_FRACTIONAL_CAPACITY_RANGE = Gate("DRAFractionalCapacityRange")
DRA_LIST_TYPE_ATTRIBUTES = Gate("DRAListTypeAttributes")
DRA_NODE_ALLOCATABLE_RESOURCES = Gate("DRANodeAllocatableResources")
DRA_OPTIONAL_NODE_OPERATIONS = Gate("DRAOptionalNodeOperations")
DRA_PARTITIONABLE_DEVICES = Gate("DRAPartitionableDevices")
DRA_PARTITIONABLE_DEVICES_TYPE = Gate("DRAPartitionableDevicesType")
DRA_PRIORITIZED_LIST = Gate("DRAPrioritizedList")
DRA_RESOURCE_CLAIM_DEVICE_STATUS = Gate("DRAResourceClaimDeviceStatus")
DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION = Gate("DRAResourceClaimGranularStatusAuthorization")
DRA_WORKLOAD_RESOURCE_CLAIMS = Gate("DRAWorkloadResourceClaims")
DYNAMIC_RESOURCE_ALLOCATION = Gate("DynamicResourceAllocation")
EMPTY_DIR_VOLUME_MODE = Gate("EmptyDirVolumeMode")
ENV_FILES = Gate("EnvFiles")
EVICTION_REQUEST_API = Gate("EvictionRequestAPI")
EXCLUDE_ADMISSION_WEBHOOK_VIRTUAL_RESOURCES = Gate("ExcludeAdmissionWebhookVirtualResources")
EXTEND_WEB_SOCKETS_TO_KUBELET = Gate("ExtendWebSocketsToKubelet")
GENERIC_WORKLOAD = Gate("GenericWorkload")
GIT_REPO_VOLUME_DRIVER = Gate("GitRepoVolumeDriver")
GRPC_CONTAINER_PROBE_TLS = Gate("GRPCContainerProbeTLS")
H2C_CONTAINER_PROBE = Gate("H2CContainerProbe")
HOSTNAME_OVERRIDE = Gate("HostnameOverride")
HPA_CONFIGURABLE_TOLERANCE = Gate("HPAConfigurableTolerance")
HPA_GENERATION = Gate("HPAGeneration")
HPA_SCALE_TO_ZERO = Gate("HPAScaleToZero")
IMAGE_VOLUME = Gate("ImageVolume")
IMAGE_VOLUME_WITH_DIGEST = Gate("ImageVolumeWithDigest")
IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING = Gate("InPlacePodLevelResourcesVerticalScaling")
IN_PLACE_POD_VERTICAL_SCALING = Gate("InPlacePodVerticalScaling")
IN_PLACE_POD_VERTICAL_SCALING_ALLOCATED_STATUS = Gate("InPlacePodVerticalScalingAllocatedStatus")
IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS = Gate("InPlacePodVerticalScalingInitContainers")
IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES = Gate("InPlacePodVerticalScalingMemoryBackedVolumes")
IN_PLACE_POD_VERTICAL_SCALING_SCHEDULER_PREEMPTION = Gate("InPlacePodVerticalScalingSchedulerPreemption")
JOB_BACKOFF_LIMIT_PER_INDEX = Gate("JobBackoffLimitPerIndex")
JOB_MANAGED_BY = Gate("JobManagedBy")
JOB_POD_REPLACEMENT_POLICY = Gate("JobPodReplacementPolicy")
JOB_SUCCESS_POLICY = Gate("JobSuccessPolicy")
KUBELET_SERVICE_ACCOUNT_TOKEN_FOR_CREDENTIAL_PROVIDERS = Gate("KubeletServiceAccountTokenForCredentialProviders")
LIST_FROM_CACHE_SNAPSHOT = Gate("ListFromCacheSnapshot")
LOAD_BALANCER_IP_MODE = Gate("LoadBalancerIPMode")
MANIFEST_BASED_ADMISSION_CONTROL_CONFIG = Gate("ManifestBasedAdmissionControlConfig")
MATCH_LABEL_KEYS_IN_POD_AFFINITY = Gate("MatchLabelKeysInPodAffinity")
MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD = Gate("MatchLabelKeysInPodTopologySpread")
MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD_SELECTOR_MERGE = Gate("MatchLabelKeysInPodTopologySpreadSelectorMerge")
MAX_UNAVAILABLE_STATEFUL_SET = Gate("MaxUnavailableStatefulSet")
MULTI_CIDR_SERVICE_ALLOCATOR = Gate("MultiCIDRServiceAllocator")
MUTABLE_CSI_NODE_ALLOCATABLE_COUNT = Gate("MutableCSINodeAllocatableCount")
MUTABLE_POD_RESOURCES_FOR_SUSPENDED_JOBS = Gate("MutablePodResourcesForSuspendedJobs")
MUTABLE_PV_NODE_AFFINITY = Gate("MutablePVNodeAffinity")
MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS = Gate("MutableSchedulingDirectivesForSuspendedJobs")
MUTATING_ADMISSION_POLICY = Gate("MutatingAdmissionPolicy")
NATIVE_HISTOGRAMS = Gate("NativeHistograms")
NODE_DECLARED_FEATURES = Gate("NodeDeclaredFeatures")
NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD = Gate("NodeInclusionPolicyInPodTopologySpread")
NOMINATED_NODE_NAME_FOR_EXPECTATION = Gate("NominatedNodeNameForExpectation")
ORDERED_NAMESPACE_DELETION = Gate("OrderedNamespaceDeletion")
POD_CERTIFICATE_REQUEST = Gate("PodCertificateRequest")
POD_GROUP_PREEMPTION_POLICY = Gate("PodGroupPreemptionPolicy")
POD_LEVEL_RESOURCES = Gate("PodLevelResources")
POD_LEVEL_RESOURCES_FIX_DEFAULTING = Gate("PodLevelResourcesFixDefaulting")
POD_LEVEL_RESOURCES_FIX_QOS = Gate("PodLevelResourcesFixKubeletQOSClass")
POD_LIFECYCLE_SLEEP_ACTION = Gate("PodLifecycleSleepAction")
POD_LIFECYCLE_SLEEP_ACTION_ALLOW_ZERO = Gate("PodLifecycleSleepActionAllowZero")
POD_OBSERVED_GENERATION_TRACKING = Gate("PodObservedGenerationTracking")
POD_READY_TO_START_CONTAINERS_CONDITION = Gate("PodReadyToStartContainersCondition")
POD_TOPOLOGY_LABELS_ADMISSION = Gate("PodTopologyLabelsAdmission")
PORT_FORWARD_WEBSOCKETS = Gate("PortForwardWebsockets")
PREFER_SAME_TRAFFIC_DISTRIBUTION = Gate("PreferSameTrafficDistribution")
PROC_MOUNT_TYPE = Gate("ProcMountType")
RECOVER_VOLUME_EXPANSION_FAILURE = Gate("RecoverVolumeExpansionFailure")
RECURSIVE_READ_ONLY_MOUNTS = Gate("RecursiveReadOnlyMounts")
RELAXED_DNS_SEARCH_VALIDATION = Gate("RelaxedDNSSearchValidation")
RELAXED_ENVIRONMENT_VARIABLE_VALIDATION = Gate("RelaxedEnvironmentVariableValidation")
RELAXED_SERVICE_NAME_VALIDATION = Gate("RelaxedServiceNameValidation")
REMOTE_REQUEST_HEADER_UID = Gate("RemoteRequestHeaderUID")
RESOURCE_HEALTH_STATUS = Gate("ResourceHealthStatus")
RESOURCE_HEALTH_STATUS_MESSAGE = Gate("ResourceHealthStatusMessage")
RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS = Gate("RestartAllContainersOnContainerExits")
SCHEDULER_POP_FROM_BACKOFF_Q = Gate("SchedulerPopFromBackoffQ")
SCHEDULER_QUEUEING_HINTS = Gate("SchedulerQueueingHints")
SELINUX_CHANGE_POLICY = Gate("SELinuxChangePolicy")
SELINUX_MOUNT = Gate("SELinuxMount")
SELINUX_MOUNT_READ_WRITE_ONCE_POD = Gate("SELinuxMountReadWriteOncePod")
SERVICE_ACCOUNT_NODE_AUDIENCE_RESTRICTION = Gate("ServiceAccountNodeAudienceRestriction")
SERVICE_CIDR_STATUS_FIELD_WIPING = Gate("ServiceCIDRStatusFieldWiping")
SERVICE_TRAFFIC_DISTRIBUTION = Gate("ServiceTrafficDistribution")
SHARDED_LIST_AND_WATCH = Gate("ShardedListAndWatch")
SIDECAR_CONTAINERS = Gate("SidecarContainers")
STATEFUL_SET_AUTO_DELETE_PVC = Gate("StatefulSetAutoDeletePVC")
STATEFUL_SET_START_ORDINAL = Gate("StatefulSetStartOrdinal")
STORAGE_VERSION_API = Gate("StorageVersionAPI")
STORAGE_VERSION_MIGRATOR = Gate("StorageVersionMigrator")
STRICT_COST_ENFORCEMENT_FOR_VAP = Gate("StrictCostEnforcementForVAP")
STRICT_COST_ENFORCEMENT_FOR_WEBHOOKS = Gate("StrictCostEnforcementForWebhooks")
STRICT_IP_CIDR_VALIDATION = Gate("StrictIPCIDRValidation")
STRUCTURED_AUTHENTICATION_CONFIGURATION = Gate("StructuredAuthenticationConfiguration")
STRUCTURED_AUTHORIZATION_CONFIGURATION = Gate("StructuredAuthorizationConfiguration")
SUPPLEMENTAL_GROUPS_POLICY = Gate("SupplementalGroupsPolicy")
TAINT_TOLERATION_COMPARISON_OPERATORS = Gate("TaintTolerationComparisonOperators")
TOKEN_REQUEST_SERVICE_ACCOUNT_UID_VALIDATION = Gate("TokenRequestServiceAccountUIDValidation")
TOPOLOGY_AWARE_HINTS = Gate("TopologyAwareHints")
TOPOLOGY_AWARE_WORKLOAD_SCHEDULING = Gate("TopologyAwareWorkloadScheduling")
TRANSLATE_STREAM_CLOSE_WEBSOCKET_REQUESTS = Gate("TranslateStreamCloseWebsocketRequests")
UNAUTHENTICATED_HTTP2_DOS_MITIGATION = Gate("UnauthenticatedHTTP2DOSMitigation")
UNKNOWN_VERSION_INTEROPERABILITY_PROXY = Gate("UnknownVersionInteroperabilityProxy")
USER_NAMESPACES_HOST_NETWORK_SUPPORT = Gate("UserNamespacesHostNetworkSupport")
USER_NAMESPACES_POD_SECURITY_STANDARDS = Gate("UserNamespacesPodSecurityStandards")
USER_NAMESPACES_SUPPORT = Gate("UserNamespacesSupport")
VOLUME_ATTRIBUTES_CLASS = Gate("VolumeAttributesClass")
VOLUME_BIND_MOUNT_OPTIONS = Gate("VolumeBindMountOptions")
VOLUME_LIMIT_SCALING = Gate("VolumeLimitScaling")
SIZE_BASED_LIST_COST_ESTIMATE = Gate("SizeBasedListCostEstimate")
WATCH_LIST = Gate("WatchList")
WATCH_LIST_COMPRESSION = Gate("WatchListCompression")
WORKLOAD_AWARE_PREEMPTION = Gate("WorkloadAwarePreemption")
WORKLOAD_WITH_JOB = Gate("WorkloadWithJob")

STAGES = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
REMOVED = "REMOVED"


class UnknownGateError(ValueError):
    """Names that no gate of the release has: `names`; `known` are those that there are."""

    def __init__(self, names: list[str], known: Iterable[str] = ()) -> None:
        self.names = names
        hint = history_text(names[0]) or did_you_mean(names[0], known)
        super().__init__(f"unrecognized feature gate: {', '.join(names)}{hint}")


class LockedGateError(ValueError):
    """A gate that cannot be changed from its default."""

    def __init__(self, name: str, default: bool) -> None:
        value, locked = str(not default).lower(), str(default).lower()
        super().__init__(f"cannot set feature gate {name} to {value}, feature is locked to {locked}")


class GateDependencyError(ValueError):
    """A gate that is on, while gates that it needs are off."""

    def __init__(self, name: str, off: list[str]) -> None:
        super().__init__(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")


class FeatureSpec(NamedTuple):
    """The stage and the default of a gate in one release (`featuregate.FeatureSpec`).

    A gate that is `locked` cannot be changed from its default (`LockToDefault`).
    """

    stage: str
    default: bool
    locked: bool = False


class _Recorded:
    """The gates that were recorded of a release, with their defaults and what they depend on; it never changes.

    specs  of every gate that any release ever had, None for one that came later
    known  of the gates of this release
    """

    def __init__(self, version: Version) -> None:
        self.specs = {gate: history.get(version) for gate, history in _histories().items()}
        self.known = {gate: spec for gate, spec in self.specs.items() if spec and spec.stage != REMOVED}
        self.defaults = {gate: spec is not None and spec.default for gate, spec in self.specs.items()}
        self.defaults[DYNAMIC_RESOURCE_ALLOCATION] = True
        dependencies: dict[str, list[str]] = read_release_file(version, "release.json")["gateDependencies"]
        self.dependencies = {Gate(name): [*map(Gate, needed)] for name, needed in dependencies.items()}


class Gates:
    """The gates of one release and whether each is on (`featuregate.MutableFeatureGate`).

    Defaults are those of the release, but for DynamicResourceAllocation, which is always on at first. Rules may ask for
    gates of other releases too: one that came later is off, one that was removed keeps its last default.

    off  those that are off, without those that came later
    """

    def __init__(self, recorded: _Recorded) -> None:
        self._recorded = recorded
        self._on: dict[Gate, bool] = {}
        self._turn(recorded.defaults)

    @staticmethod
    def of(version: Version, changes: Mapping[str, bool] | None = None) -> Gates:
        """Return the gates of a release, with changes as users write them. Raises the errors of `set`."""
        gates = Gates(_recorded(version))
        if changes:
            gates.set(changes)
        return gates

    def __getitem__(self, gate: Gate) -> bool:
        """Report whether a gate is on. Raises KeyError for a name that no release ever had."""
        return self._on[gate]

    def has(self, gate: Gate) -> bool:
        """Report whether the release has a gate, or an earlier release had it."""
        return self._recorded.specs[gate] is not None

    def turned_on(self, gate: Gate) -> bool:
        """Report whether a gate is on that is off by default."""
        return self._on[gate] and not self._recorded.defaults[gate]

    def set(self, changes: Mapping[str, bool]) -> None:
        """Turn gates on and off, AllAlpha and AllBeta before the others.

        Raises UnknownGateError, LockedGateError and GateDependencyError, with nothing changed.
        """
        unknown = [name for name in changes if name not in self._recorded.known]
        if unknown:
            raise UnknownGateError(unknown, self._recorded.known)
        if not changes:
            return
        on = dict(self._on)
        for every, stage in STAGES.items():
            if every in changes:
                on |= {
                    gate: changes[every]
                    for gate, spec in self._recorded.known.items()
                    if spec.stage == stage and not spec.locked
                }
        for name, value in changes.items():
            spec = self._recorded.known[Gate(name)]
            if spec.locked and value != spec.default:
                raise LockedGateError(name, spec.default)
            on[Gate(name)] = value
        for gate, needed in self._recorded.dependencies.items():
            off = [str(other) for other in needed if not on.get(other, True)]
            if on.get(gate) and off:
                raise GateDependencyError(gate, off)
        self._turn(on)

    def reset(self, changes: Mapping[str, bool]) -> None:
        """Turn every gate to its default, then make the changes. Raises the errors of `set`."""
        self._turn(self._recorded.defaults)
        self.set(changes)

    def snapshot(self) -> Mapping[Gate, bool]:
        """Return all gates, each with whether it is on, for `restore`."""
        return self._on

    def restore(self, snapshot: Mapping[Gate, bool]) -> None:
        """Turn every gate to what it was."""
        self._turn(snapshot)

    def _turn(self, on: Mapping[Gate, bool]) -> None:
        if on != self._on:
            self._on = dict(on)
            self.off = frozenset(gate for gate, is_on in on.items() if not is_on and self.has(gate))

    def in_force(self) -> dict[str, bool]:
        """Return {gate: on} for every gate of the release, sorted by name."""
        return {gate: self._on[gate] for gate in sorted(self._recorded.known)}

    def described(self) -> dict[str, tuple[str, bool]]:
        """Return {gate: (stage, on)} for every gate of the release, sorted by name."""
        return {gate: (self._recorded.known[gate].stage, self._on[gate]) for gate in sorted(self._recorded.known)}


def history_text(name: str) -> str:
    """Return "; it came with 1.32 and went with 1.35" for a gate of other releases, "" for a name that none has."""
    history = _histories().get(Gate(name))
    if history is None:
        return ""
    (first, _), *_, (last, spec) = [*history.items(), *history.items()]
    steps = [f"came with {first}"] if first > V1_31 else []  # what was before is not recorded
    steps += [f"went with {last}"] if spec.stage == REMOVED else []
    return f"; it {' and '.join(steps)}"


@cache
def _recorded(version: Version) -> _Recorded:
    return _Recorded(version)


@cache
def _histories() -> dict[Gate, ByRelease[FeatureSpec]]:
    """Return every gate that a release ever had, with what it was from each release on."""
    table = orjson.loads((SCHEMAS / "feature_gates.json").read_bytes())
    return {
        Gate(name): ByRelease({Version.parse(since): FeatureSpec(*spec) for since, *spec in history})
        for name, history in table.items()
    }
