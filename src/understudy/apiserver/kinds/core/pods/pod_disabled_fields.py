"""Fields of pods, and of templates of pods, that feature gates guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.admission.context import Context
from understudy.admission.validation.apps.common import template_of
from understudy.admission.validation.core.pods.containers_of import affinity_terms, containers
from understudy.apiserver.kinds.disabled_fields import Drop, Guard, Use, drop_disabled_fields, field_guard
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, nested_field


def _fields_in(parts: Callable[[Obj], Iterable[Obj]], *names: str) -> tuple[Use, Drop]:
    """Return the use and the removal of fields of some parts of a pod spec, such as its volume mounts."""

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
    """Return (lifecycle, name of the hook, hook) for each hook of a container."""
    lifecycle = container.get("lifecycle") or {}
    return [(lifecycle, name, hook) for name, hook in lifecycle.items() if isinstance(hook, dict)]


def _uses_sleep(spec: Obj) -> bool:
    return any("sleep" in hook for c in containers(spec) for _, _, hook in _hooks(c))


def _drop_sleep(spec: Obj) -> None:
    """Drop sleep from hooks, then hooks that do nothing else, then a lifecycle without hooks."""
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


def _drop_pod_resources(spec: Obj) -> None:
    spec.pop("resources", None)


def _uses_resize(spec: Obj) -> bool:
    return any(c.get("resizePolicy") for c in containers(spec, "containers"))


def _image_volumes(spec: Obj) -> list[str]:
    return [volume.get("name", "") for volume in spec.get("volumes") or [] if volume.get("image") is not None]


def _uses_images(spec: Obj) -> bool:
    return bool(_image_volumes(spec))


def _drop_images(spec: Obj) -> None:
    """Drop image volumes as a whole, and their mounts."""
    names = _image_volumes(spec)
    if not names:
        return
    _filter(spec, "volumes", lambda volume: volume.get("image") is None)
    for container in containers(spec):
        _filter(container, "volumeMounts", lambda mount: mount.get("name") not in names)


def _filter(part: Obj, name: str, is_kept: Callable[[Obj], bool]) -> None:
    """Keep some items of a list; drop a list that has no items left."""
    part[name] = [item for item in part.get(name) or () if is_kept(item)]
    if not part[name]:
        del part[name]


def _uses_sidecars(spec: Obj) -> bool:
    return any(c.get("restartPolicy") == "Always" for c in containers(spec, "initContainers"))


def _drop_sidecars(spec: Obj) -> None:
    for container in containers(spec, "initContainers"):
        container.pop("restartPolicy", None)


GUARDS = (
    field_guard(features.USER_NAMESPACES_SUPPORT, "hostUsers"),
    Guard(features.SUPPLEMENTAL_GROUPS_POLICY, *_fields_in(_security, "supplementalGroupsPolicy")),
    Guard(features.POD_LEVEL_RESOURCES, _uses_pod_resources, _drop_pod_resources),
    Guard(features.PROC_MOUNT_TYPE, _uses_proc_mount, _drop_proc_mount),
    Guard(features.NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD, *_fields_in(_spreads, "nodeTaintsPolicy")),
    Guard(features.NODE_INCLUSION_POLICY_IN_POD_TOPOLOGY_SPREAD, *_fields_in(_spreads, "nodeAffinityPolicy")),
    Guard(features.MATCH_LABEL_KEYS_IN_POD_TOPOLOGY_SPREAD, *_fields_in(_spreads, "matchLabelKeys")),
    Guard(
        features.MATCH_LABEL_KEYS_IN_POD_AFFINITY, *_fields_in(affinity_terms, "matchLabelKeys", "mismatchLabelKeys")
    ),
    Guard(features.DYNAMIC_RESOURCE_ALLOCATION, _uses_claims, _drop_claims),
    Guard(features.CLUSTER_TRUST_BUNDLE_PROJECTION, *_fields_in(_projections, "clusterTrustBundle")),
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _uses_resize, _fields_in(containers, "resizePolicy")[1]),
    Guard(features.SIDECAR_CONTAINERS, _uses_sidecars, _drop_sidecars),
    Guard(features.RECURSIVE_READ_ONLY_MOUNTS, *_fields_in(_mounts, "recursiveReadOnly")),
    Guard(features.POD_LIFECYCLE_SLEEP_ACTION, _uses_sleep, _drop_sleep),
    Guard(features.IMAGE_VOLUME, _uses_images, _drop_images),
    Guard(features.SELINUX_CHANGE_POLICY, *_fields_in(_security, "seLinuxChangePolicy")),
)


def drop_spec(spec: Obj | None, old: Obj | None, gates: Gates) -> None:
    """Drop disabled fields from a pod spec that is not None; `old` is the stored spec."""
    if spec is not None:
        drop_disabled_fields(GUARDS, spec, old, gates)


STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _from_statuses(name: str) -> Drop:
    """Return a function that drops a field from the status of every container."""

    def drop(status: Obj) -> None:
        for kind in STATUSES:
            for container in status.get(kind) or []:
                container.pop(name, None)

    return drop


def _drop_resize(status: Obj) -> None:
    _from_statuses("resources")(status)
    status.pop("resize", None)


def _never_used(spec: Obj) -> bool:
    return False


# Whether a field of the status is in use is judged by the stored spec.
STATUS_GUARDS = (
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _uses_resize, _drop_resize),
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _never_used, _from_statuses("allocatedResources")),
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING_ALLOCATED_STATUS, _never_used, _from_statuses("allocatedResources")),
    Guard(features.DYNAMIC_RESOURCE_ALLOCATION, _uses_claims, lambda status: status.pop("resourceClaimStatuses", None)),
    Guard(
        features.RECURSIVE_READ_ONLY_MOUNTS, _fields_in(_mounts, "recursiveReadOnly")[0], _from_statuses("volumeMounts")
    ),
    Guard(features.RESOURCE_HEALTH_STATUS, _never_used, _from_statuses("allocatedResourcesStatus")),
    Guard(
        features.SUPPLEMENTAL_GROUPS_POLICY,
        _fields_in(_security, "supplementalGroupsPolicy")[0],
        _from_statuses("user"),
    ),
)


def drop_status(status: Obj, old_spec: Obj, gates: Gates) -> None:
    """Drop disabled fields from the status of a pod; `old_spec` is the stored spec."""
    drop_disabled_fields(STATUS_GUARDS, status, old_spec, gates)


def drop_template_fields(workload: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields from the pod template of a workload."""
    drop_spec(nested_field(template_of(workload), "spec"), nested_field(template_of(old), "spec"), ctx.gates)


def drop_template_fields_on_create(workload: Obj, ctx: Context) -> None:
    """Drop disabled fields from the pod template of a new workload."""
    drop_template_fields(workload, None, ctx)
