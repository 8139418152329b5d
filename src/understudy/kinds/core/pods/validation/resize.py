"""Validation of the `resize` of a pod: new requests and limits of cpu and memory, nothing else (KEP-1287).

https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from understudy.kinds.common import objectmeta
from understudy.kinds.context import Context
from understudy.kinds.core.pods.annotations import MIRROR
from understudy.kinds.core.pods.containers.claim_requests import CLAIM_STATUSES, uncovered
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.kinds.core.pods.pod_options import options
from understudy.kinds.core.pods.qos import qos_class
from understudy.kinds.core.pods.validation import pod_spec
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.machinery.quantity import parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_34, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, forbidden, invalid

_SPEC, _POD = Path("spec"), Path().key("")
_RESOURCES = "k8s.io/kubernetes/pkg/apis/core.ResourceRequirements"
_RESIZABLE = ("cpu", "memory")
_ONLY_THESE = "only cpu and memory resources are mutable"
_NO_WHOLE = ByRelease(
    {
        V1_35: "resize of pods with pod-level resources is forbidden when "
        "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled",
        V1_32: "pods with pod-level resources cannot be resized",
    }
)


def validate(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a resized pod (upstream: `ValidatePodResize`)."""
    spec, before = pod["spec"], old["spec"]
    has_whole = _has_amounts(spec) or _has_amounts(before)
    if ctx.release < V1_35 and has_whole:
        return [forbidden(_POD, _NO_WHOLE[ctx.release])]
    if MIRROR in (old["metadata"].get("annotations") or ()):
        return [forbidden(_POD, "static pods cannot be resized")]
    if nested_field(before, "os", "name") == "windows":
        return [forbidden(_POD, "windows pods cannot be resized")]
    errors = objectmeta.CORE.updated(pod, old, ctx) + objectmeta.CORE.created(pod, ctx)
    errors += pod_spec.whole(pod, options(ctx.release, ctx.gates, before, is_pod=True))
    errors += _of_pod(pod, old, ctx)
    if has_whole and not ctx.gates[features.IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING]:
        return [*errors, forbidden(_POD, _NO_WHOLE[ctx.release])]
    errors += _whole(pod, old, ctx) if has_whole else []
    if ctx.release < V1_37 and nested_field(old, "status", "nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden(_SPEC, "pods with node allocatable resource claims cannot be resized"))
    misplaced = _order(spec, before)
    if misplaced:
        return errors + misplaced
    errors += _nothing_removed(spec, before, ctx) + _only_cpu_and_memory(spec, before, ctx)
    parts: tuple[str, ...] = _PARTS
    if ctx.gates[features.IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES]:
        errors += _volumes(spec.get("volumes") or [], before.get("volumes") or [])
        parts = (*_PARTS, "volumes")
    if errors:
        return errors
    rest = {name: value for name, value in spec.items() if name not in parts}
    stored = {name: value for name, value in before.items() if name not in parts}
    return [] if equal_ignoring_empty(rest, stored) else [forbidden(_SPEC, _ONLY_THESE)]


_PARTS = ("containers", "initContainers", "resources")  # which are checked on their own


def _has_amounts(spec: Obj) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _of_pod(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the class of service stays, and that the node of the pod can resize it."""
    stored = nested_field(old, "status", "qosClass") or qos_class(old, ctx.gates)
    errors: Errors = []
    if stored != qos_class(pod, ctx.gates):
        bad_value = nested_field(pod, "status", "qosClass", default="")
        errors.append(invalid(_SPEC, bad_value, "Pod QOS Class may not change as a result of resizing"))
    statuses = nested_field(old, "status", "containerStatuses", default=())
    running = [status for status in statuses if nested_field(status, "state", "running") is not None]
    if running and running[0].get("resources") is None:
        errors.append(forbidden(_SPEC, "Pod running on node without support for resize"))
    return errors


def _whole(pod: Obj, old: Obj, ctx: Context) -> Errors:
    """Check the resources of the pod as a whole (upstream: `validatePodLevelResourcesResize`)."""
    spec = pod["spec"]
    path, resources, stored = _SPEC.child("resources"), spec.get("resources"), old["spec"].get("resources")
    if stored is not None and resources is None:
        return [forbidden(path, "pod-level resources cannot be removed")]
    errors = [
        forbidden(path.child(kind), f"pod-level resource {kind} cannot be removed")
        for kind in ("requests", "limits")
        if _removed(resources or {}, stored or {}, kind)
    ]
    if not equal_ignoring_empty(_munged(resources, stored), _kept(stored)):
        errors.append(forbidden(_SPEC, f"{_ONLY_THESE} at pod-level"))
    if ctx.gates[features.DRA_NODE_ALLOCATABLE_RESOURCES] and nested_field(pod, "status", CLAIM_STATUSES):
        why = uncovered(spec, pod["status"])
        errors += [invalid(path, Typed(resources, _RESOURCES), why)] if why else []
    return errors


def _order(spec: Obj, before: Obj) -> Errors:
    """Check that the containers are the stored ones (upstream: `validatePodResizeContainerOrdering`)."""
    errors: Errors = []
    for kind in ("containers", "initContainers"):
        items, stored, path = spec.get(kind) or (), before.get(kind) or (), _SPEC.child(kind)
        if len(items) != len(stored):
            errors.append(forbidden(path, f"{kind} may not be added or removed on resize"))
            continue
        text = f"{kind} may not be renamed or reordered on resize"
        errors += [
            forbidden(path.index(i).child("name"), text)
            for i, (container, was) in enumerate(zip(items, stored, strict=True))
            if container.get("name", "") != was.get("name", "")
        ]
    return errors


def _volumes(volumes: list[Obj], before: list[Obj]) -> Errors:
    """Check that of volumes only the limits of those in memory change."""
    path = _SPEC.child("volumes")
    if len(volumes) != len(before):
        return [forbidden(path, "volumes may not be added or removed on resize")]
    pairs = enumerate(zip(volumes, before, strict=True))
    return [error for i, (volume, stored) in pairs for error in _volume(volume, stored, path.index(i))]


def _volume(volume: Obj, stored: Obj, path: Path) -> Errors:
    if volume.get("name", "") != stored.get("name", ""):
        return [forbidden(path.child("name"), "volumes may not be renamed or reordered on resize")]
    directory, was = volume.get("emptyDir"), stored.get("emptyDir")
    is_directory = directory is not None and was is not None
    if not equal_ignoring_empty(_unlimited(volume) if is_directory else volume, _unlimited(stored)):
        return [forbidden(path, "only sizeLimit of memory-backed emptyDir volumes is mutable on resize")]
    if directory is None or was is None:
        return []
    now, then = (parse(each.get("sizeLimit") or "0") for each in (directory, was))
    path = path.child("emptyDir").child("sizeLimit")
    if (now == 0) != (then == 0):
        return [forbidden(path, "adding or removing sizeLimit on an existing volume is not allowed")]
    if now != then and directory.get("medium") != "Memory":
        return [forbidden(path, "sizeLimit is only mutable for memory-backed emptyDir volumes")]
    return []


def _unlimited(volume: Obj) -> Obj:
    """Return a volume without the limit of its size."""
    directory = volume.get("emptyDir")
    if directory is None:
        return volume
    return {**volume, "emptyDir": {name: value for name, value in directory.items() if name != "sizeLimit"}}


def _pairs(spec: Obj, before: Obj, kind: str) -> Iterator[tuple[Obj, Obj, Path]]:
    """Yield each container with the stored one and its path."""
    for i, (container, stored) in enumerate(zip(spec.get(kind) or (), before.get(kind) or (), strict=True)):
        yield container, stored, _SPEC.child(kind).index(i)


def _nothing_removed(spec: Obj, before: Obj, ctx: Context) -> Errors:
    """Check that no container loses a request or a limit (upstream: `validateContainerResize`)."""
    of_init = ctx.gates[features.IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS]
    errors: Errors = []
    for container, stored, path in _pairs(spec, before, "initContainers"):
        if of_init or is_sidecar(stored):
            errors += _of_container(container, stored, path.child("resources"), ctx.release)
    for container, stored, path in _pairs(spec, before, "containers"):
        errors += _of_container(container, stored, path.child("resources"), ctx.release)
    return errors


def _of_container(container: Obj, stored: Obj, path: Path, version: Version) -> Errors:
    resources, before = container.get("resources") or {}, stored.get("resources") or {}
    errors = [
        forbidden(path.child(kind), f"resource {kind} cannot be removed")
        for kind in ("requests", "limits")
        if _removed(resources, before, kind)
    ]
    return errors + (_memory_limit(container, resources, before, path) if version < V1_34 else [])


def _memory_limit(container: Obj, resources: Obj, before: Obj, path: Path) -> Errors:
    """Check that a limit of memory is only lowered where the container restarts."""
    policies = [p for p in container.get("resizePolicy") or () if p.get("resourceName") == "memory"]
    if policies and policies[0].get("restartPolicy") not in ("NotRequired", ""):
        return []
    limit, stored = nested_field(resources, "limits", "memory"), nested_field(before, "limits", "memory")
    if limit is None or (stored is not None and parse(stored) <= parse(limit)):
        return []
    what = "added" if stored is None else "decreased"
    text = f"memory limits cannot be {what} unless resizePolicy is RestartContainer"
    return [forbidden(path.child("limits").key("memory"), text)]


def _removed(resources: Obj, before: Obj, kind: str) -> bool:
    return not (before.get(kind) or {}).keys() <= (resources.get(kind) or {}).keys()


_OF_INIT = ByRelease(
    {
        V1_36: "only cpu and memory resources for init or sidecar containers are mutable",
        V1_32: "only cpu and memory resources for sidecar containers are mutable",
    }
)


def _only_cpu_and_memory(spec: Obj, before: Obj, ctx: Context) -> Errors:
    errors = [
        forbidden(_SPEC, _ONLY_THESE)
        for container, stored, _ in _pairs(spec, before, "containers")
        if not _differs_in_amounts_only(container, stored, ctx.release)
    ]
    of_init = ctx.gates[features.IN_PLACE_POD_VERTICAL_SCALING_INIT_CONTAINERS]
    for container, stored, path in _pairs(spec, before, "initContainers"):
        is_changed = not equal_ignoring_empty(container, stored)
        if not of_init and not is_sidecar(container):
            if is_changed:
                errors.append(forbidden(_SPEC, "resources for non-sidecar init containers are immutable"))
            continue
        if not _differs_in_amounts_only(container, stored, ctx.release):
            errors.append(forbidden(path if ctx.release >= V1_36 else _SPEC, _OF_INIT[ctx.release]))
        if is_changed and not is_sidecar(container):
            text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            policies = container.get("resizePolicy") or ()
            errors += [forbidden(path, text) for p in policies if p.get("restartPolicy") == "RestartContainer"]
    return errors


def _differs_in_amounts_only(container: Obj, stored: Obj, version: Version) -> bool:
    """Report whether a container differs from the stored one in nothing but amounts of cpu and memory.

    Upstream: `dropCPUMemoryResourcesFromContainer`. Before 1.37 it drops claims: containers with claims always differ.
    """
    resources, before = container.get("resources") or {}, stored.get("resources") or {}
    munged: Obj = {"claims": resources.get("claims")} if version >= V1_37 else {}
    for kind in ("requests", "limits"):
        # Before 1.35 any resources can be added to a container that had none.
        if version >= V1_35 or before.get(kind):
            munged[kind] = _without_resized(resources.get(kind) or {}, before.get(kind) or {})
    return equal_ignoring_empty({**container, "resources": _kept(munged)}, {**stored, "resources": _kept(before)})


def _munged(resources: Obj | None, stored: Obj | None) -> Obj:
    """Return the resources of a pod with the stored amounts of cpu and memory."""
    now, then = resources or {}, stored or {}
    amounts = {kind: _without_resized(now.get(kind) or {}, then.get(kind) or {}) for kind in ("requests", "limits")}
    return _kept({**now, **amounts})


def _without_resized(amounts: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    rest = {name: amount for name, amount in amounts.items() if name not in _RESIZABLE}
    return rest | {name: amount for name, amount in stored.items() if name in _RESIZABLE}


def _kept(resources: Obj | None) -> Obj:
    """Return resources without empty lists."""
    return {name: value for name, value in (resources or {}).items() if value}
