"""NodeDeclaredFeatureValidator and PodResizeValidator: refuse resizes of pods that their nodes cannot do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers.pod_requests import of_pod, parsed
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.kinds.core.pods.validation.updates import equal_ignoring_empty
from understudy.machinery import errors
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_36, V1_37
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import Obj, nested_field

_SLICES = ("resource.k8s.io", "resourceslices")
_ALLOCATABLE = "DRANodeAllocatableResources"


def _forbidden(pod: Obj, why: str, cause: str = "") -> errors.StatusError:
    error = errors.admission_forbidden("", "pods", pod["metadata"], why)
    if cause:
        error.details = {**(error.details or {}), "causes": [{"reason": cause}]}
    return error


def _node_of_changed(attributes: Attributes, ctx: Context) -> Obj | None:
    """Return the node of a pod whose spec has changed, None for other pods. Raises 403 for an unknown node."""
    pod, name = attributes.new, attributes.new["spec"].get("nodeName")
    if not name or pod["metadata"].get("generation") == attributes.old["metadata"].get("generation"):
        return None
    node = ctx.lookup("", "nodes", "", name)
    if node is None:
        raise _forbidden(pod, f"node {go_quote(name)} not found")
    return node


class NodeDeclaredFeatureValidator:
    """Refuses updates that need features which the node of the pod does not declare (KEP-5328).

    Since 1.37 it refuses slices, too, whose devices use resources of nodes that do not declare this feature.
    """

    name = "NodeDeclaredFeatureValidator"

    def handles(self, point: Point) -> bool:
        if point[1:4] == (*_SLICES, ""):
            return point.operation in (Operation.CREATE, Operation.UPDATE)
        return point[:3] == (Operation.UPDATE, "", "pods") and point.subresource in ("", "resize")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for an unknown node, and for one that lacks a feature."""
        if attributes.point[1:3] == _SLICES:
            if ctx.release >= V1_37 and ctx.gates[features.DRA_NODE_ALLOCATABLE_RESOURCES]:
                _check_nodes_of_slice(attributes.new, ctx)
            return
        if not ctx.gates[features.NODE_DECLARED_FEATURES]:
            return
        needed = list(_needed(attributes.new, attributes.old, ctx))
        node = _node_of_changed(attributes, ctx) if needed else None
        if node is None:
            return
        declared = nested_field(node, "status", "declaredFeatures", default=())
        missing = ", ".join(name for name in needed if name not in declared)
        if missing:
            of_node = f"which are not available on node {go_quote(node['metadata']['name'])}"
            raise _forbidden(attributes.new, f"pod update requires features {missing} {of_node}")


def _check_nodes_of_slice(slice_: Obj, ctx: Context) -> None:
    """Raise 403 for a device that uses resources of nodes which are not there or do not declare that they know this."""
    spec = slice_["spec"]
    for device in spec.get("devices") or ():
        if not device.get("nodeAllocatableResources"):
            continue
        place, called = device if spec.get("perDeviceNodeSelection") is True else spec, go_quote(device.get("name", ""))
        if name := place.get("nodeName"):
            node = ctx.lookup("", "nodes", "", name)
            if node is None:
                raise _slice_forbidden(slice_, f"node {go_quote(name)} not found for device {called}")
            nodes: Iterable[Obj] = [node]
        elif (selector := place.get("nodeSelector")) is not None:
            chosen = NodeSelector(selector)
            nodes = [node for node in ctx.listing("", "nodes", "") if chosen.matches(node)]
        elif place.get("allNodes"):
            nodes = ctx.listing("", "nodes", "")
        else:
            why = "has NodeAllocatableResources but does not map to any nodes"
            raise _slice_forbidden(slice_, f"device {called} in ResourceSlice {why}")
        for node in nodes:
            if _ALLOCATABLE not in nested_field(node, "status", "declaredFeatures", default=()):
                text = f"node {go_quote(node['metadata']['name'])} does not support {_ALLOCATABLE} feature"
                raise _slice_forbidden(slice_, text)


def _slice_forbidden(slice_: Obj, why: str) -> errors.StatusError:
    return errors.admission_forbidden(*_SLICES, slice_["metadata"], why)


def _needed(pod: Obj, old: Obj, ctx: Context) -> Iterator[str]:
    """Yield the features that a node needs for a change (upstream: `InferForUpdate`)."""
    spec, before = pod["spec"], old["spec"]
    if ctx.release < V1_36 and nested_field(old, "status", "qosClass") == "Guaranteed":
        pairs = zip(spec["containers"], before["containers"], strict=False)
        if any(_request(new) != _request(stored) for new, stored in pairs):
            yield "GuaranteedQoSPodCPUResize"
    if not equal_ignoring_empty(spec.get("resources"), before.get("resources")):
        yield "InPlacePodLevelResourcesVerticalScaling"
    pairs = zip(spec.get("initContainers") or (), before.get("initContainers") or (), strict=False)
    if ctx.release >= V1_36 and any(
        not is_sidecar(stored) and new.get("resources") != stored.get("resources") for new, stored in pairs
    ):
        yield "InPlacePodVerticalScalingInitContainers"
    volumes = zip(spec.get("volumes") or (), before.get("volumes") or (), strict=False)
    if ctx.release >= V1_37 and any(_is_resized(volume, stored) for volume, stored in volumes):
        yield "InPlacePodVerticalScalingMemoryBackedVolumes"


def _is_resized(volume: Obj, stored: Obj) -> bool:
    """Report whether a volume in memory has another limit of its size."""
    now, then = (nested_field(each, "emptyDir", "sizeLimit") for each in (volume, stored))
    in_memory = volume["name"] == stored["name"] and nested_field(volume, "emptyDir", "medium") == "Memory"
    return in_memory and now is not None and then is not None and parse(now) != parse(then)


def _request(container: Obj) -> Quantity:
    return parse(nested_field(container, "resources", "requests", "cpu", default="0"))


class PodResizeValidator:
    """Refuses resizes on nodes that are too small or do not run Linux (KEP-1287)."""

    name = "PodResizeValidator"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.UPDATE, "", "pods", "resize")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for an unknown node, and for one that cannot hold the pod."""
        node = _node_of_changed(attributes, ctx)
        if node is None:
            return
        system = nested_field(node, "metadata", "labels", default={}).get("kubernetes.io/os", "linux")
        if system != "linux":
            of_node = f"node {go_quote(node['metadata']['name'])} is {go_quote(system)}"
            why = f"pod resize is only supported on linux nodes, {of_node}"
            raise _forbidden(attributes.new, why, "UnsupportedPlatform")
        lacking = "; ".join(_lacking(attributes.new["spec"], nested_field(node, "status", "allocatable", default={})))
        if lacking:
            why = f"node didn't have enough allocatable resources: {lacking}"
            raise _forbidden(attributes.new, why, "NodeCapacity")


def _lacking(spec: Obj, allocatable: dict[str, str]) -> Iterator[str]:
    """Yield a text for cpu and for memory if a pod requests more than a node has (upstream: `PodRequests`)."""
    requests = of_pod(spec, "requests", parsed, lambda _: True)
    for name, exponent in (("cpu", -3), ("memory", 0)):
        asked = requests.get(name, parse("0")) + parse((spec.get("overhead") or {}).get(name, "0"))
        most = parse(allocatable.get(name, "0"))
        if most < asked:
            yield f"{name}, requested: {asked.scaled(exponent)}, allocatable: {most.scaled(exponent)}"
