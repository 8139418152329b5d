"""Fields of pods, and of templates of pods, that feature gates guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.kinds.common.disabled_fields import Drop, Guard, Use, drop_disabled_fields, field_guard, remove_fields
from understudy.kinds.context import Context
from understudy.kinds.core.pods import in_use
from understudy.kinds.core.pods.containers_of import affinity_terms, containers, http_handlers, probes, template_of
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_33, V1_36, ByRelease
from understudy.machinery.serializer.json_fast import was_sent_empty
from understudy.machinery.types import Obj, nested_field


def _fields_in(parts: Callable[[Obj], Iterable[Obj]], *names: str) -> tuple[Use, Drop]:
    """Return the use and the removal of fields of some parts of a pod spec, such as its volume mounts."""

    def use(spec: Obj) -> bool:
        for part in parts(spec):
            for name in names:
                if part.get(name) is not None:
                    return True
        return False

    def drop(spec: Obj) -> None:
        for part in parts(spec):
            remove_fields(part, *names)

    return use, drop


def _security(spec: Obj) -> list[Obj]:
    return [spec["securityContext"]] if spec.get("securityContext") else []


def _mounts(spec: Obj) -> Iterable[Obj]:
    return [mount for c in containers(spec) for mount in c.get("volumeMounts") or ()]


def _spreads(spec: Obj) -> list[Obj]:
    return spec.get("topologySpreadConstraints") or []


def _projections(spec: Obj) -> Iterable[Obj]:
    return (s for v in spec.get("volumes") or [] for s in (v.get("projected") or {}).get("sources") or [])


def _files(spec: Obj) -> Iterable[Obj]:
    """Return volumes of files, their projections, and the items of both: parts that may set who owns the files."""
    for volume in spec.get("volumes") or []:
        kept = (volume[kind] for kind in ("secret", "configMap", "downwardAPI", "projected") if volume.get(kind))
        projected = (part for source in _projections({"volumes": [volume]}) for part in source.values())
        for source in (*kept, *projected):
            yield from (source, *(source.get("items") or ()))


def _empty_dirs(spec: Obj) -> Iterable[Obj]:
    return [volume["emptyDir"] for volume in spec.get("volumes") or () if volume.get("emptyDir")]


def _http_gets(spec: Obj) -> Iterable[Obj]:
    return [handler["httpGet"] for handler in http_handlers(spec)]


def _grpc_probes(spec: Obj) -> Iterable[Obj]:
    return [probe["grpc"] for probe in probes(spec) if probe.get("grpc")]


def _uses_claims(spec: Obj) -> bool:
    return bool(spec.get("resourceClaims"))


def _drop_claims(spec: Obj) -> None:
    spec.pop("resourceClaims", None)
    for container in containers(spec):
        (container.get("resources") or {}).pop("claims", None)


def _lifecycles(spec: Obj) -> Iterable[Obj]:
    return [container["lifecycle"] for container in containers(spec) if container.get("lifecycle")]


def _hooks(container: Obj) -> Iterable[tuple[Obj, str, Obj]]:
    """Return (lifecycle, name of the hook, hook) for each hook of a container."""
    lifecycle = container.get("lifecycle") or {}
    return [(lifecycle, name, hook) for name, hook in lifecycle.items() if isinstance(hook, dict)]


def _wipe_hook(name: str) -> Drop:
    """Return a function that drops a field from the lifecycle of every container, and a lifecycle without others."""

    def drop(spec: Obj) -> None:
        for container in containers(spec):
            lifecycle = container.get("lifecycle") or {}
            if lifecycle.pop(name, None) is not None and not lifecycle:
                del container["lifecycle"]

    return drop


def _variables(spec: Obj) -> Iterable[Obj]:
    return (v["valueFrom"] for c in containers(spec) for v in c.get("env") or () if v.get("valueFrom"))


def _drop_restart_rules(spec: Obj) -> None:
    """Drop restart rules and restart policies of containers, but that of sidecars."""
    for container in containers(spec):
        container.pop("restartPolicyRules", None)
    for container in containers(spec, "containers", "ephemeralContainers"):
        container.pop("restartPolicy", None)
    for container in containers(spec, "initContainers"):
        if not in_use.is_sidecar(container):
            container.pop("restartPolicy", None)


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
    return any(c.get("resizePolicy") for c in containers(spec, "containers", "initContainers"))


def _image_volumes(spec: Obj) -> list[str]:
    return [volume.get("name", "") for volume in spec.get("volumes") or [] if volume.get("image") is not None]


def _uses_images(spec: Obj) -> bool:
    return bool(_image_volumes(spec))


def _drop_images(spec: Obj) -> None:
    """Drop image volumes as a whole, and their mounts. Lists without others are as if they had not been sent."""
    for part, name in ((spec, "volumes"), *((container, "volumeMounts") for container in containers(spec))):
        if was_sent_empty(part, name):
            remove_fields(part, name)
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
    Guard(features.POD_CERTIFICATE_REQUEST, *_fields_in(_projections, "podCertificate")),
    field_guard(features.GENERIC_WORKLOAD, "schedulingGroup"),
    field_guard(features.GENERIC_WORKLOAD, "workloadRef"),
    field_guard(features.EVICTION_REQUEST_API, "evictionResponders"),
    Guard(features.ATOMIC_WRITE_VOLUME_USER_FIELDS, *_fields_in(_files, "defaultUser", "user")),
    Guard(features.GRPC_CONTAINER_PROBE_TLS, *_fields_in(_grpc_probes, "mode")),
    Guard(features.H2C_CONTAINER_PROBE, *_fields_in(_http_gets, "protocol")),
    Guard(features.EMPTY_DIR_VOLUME_MODE, *_fields_in(_empty_dirs, "mode")),
    Guard(features.VOLUME_BIND_MOUNT_OPTIONS, *_fields_in(_mounts, "bindMountOptions")),
    Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _uses_resize, _fields_in(containers, "resizePolicy")[1]),
    Guard(features.SIDECAR_CONTAINERS, _uses_sidecars, _drop_sidecars),
    Guard(features.CONTAINER_RESTART_RULES, in_use.restart_rules, _drop_restart_rules),
    Guard(features.RECURSIVE_READ_ONLY_MOUNTS, *_fields_in(_mounts, "recursiveReadOnly")),
    field_guard(features.HOSTNAME_OVERRIDE, "hostnameOverride"),
    Guard(features.ENV_FILES, *_fields_in(_variables, "fileKeyRef")),
    Guard(features.POD_LIFECYCLE_SLEEP_ACTION, _uses_sleep, _drop_sleep),
    Guard(features.IMAGE_VOLUME, _uses_images, _drop_images),
    Guard(features.SELINUX_CHANGE_POLICY, *_fields_in(_security, "seLinuxChangePolicy")),
    Guard(features.CONTAINER_STOP_SIGNALS, _fields_in(_lifecycles, "stopSignal")[0], _wipe_hook("stopSignal")),
)


def drop_spec(spec: Obj | None, old: Obj | None, gates: Gates) -> None:
    """Drop disabled fields from a pod spec that is not None; `old` is the stored spec."""
    if spec is not None:
        drop_disabled_fields(GUARDS, spec, old, gates)


STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _container_statuses(status: Obj) -> Iterable[Obj]:
    return (container for kind in STATUSES for container in status.get(kind) or ())


def _mount_statuses(status: Obj) -> Iterable[Obj]:
    return (mount for container in _container_statuses(status) for mount in container.get("volumeMounts") or ())


def _device_healths(status: Obj) -> Iterable[Obj]:
    return (
        device
        for container in _container_statuses(status)
        for resource in container.get("allocatedResourcesStatus") or ()
        for device in resource.get("resources") or ()
    )


def _observations(status: Obj) -> Iterable[Obj]:
    return (status, *(status.get("conditions") or ()))


def _itself(status: Obj) -> Iterable[Obj]:
    return (status,)


def _from_statuses(*names: str) -> Drop:
    """Return a function that drops fields from the status of every container."""
    return _fields_in(_container_statuses, *names)[1]


def _of_spec(use: Use) -> Use:
    """Return the test of a stored pod whose spec decides whether a field of the status is in use."""
    return lambda pod: use(pod["spec"])


def _of_status(parts: Callable[[Obj], Iterable[Obj]], *names: str) -> tuple[Use, Drop]:
    """Return the use and the removal of fields of the status that the stored status decides about."""
    use, drop = _fields_in(parts, *names)
    return lambda pod: use(pod.get("status") or {}), drop


def _never_used(pod: Obj) -> bool:
    return False


def _drop_resize(status: Obj) -> None:
    _from_statuses("resources")(status)
    status.pop("resize", None)


_GUARDS_OF_ALL_STATUSES = (
    Guard(
        features.DYNAMIC_RESOURCE_ALLOCATION,
        _of_spec(_uses_claims),
        lambda status: status.pop("resourceClaimStatuses", None),
    ),
    Guard(
        features.RECURSIVE_READ_ONLY_MOUNTS,
        _of_spec(_fields_in(_mounts, "recursiveReadOnly")[0]),
        _from_statuses("volumeMounts"),
    ),
    Guard(
        features.SUPPLEMENTAL_GROUPS_POLICY,
        _of_spec(_fields_in(_security, "supplementalGroupsPolicy")[0]),
        _from_statuses("user"),
    ),
)
_OLD_HEALTH = Guard(features.RESOURCE_HEALTH_STATUS, _never_used, _from_statuses("allocatedResourcesStatus"))
_SINCE_1_33 = (
    *_GUARDS_OF_ALL_STATUSES,
    Guard(
        features.IN_PLACE_POD_VERTICAL_SCALING,
        _of_spec(_uses_resize),
        _from_statuses("resources", "allocatedResources"),
    ),
    Guard(
        features.IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING, *_of_status(_itself, "resources", "allocatedResources")
    ),
    Guard(features.POD_OBSERVED_GENERATION_TRACKING, *_of_status(_observations, "observedGeneration")),
    Guard(features.DRA_EXTENDED_RESOURCE, *_of_status(_itself, "extendedResourceClaimStatus")),
)
STATUS_GUARDS = ByRelease(
    {
        V1_36: (
            *_SINCE_1_33,
            Guard(features.RESOURCE_HEALTH_STATUS, *_of_status(_container_statuses, "allocatedResourcesStatus")),
            Guard(features.RESOURCE_HEALTH_STATUS_MESSAGE, *_of_status(_device_healths, "message")),
            Guard(features.CSI_VOLUME_HEALTH, *_of_status(_itself, "volumeHealth")),
            Guard(features.IMAGE_VOLUME_WITH_DIGEST, *_of_status(_mount_statuses, "volumeStatus")),
            Guard(
                features.DRA_NODE_ALLOCATABLE_RESOURCES, *_of_status(_itself, "nodeAllocatableResourceClaimStatuses")
            ),
        ),
        V1_33: (*_SINCE_1_33, _OLD_HEALTH),
        V1_31: (
            *_GUARDS_OF_ALL_STATUSES,
            Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _of_spec(_uses_resize), _drop_resize),
            Guard(features.IN_PLACE_POD_VERTICAL_SCALING, _never_used, _from_statuses("allocatedResources")),
            Guard(
                features.IN_PLACE_POD_VERTICAL_SCALING_ALLOCATED_STATUS,
                _never_used,
                _from_statuses("allocatedResources"),
            ),
            _OLD_HEALTH,
        ),
    }
)


def drop_status(status: Obj, old: Obj, ctx: Context) -> None:
    """Drop disabled fields from the status of a pod; `old` is the stored pod."""
    drop_disabled_fields(STATUS_GUARDS[ctx.release], status, old, ctx.gates)


def drop_template_fields(workload: Obj, old: Obj | None, ctx: Context) -> None:
    """Drop disabled fields from the pod template of a workload."""
    drop_spec(nested_field(template_of(workload), "spec"), nested_field(template_of(old), "spec"), ctx.gates)


def drop_template_fields_on_create(workload: Obj, ctx: Context) -> None:
    """Drop disabled fields from the pod template of a new workload."""
    drop_template_fields(workload, None, ctx)
