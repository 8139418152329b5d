"""Options for the validation of a pod spec (upstream: `PodValidationOptions`)."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.admission.validation.core.pods.containers_of import containers
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import Version
from understudy.machinery.types import Obj

# The flag --allow-privileged; it is on in every cluster that runs drivers as pods.
ALLOW_PRIVILEGED = True


@dataclass(frozen=True, slots=True)
class Options:
    """The options for a pod spec. `any_…` allow what the stored object has wrong already, so that it can be updated."""

    release: Version
    is_pod: bool = False
    relaxed_env: bool = False
    relaxed_dns: bool = False
    zero_sleep: bool = False
    pod_resources: bool = False
    only_recursive_selinux: bool = False
    any_pages: bool = False
    any_sysctls: bool = False
    sidecar_resize: bool = False


def options(release: Version, gates: Gates, old: Obj | None = None, *, is_pod: bool = False) -> Options:
    """Return the options for a pod spec that replaces `old` (upstream: `GetValidationOptionsFromPodSpecAndMeta`)."""
    old = old or {}
    return Options(
        release,
        is_pod=is_pod,
        relaxed_env=gates[features.RELAXED_ENVIRONMENT_VARIABLE_VALIDATION],
        relaxed_dns=gates[features.RELAXED_DNS_SEARCH_VALIDATION],
        zero_sleep=gates[features.POD_LIFECYCLE_SLEEP_ACTION_ALLOW_ZERO] or _sleeps_zero(old),
        pod_resources=gates[features.POD_LEVEL_RESOURCES],
        only_recursive_selinux=not gates[features.SELINUX_MOUNT]
        and (old.get("securityContext") or {}).get("seLinuxChangePolicy") != "MountOption",
        sidecar_resize=any(
            c.get("restartPolicy") == "Always" and c.get("resizePolicy") for c in containers(old, "initContainers")
        ),
    )


def _sleeps_zero(spec: Obj) -> bool:
    hooks = (hook for c in containers(spec) for hook in (c.get("lifecycle") or {}).values() if isinstance(hook, dict))
    return any((hook.get("sleep") or {"seconds": 1}).get("seconds") == 0 for hook in hooks)
