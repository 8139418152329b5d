"""What a pod takes of its node while it is resized: the most of what it asks for, was granted, and has (KEP-1287).

A resize that its node cannot grant does not count. Since 1.37 the amounts of all containers together are compared,
before that those of each container by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.kinds.core.pods.containers.claim_requests import is_set_as_whole
from understudy.kinds.core.pods.containers.pod_requests import N, Read, added, greatest, of_containers
from understudy.kinds.core.pods.in_use import is_sidecar
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj, dataclass

Amounts = Mapping[str, str]


@dataclass(frozen=True)
class Resizes:
    """The resizes that count.

    containers  those of containers (feature gate InPlacePodVerticalScaling)
    whole       those of what a pod sets as a whole (InPlacePodLevelResourcesVerticalScaling)
    together    whether sums of all containers are compared
    """

    containers: bool = False
    whole: bool = False
    together: bool = False

    @classmethod
    def of(cls, version: Version, gates: Gates) -> Resizes:
        """Return the resizes that count in a release."""
        containers = gates[features.IN_PLACE_POD_VERTICAL_SCALING]
        whole = containers and gates[features.IN_PLACE_POD_LEVEL_RESOURCES_VERTICAL_SCALING]
        return cls(containers, whole, together=version >= V1_37)


NO_RESIZES = Resizes()


def of_all_containers(spec: Obj, status: Obj, resizes: Resizes, read: Read[N], used: dict[str, N]) -> dict[str, N]:
    """Return the requests of the containers of a pod, with what its devices use. Upstream:
    `AggregateContainerRequests`."""

    def asked(container: Obj) -> dict[str, N]:
        return read(_requested(container))

    if not resizes.containers or not status:
        return added(of_containers(spec, asked), used)
    of_name = _container_statuses(status)
    counts = not is_infeasible(status)
    if not resizes.together:
        in_place = {container["name"] for container in spec["containers"]} | {
            container["name"] for container in spec.get("initContainers") or () if is_sidecar(container)
        }

        def most(container: Obj) -> dict[str, N]:
            state = of_name.get(container["name"], {})
            if container["name"] not in in_place or state.get("resources") is None:
                return asked(container)
            given = read(_requested(state)), read(state.get("allocatedResources"))
            return greatest(*([asked(container)] if counts else []), *given)

        return added(of_containers(spec, most), used)

    def granted(container: Obj) -> dict[str, N]:
        state = of_name.get(container["name"], {})
        return read(_first(state.get("allocatedResources"), _requested(container) if counts else None))

    def had(container: Obj) -> dict[str, N]:
        state = of_name.get(container["name"], {})
        has = _first(_requested(state), state.get("allocatedResources"))
        return read(_first(has, _requested(container) if counts else None))

    whole_had, whole_granted = _requested(status), status.get("allocatedResources")
    if resizes.whole and whole_had is not None and whole_granted is not None:
        given = read(whole_had), read(whole_granted)  # these have what devices use
    else:
        given = of_containers(spec, had), added(of_containers(spec, granted), used)
    return greatest(*([added(of_containers(spec, asked), used)] if counts else []), *given)


def of_whole(spec: Obj, status: Obj, resizes: Resizes, read: Read[N]) -> dict[str, N]:
    """Return the requests that a pod sets as a whole. Upstream: `PodRequests`."""
    asked = _requested(spec) or {}
    if not any(map(is_set_as_whole, asked)):
        return {}
    whole = _supported(asked, read)
    if not resizes.whole or status.get("resources") is None:
        return whole
    given = _supported(_requested(status), read), _supported(status.get("allocatedResources"), read)
    most = greatest(*([] if is_infeasible(status) else [whole]), *given)
    return most if resizes.together else {name: most[name] for name in whole if name in most}


def is_infeasible(status: Obj) -> bool:
    """Report whether the node of a pod can never grant its resize. Upstream: `IsPodResizeInfeasible`."""
    pending = (each for each in status.get("conditions") or () if each["type"] == "PodResizePending")
    return any(each.get("reason") == "Infeasible" for each in list(pending)[:1])


def _container_statuses(status: Obj) -> dict[str, Obj]:
    fields = ("initContainerStatuses", "containerStatuses")
    return {each["name"]: each for field in fields for each in status.get(field) or ()}


def _requested(holder: Obj) -> Any:
    return (holder.get("resources") or {}).get("requests")


def _first(*amounts: Amounts | None) -> Amounts | None:
    return next((each for each in amounts if each is not None), None)


def _supported(amounts: Amounts | None, read: Read[N]) -> dict[str, N]:
    return read({name: text for name, text in (amounts or {}).items() if is_set_as_whole(name)})
