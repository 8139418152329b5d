"""Fields of pods that a feature gate guards.

While the gate is off a new value is dropped; a stored object that uses the field keeps being served and may go on
using it. Each guard is a row: the gate, whether an object uses it, how it is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from understudy.admission.context import Context
from understudy.admission.validation.apps.common import template_of
from understudy.admission.validation.core.pods.containers_of import affinity_terms, containers
from understudy.apiserver.kinds.core import pod_disabled_fields
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gate, Gates
from understudy.machinery.types import Obj, at

Use = Callable[[Obj], bool]
Drop = Callable[[Obj], None]


class Guard(NamedTuple):
    gate: Gate
    used: Use
    drop: Drop


def _in_spec(*names: str) -> tuple[Use, Drop]:
    """Fields of the pod spec itself."""

    def drop(spec: Obj) -> None:
        for name in names:
            spec.pop(name, None)

    return lambda spec: any(spec.get(name) is not None for name in names), drop


def _within(parts: Callable[[Obj], Iterable[Obj]], *names: str) -> tuple[Use, Drop]:
    """Fields of some part of the pod spec: its security context, its volume mounts."""

    def drop(spec: Obj) -> None:
        for part in parts(spec):
            for name in names:
                part.pop(name, None)

    return lambda spec: any(part.get(name) is not None for part in parts(spec) for name in names), drop


def _security(spec: Obj) -> list[Obj]:
    return [spec["securityContext"]] if spec.get("securityContext") else []


def _mounts(spec: Obj) -> Iterable[Obj]:
    return (mount for c in containers(spec) for mount in c.get("volumeMounts") or [])


def _spreads(spec: Obj) -> list[Obj]:
    return spec.get("topologySpreadConstraints") or []


def _projections(spec: Obj) -> Iterable[Obj]:
    return (s for v in spec.get("volumes") or [] for s in (v.get("projected") or {}).get("sources") or [])


def _uses_claims(spec: Obj) -> bool:
    return bool(spec.get("resourceClaims"))


def _drop_claims(spec: Obj) -> None:
    spec.pop("resourceClaims", None)
    for container in containers(spec):
        (container.get("resources") or {}).pop("claims", None)


def _hooks(container: Obj) -> Iterable[tuple[Obj, str, Obj]]:
    """(lifecycle, name of the hook, hook)"""
    lifecycle = container.get("lifecycle") or {}
    return [(lifecycle, name, hook) for name, hook in lifecycle.items() if isinstance(hook, dict)]


def _uses_sleep(spec: Obj) -> bool:
    return any("sleep" in hook for c in containers(spec) for _, _, hook in _hooks(c))


def _drop_sleep(spec: Obj) -> None:
    """A hook that only sleeps goes, and with the last hook the lifecycle."""
    for container in containers(spec):
        for lifecycle, name, hook in _hooks(container):
            if hook.pop("sleep", None) is not None and not hook:
                del lifecycle[name]
        if container.get("lifecycle") == {}:
            del container["lifecycle"]


def _uses_proc_mount(spec: Obj) -> bool:
    return any((c.get("securityContext") or {}).get("procMount") not in (None, "Default") for c in containers(spec))


def _drop_proc_mount(spec: Obj) -> None:
    for container in containers(spec):
        if (container.get("securityContext") or {}).get("procMount") is not None:
            container["securityContext"]["procMount"] = "Default"


def _uses_pod_resources(spec: Obj) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _uses_resize(spec: Obj) -> bool:
    return any(c.get("resizePolicy") for c in containers(spec, "containers"))


def _uses_images(spec: Obj) -> bool:
    return any(v.get("image") is not None for v in spec.get("volumes") or [])


def _drop_images(spec: Obj) -> None:
    """The whole volume goes, and its mounts with it."""
    names = {volume.get("name") for volume in spec["volumes"] if volume.get("image") is not None}
    _keep(spec, "volumes", lambda volume: volume.get("image") is None)
    for container in containers(spec):
        _keep(container, "volumeMounts", lambda mount: mount.get("name") not in names)


def _keep(part: Obj, name: str, wanted: Callable[[Obj], bool]) -> None:
    """Leaves of a list the items that are wanted, and nothing of it if there are none."""
    part[name] = [item for item in part.get(name) or () if wanted(item)]
    if not part[name]:
        del part[name]


def _uses_sidecars(spec: Obj) -> bool:
    return any(c.get("restartPolicy") == "Always" for c in containers(spec, "initContainers"))


def _drop_sidecars(spec: Obj) -> None:
    for container in containers(spec, "initContainers"):
        container.pop("restartPolicy", None)


GUARDS = (
    Guard(features.USER_NAMESPACES_SUPPORT, *_in_spec("hostUsers")),
    Guard(features.SUPPLEMENTAL_GROUPS_POLICY, *_within(_security, "supplementalGroupsPolicy")),
    Guard(features.POD_LEVEL_RESOURCES, _uses_pod_resources, _in_spec("resources")[1]),
    Guard(features.PROC_MOUNT_TYPE, _uses_proc_mount, _drop_proc_mount),
    Guard(features.NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD, *_within(_spreads, "nodeTaintsPolicy")),
    Guard(features.NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD, *_within(_spreads, "nodeAffinityPolicy")),
    Guard(features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD, *_within(_spreads, "matchLabelKeys")),
    Guard(features.MATCH_LABEL_KEYS_IN_POD_AFFINITY, *_within(affinity_terms, "matchLabelKeys", "mismatchLabelKeys")),
    Guard(features.DYNAMIC_RESOURCE_ALLOCATION, _uses_claims, _drop_claims),
    Guard(features.CLUSTER_TRUST_BUNDLE_PROJECTION, *_within(_projections, "clusterTrustBundle")),
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _uses_resize, _within(containers, "resizePolicy")[1]),
    Guard(features.SIDECAR_CONTAINERS, _uses_sidecars, _drop_sidecars),
    Guard(features.RECURSIVE_READ_ONLY_MOUNTS, *_within(_mounts, "recursiveReadOnly")),
    Guard(features.POD_LIFECYCLE_SLEEP_ACTION, _uses_sleep, _drop_sleep),
    Guard(features.IMAGE_VOLUME, _uses_images, _drop_images),
    Guard(features.SELINUX_CHANGE_POLICY, *_within(_security, "seLinuxChangePolicy")),
)


def drop_spec(spec: Obj | None, old: Obj | None, gates: Gates) -> None:
    """Takes from a pod spec what a closed gate guards and `old` (the stored spec) does not use."""
    if spec is None:
        return
    for gate, used, drop in GUARDS:
        if not gates[gate] and used(spec) and not (old and used(old)):
            drop(spec)


STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _drop_from_statuses(status: Obj, *names: str) -> None:
    for kind in STATUSES:
        for container in status.get(kind) or []:
            for name in names:
                container.pop(name, None)


def drop_status(status: Obj, old_spec: Obj, gates: Gates) -> None:
    """The same for the status; whether a field is in use is still judged by the stored spec."""
    guards: dict[Gate, Any] = {guard.gate: guard.used for guard in GUARDS}

    def closed(gate: Gate) -> bool:
        return not gates[gate] and not guards[gate](old_spec)

    if closed(features.IN_PLACE_POD_VERTICAL_SCALING):
        _drop_from_statuses(status, "resources")
        status.pop("resize", None)
    if not (
        gates[features.IN_PLACE_POD_VERTICAL_SCALING] and gates[features.IN_PLACE_POD_VERTICAL_SCALING_ALLOCATED_STATUS]
    ):
        _drop_from_statuses(status, "allocatedResources")
    if closed(features.DYNAMIC_RESOURCE_ALLOCATION):
        status.pop("resourceClaimStatuses", None)
    if closed(features.RECURSIVE_READ_ONLY_MOUNTS):
        _drop_from_statuses(status, "volumeMounts")
    if not gates[features.RESOURCE_HEALTH_STATUS]:
        _drop_from_statuses(status, "allocatedResourcesStatus")
    if closed(features.SUPPLEMENTAL_GROUPS_POLICY):
        _drop_from_statuses(status, "user")


def drop_template_fields(workload: Obj, old: Obj | None, ctx: Context) -> None:
    """Fields of the pod template whose gates are off."""
    spec, before = (at(template_of(w), "spec") for w in (workload, old))
    if spec is not None:
        pod_disabled_fields.drop_spec(spec, before, ctx.gates)


def drop_template_fields_on_create(workload: Obj, ctx: Context) -> None:
    drop_template_fields(workload, None, ctx)
