"""Extended resources that devices provide: the scheduler makes the claim for them itself.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource (upstream:
`extendeddynamicresources.go`). A DeviceClass names the resource in `spec.extendedResourceName`; each class has one more
name. On a node that has the resource itself, its device plugin provides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.controlplane.scheduler.framework.pods import PodInfo, amounts
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery.types import NamedTuple, Obj
from understudy.machinery.validation.generated_names import new_uid

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY = "<extended-resources>"  # name of a claim that is not written yet

ClassOf = Callable[[str], str | None]  # returns the class that provides a resource


class Demand(NamedTuple):
    """The devices that a pod needs on a node for extended resources: requests of its claim, and who gets which."""

    requests: list[Obj]
    mappings: list[Obj]


def provided_by_classes(pod: PodInfo, class_of: ClassOf) -> list[str]:
    """Return the resources that a pod requests and a class provides, sorted."""
    return sorted(name for name in pod.requests if class_of(name) is not None)


def new_claim(pod: PodInfo) -> Obj:
    """Return the claim of a pod for such resources. It has neither requests nor a name before there is a node."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": IN_MEMORY,
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "uid": new_uid(),
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {}},
    }


def is_in_memory(claim: Obj) -> bool:
    """Report whether a claim is not written yet."""
    return bool(claim["metadata"]["name"] == IN_MEMORY)


def is_claim_of(claim: Obj, pod: PodInfo) -> bool:
    """Report whether an earlier attempt has written a claim for the extended resources of a pod."""
    metadata = claim["metadata"]
    if (metadata.get("annotations") or {}).get(ANNOTATION) != "true":
        return False
    return any(owner["uid"] == pod.uid and owner.get("controller") for owner in metadata.get("ownerReferences") or ())


def demand_of(pod: PodInfo, resources: Sequence[str], class_of: ClassOf) -> Demand:
    """Return a pod's demand of devices for some resources. Upstream: `createRequestsAndMappings`.

    Containers and sidecars have separate requests. Init containers run before, one at a time: they use the devices
    of those that come after them, and share one request for what these lack.
    """
    requests: list[Obj] = []
    mappings: list[Obj] = []
    for resource in resources:
        demand = _demand_of_resource(pod.spec, resource, class_of(resource) or "")
        requests += demand.requests
        mappings += demand.mappings
    return Demand(sorted(requests, key=lambda request: str(request["name"])), mappings)


def _demand_of_resource(spec: Obj, resource: str, class_name: str) -> Demand:
    init = spec.get("initContainers") or []
    containers = [*init, *spec["containers"]]
    passing = [i for i, container in enumerate(init) if not is_sidecar(container)]
    own: list[Obj | None] = [None] * len(containers)
    mappings: list[Obj] = []
    for i in range(len(containers)):
        if i not in passing:
            own[i], mapped = _request_of(i, containers[i], resource, class_name, [])
            mappings += mapped
    shared: list[Obj] = []
    of_passing: list[Obj] = []
    for i in passing:
        request, mapped = _request_of(i, containers[i], resource, class_name, own[i:])
        shared += [request] if request else []
        of_passing += mapped
    largest = max(shared, key=_count, default=None)
    names = {request["name"] for request in shared}
    if largest is not None:
        of_passing = [{**m, "requestName": largest["name"]} if m["requestName"] in names else m for m in of_passing]
    return Demand([request for request in (largest, *own) if request is not None], mappings + of_passing)


def _request_of(
    index: int, container: Obj, resource: str, class_name: str, reusable: Sequence[Obj | None]
) -> tuple[Obj | None, list[Obj]]:
    """Return the request of a container beyond those that it can reuse, None if these are enough; and what it uses."""
    requested = amounts((container.get("resources") or {}).get("requests"))
    count = requested.get(resource, 0)
    mappings: list[Obj] = []
    if not count:
        return None, mappings

    def use(name: str) -> None:
        mappings.append({"containerName": container["name"], "resourceName": resource, "requestName": name})

    for request in reusable:
        if request is not None:
            count -= _count(request)
            use(request["name"])
            if count <= 0:
                return None, mappings
    name = f"container-{index}-request-{sorted(requested).index(resource)}"
    use(name)
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}, mappings


def _count(request: Obj) -> int:
    return int(request["exactly"]["count"])
