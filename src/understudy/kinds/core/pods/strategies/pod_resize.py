"""The `resize` subresource of pods, which changes the resources of containers in place (KEP-1287)."""

from __future__ import annotations

from copy import deepcopy

from understudy.kinds.context import Context
from understudy.kinds.core.pods import pod_disabled_fields
from understudy.kinds.core.pods.containers import pod_resource_defaults
from understudy.kinds.core.pods.strategies import pod_preparation
from understudy.kinds.core.pods.validation import resize
from understudy.kinds.declarations.kind import Strategy
from understudy.kinds.declarations.strategies import RESET_FOR_STATUS, STATUS_RESET, copy_stored, keep_metadata
from understudy.machinery.releases import features
from understudy.machinery.types import Obj

_KINDS = ("containers", "initContainers")
_RESIZED = ("resources", "resizePolicy")


def _prepare(pod: Obj, old: Obj, ctx: Context) -> None:
    """Keep all of the stored pod but what a resize may change (upstream: `podResizeStrategy.PrepareForUpdate`)."""
    spec, before = pod["spec"], old["spec"]
    keep_metadata(*RESET_FOR_STATUS)(pod, old, ctx)
    if all(len(spec.get(kind) or ()) == len(before.get(kind) or ()) for kind in _KINDS):
        resized = {kind: _resized(spec[kind], before[kind]) for kind in _KINDS if spec.get(kind)}
        whole, volumes = spec.get("resources"), spec.get("volumes")
        copy_stored(pod, old, "spec", "status")
        pod["spec"] |= resized
        if ctx.gates[features.IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING]:
            pod["spec"].pop("resources", None)
            if whole is not None:
                pod["spec"]["resources"] = whole
        if ctx.gates[features.IN_PLACE_POD_VERTICAL_SCALING_MEMORY_BACKED_VOLUMES]:
            pod["spec"].pop("volumes", None)
            if volumes:
                pod["spec"]["volumes"] = volumes
    pod_resource_defaults.keep_stored(pod["spec"], before, ctx.gates)
    pod_resource_defaults.default_stored(pod["spec"], ctx.gates, ctx.release)
    pod_disabled_fields.drop_spec(pod["spec"], before, ctx.gates)
    pod_preparation.count_generation(pod, old, ctx)


def _resized(items: list[Obj], before: list[Obj]) -> list[Obj]:
    """Return the stored containers with new resources; the new containers if their names differ, which is refused."""
    if [c.get("name", "") for c in items] != [c.get("name", "") for c in before]:
        return items
    containers = []
    for container, stored in zip(items, before, strict=True):
        kept = {name: value for name, value in deepcopy(stored).items() if name not in _RESIZED}
        containers.append(kept | {name: container[name] for name in _RESIZED if name in container})
    return containers


RESIZE = Strategy(
    prepare_for_update=_prepare,
    validate_update=resize.validate,
    reset_fields=STATUS_RESET,
)
