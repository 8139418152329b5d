"""Options for the validation of a pod spec (upstream: `PodValidationOptions`)."""

from __future__ import annotations

from dataclasses import field

from understudy.kinds.core.pods import in_use
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_34, V1_36, Version
from understudy.machinery.types import Obj, dataclass

# The flag --allow-privileged; it is on in every cluster that runs drivers as pods.
ALLOW_PRIVILEGED = True


@dataclass(frozen=True, slots=True)
class Options:
    """The options for a pod spec that replaces `old`, or for a new one.

    What the stored spec has already is allowed, so that it can be updated though a gate is off or a rule was tightened.
    """

    version: Version
    gates: Gates
    old: Obj = field(default_factory=dict)
    is_pod: bool = False

    @property
    def relaxed_env(self) -> bool:
        """Report whether names of environment variables may have nearly all ASCII characters."""
        return self.gates[features.RELAXED_ENVIRONMENT_VARIABLE_VALIDATION]

    @property
    def env_files(self) -> bool:
        """Report whether environment variables may come from files."""
        return self.gates[features.ENV_FILES] or in_use.env_files(self.old)

    @property
    def relaxed_dns(self) -> bool:
        """Report whether search paths of DNS may have underscores and be a single dot."""
        return self.gates[features.RELAXED_DNS_SEARCH_VALIDATION]

    @property
    def strict_ips(self) -> bool:
        """Report whether addresses need to be in canonical form."""
        return self.gates[features.STRICT_IP_CIDR_VALIDATION]

    @property
    def zero_sleep(self) -> bool:
        """Report whether hooks may sleep for 0 seconds."""
        return self.gates[features.POD_LIFECYCLE_SLEEP_ACTION_ALLOW_ZERO] or in_use.zero_sleep(self.old)

    @property
    def pod_resources(self) -> bool:
        """Report whether the pod as a whole may have resources."""
        return self.gates[features.POD_LEVEL_RESOURCES]

    @property
    def only_recursive_selinux(self) -> bool:
        """Report whether Recursive is the only change policy for SELinux."""
        stored = (self.old.get("securityContext") or {}).get("seLinuxChangePolicy")
        return not self.gates[features.SELINUX_MOUNT] and stored != "MountOption"

    @property
    def resize_policy_of_init(self) -> bool:
        """Report whether init containers may have resize policies."""
        allowed = self.version >= V1_33 and self.gates[features.IN_PLACE_POD_VERTICAL_SCALING]
        return allowed or in_use.sidecar_resize_policy(self.old)

    @property
    def restart_container_of_init(self) -> bool:
        """Report whether init containers other than sidecars may have the resize policy RestartContainer."""
        return self.version < V1_36 or in_use.restart_container_of_init(self.old)

    @property
    def restart_rules(self) -> bool:
        """Report whether containers may have their own restart policies and rules."""
        return self.gates[features.CONTAINER_RESTART_RULES] or in_use.restart_rules(self.old)

    @property
    def restart_of_all(self) -> bool:
        """Report whether the exit of a container may restart all of the pod."""
        return self.gates[features.RESTART_ALL_CONTAINERS_ON_CONTAINER_EXITS] or in_use.restart_of_all(self.old)

    @property
    def comparing_tolerations(self) -> bool:
        """Report whether tolerations may compare numbers."""
        return self.gates[features.TAINT_TOLERATION_COMPARISON_OPERATORS] or in_use.comparing_tolerations(self.old)

    @property
    def own_users_in_host_network(self) -> bool:
        """Report whether a pod with a user namespace may be in the network of the host."""
        allowed = self.gates[features.USER_NAMESPACES_HOST_NETWORK_SUPPORT]
        return allowed or in_use.host_network_of_own_users(self.old)

    @property
    def own_users_of_devices(self) -> bool:
        """Report whether a pod with a user namespace may have block devices."""
        return self.version < V1_34 or in_use.devices_of_own_users(self.old)

    @property
    def any_affinity_values(self) -> bool:
        """Report whether the required node affinity may have values that are no label values."""
        return self.version < V1_33 or in_use.invalid_affinity_values(self.old)


def options(version: Version, gates: Gates, old: Obj | None = None, *, is_pod: bool = False) -> Options:
    """Return the options for a pod spec that replaces `old` (upstream: `GetValidationOptionsFromPodSpecAndMeta`)."""
    return Options(version, gates, old or {}, is_pod)
