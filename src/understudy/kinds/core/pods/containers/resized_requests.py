"""The requests and limits of pods that may be resized: what their kubelet has granted counts besides what is asked for.

A container's status reports what it was allocated and what it runs with. Until both are as in the spec, the greatest of
the three is taken; a resize that the node has no room for does not count (KEP-1287).
"""

from __future__ import annotations

from collections.abc import Callable

from understudy.kinds.core.pods.containers.pod_requests import Amounts, greatest, of_containers, parsed
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery.releases.version import V1_33, V1_37, Version
from understudy.machinery.types import Obj, nested_field


def of_resized(pod: Obj, kind: str, version: Version) -> Amounts:
    """Return the `requests` or `limits` of all containers of a pod together, by resource.

    Since 1.37 the greatest of the sums counts, before that the sum of what is greatest for each container.

    Upstream: `AggregateContainerRequests`, `AggregateContainerLimits` with `UseStatusResources`.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    counts_spec = not _is_infeasible(status, version)
    reported = {c["name"]: c for k in ("initContainerStatuses", "containerStatuses") for c in status.get(k) or ()}
    if version < V1_37:  # init containers cannot be resized but for sidecars
        for container in spec.get("initContainers") or ():
            if version < V1_33 or not is_sidecar(container):
                reported.pop(container["name"], None)

    def status_of(container: Obj) -> Obj:
        return reported.get(container["name"]) or {}

    if version < V1_37:
        return of_containers(spec, lambda c: _greatest_of(c, status_of(c), kind, counts_spec, version))
    sources = (_actuated, _allocated) if kind == "requests" else (_actuated,)
    sums = [of_containers(spec, _asked(kind))] if counts_spec else []
    sums += [of_containers(spec, _reported(source, status_of, kind, counts_spec)) for source in sources]
    return greatest(*sums)


def _is_infeasible(status: Obj, version: Version) -> bool:
    """Report whether the node has no room for the resize of a pod (upstream: `IsPodResizeInfeasible`)."""
    if version < V1_33:
        return bool(status.get("resize") == "Infeasible")
    pending = [c for c in status.get("conditions") or () if c.get("type") == "PodResizePending"]
    return bool(pending) and bool(pending[0].get("reason") == "Infeasible")


def _asked(kind: str) -> Callable[[Obj], Amounts]:
    return lambda container: parsed((container.get("resources") or {}).get(kind))


def _actuated(status: Obj, kind: str) -> Obj | None:
    """Return the resources that a container runs with, None if its status does not say them."""
    return nested_field(status, "resources", kind) or (_allocated(status, kind) if kind == "requests" else None)


def _allocated(status: Obj, kind: str) -> Obj | None:
    """Return the requests that a kubelet has granted a container, None if its status does not say them."""
    return status.get("allocatedResources") or None


def _reported(
    source: Callable[[Obj, str], Obj | None], status_of: Callable[[Obj], Obj], kind: str, counts_spec: bool
) -> Callable[[Obj], Amounts]:
    """Return a function of the amounts that a container's status reports, or else of those that it asks for."""

    def amounts(container: Obj) -> Amounts:
        said = source(status_of(container), kind)
        if said is not None:
            return parsed(said)
        return _asked(kind)(container) if counts_spec else {}

    return amounts


def _greatest_of(container: Obj, status: Obj, kind: str, counts_spec: bool, version: Version) -> Amounts:
    """Return the amounts of one container, as releases before 1.37 take them."""
    asked = _asked(kind)(container)
    if status.get("resources") is None:
        return asked
    actuated = parsed(status["resources"].get(kind))
    allocated = parsed(_allocated(status, kind)) if kind == "requests" and version >= V1_33 else {}
    return greatest(*([asked] if counts_spec else []), actuated, allocated)
