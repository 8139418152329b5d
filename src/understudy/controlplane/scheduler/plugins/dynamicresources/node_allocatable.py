"""Devices that use resources of their node: cpu, memory, huge pages (KEP-5517).

A device stands for some of these, as one that is a set of cores does (its *mapping*), or needs some besides, such as
memory of the host (its *overhead*). What the devices of a pod use counts as if its containers requested it; the status
of the pod says how much that is. Upstream: `nodeallocatabledynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from understudy.controlplane.allocator import Inventory
from understudy.controlplane.allocator.inventory import Device
from understudy.controlplane.client.pod_claims import claim_name, entries_of, full_name
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.pods import CPU, EPHEMERAL_STORAGE, MEMORY, PodInfo
from understudy.controlplane.scheduler.framework.status import Code, Status, error, unresolvable
from understudy.kinds.core.pods.containers.claim_requests import CLAIM_STATUSES, is_huge_pages, uncovered
from understudy.kinds.core.pods.containers.pod_requests import Amounts, added, parsed
from understudy.kinds.core.pods.containers_of import containers
from understudy.machinery.quantity import parse
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import NamedTuple, Obj

NOT_SHARED = "node allocatable resource claim {} has a mapped device and cannot be shared across pods"


class DeviceError(Exception):
    """A device whose use of its node cannot be worked out; `str(error)` is kube-scheduler's text."""


class Allocated(NamedTuple):
    """A claim of a pod with the devices that it has, or is about to get."""

    claim: Obj
    allocation: Obj

    @property
    def results(self) -> list[Obj]:
        """Return the results, one for each device."""
        return self.allocation["devices"].get("results") or []


class NodeAllocatable:
    """Works out what the devices of pods use of their nodes.

    inventory  returns the devices that are there now
    """

    def __init__(self, inventory: Callable[[], Inventory]) -> None:
        self._inventory = inventory

    def is_exclusive(self, allocated: Allocated) -> bool:
        """Report whether a device stands for resources of its node: pods do not share the claim then."""
        for result in allocated.results:
            try:
                uses = self._uses(result, None)
            except DeviceError:
                continue
            if any(use.get("mapping") is not None for use in uses.values()):
                return True
        return False

    def used_on(self, pod: PodInfo, allocated: Iterable[Allocated], node: NodeInfo) -> list[Obj] | Status:
        """Return the use that the devices of a pod make of a node, for its status; or why they cannot.

        Upstream: `calculateAndCheckNodeAllocatableResources`.
        """
        using = [each for each in allocated if self._is_using(each, node.obj)]
        if not using:
            return []
        users = _users(pod, [each.claim for each in using])
        try:
            made = [self._status(each, users.get(each.claim["metadata"]["uid"], []), node.obj) for each in using]
        except DeviceError as why:
            return error(str(why))
        statuses = sorted((status for status in made if status), key=lambda status: str(status["resourceClaimName"]))
        counted = pod.with_status({CLAIM_STATUSES: statuses})
        return _uncovered(counted) or _lacking(counted, node) or statuses

    def _is_using(self, allocated: Allocated, node: Obj) -> bool:
        """Report whether a device uses resources of a node; those that are not for the node are passed over."""
        for result in allocated.results:
            try:
                if self._uses(result, node):
                    return True
            except DeviceError:
                continue
        return False

    def _status(self, allocated: Allocated, users: list[str], node: Obj) -> Obj | None:
        """Return the use that the devices of a claim make of a node, None for none. Raises DeviceError.

        users  the names of the containers that use the claim
        """
        mapped: Amounts = {}
        overheads: dict[str, Amounts] = {}
        for result in allocated.results:
            try:
                uses = self._uses(result, node)
            except DeviceError as why:
                about = f"device {result['device']}, driver {result['driver']}"
                raise DeviceError(f"claim {full_name(allocated.claim)}, {about}: {why}") from why
            for name, use in uses.items():
                if use.get("mapping") is not None:
                    mapped = added(mapped, _mapped(name, use["mapping"], result, allocated.claim))
                if use.get("overhead"):
                    overheads[name] = added(overheads.get(name, {}), parsed(use["overhead"]))
        if not mapped and not overheads:
            return None
        fields = {
            "containers": users,
            "mapping": [{"name": name, "quantity": str(amount)} for name, amount in sorted(mapped.items())],
            "overhead": [
                {"name": name, **{field: str(amount) for field, amount in amounts.items()}}
                for name, amounts in sorted(overheads.items())
            ],
        }
        named = {"resourceClaimName": allocated.claim["metadata"]["name"]}
        return named | {field: value for field, value in fields.items() if value}

    def _uses(self, result: Obj, node: Obj | None) -> dict[str, Obj]:
        """Return the uses of a device by the name of the resource. Raises DeviceError.

        node  the node that the device has to be for, None for any
        """
        uses: dict[str, Obj] = self._device(result, node).spec.get("nodeAllocatableResources") or {}
        return uses

    def _device(self, result: Obj, node: Obj | None) -> Device:
        """Return an allocated device. Raises DeviceError. Upstream: `getDeviceFromSlices`."""
        driver, pool, name = result["driver"], result["pool"], result["device"]
        for slice_ in self._inventory().by_pool.get(f"{driver}/{pool}", ()):
            if node is not None and not slice_.per_device and not _is_for(slice_.obj["spec"], slice_.nodes, node):
                continue
            for device in slice_.devices:
                if device.name != name:
                    continue
                if node is not None and slice_.per_device and not _is_for(device.spec, device.nodes, node):
                    raise DeviceError(f"device {name} does not match node")
                return device
        raise DeviceError(f"device {name} not found in pool {pool} for driver {driver}")


def _is_for(place: Obj, nodes: NodeSelector | None, node: Obj) -> bool:
    """Report whether a slice or a device is for a node. Upstream: `filterSlicesForNode`, `deviceMatchesNode`."""
    if place.get("nodeName") == node["metadata"]["name"] or place.get("allNodes"):
        return True
    return nodes is not None and nodes.matches(node)


def _users(pod: PodInfo, claims: list[Obj]) -> dict[str, list[str]]:
    """Return the names of the containers that use each claim, by its uid; one that names a claim twice counts twice."""
    uids = {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims}
    users: dict[str, list[str]] = {}
    by_entry = {entry["name"]: uids.get(claim_name(pod.obj, entry)[0]) for entry in entries_of(pod.obj)}
    for container in (*containers(pod.spec, "initContainers"), *containers(pod.spec, "containers")):
        for used in (container.get("resources") or {}).get("claims") or ():
            if uid := by_entry.get(used["name"]):
                users.setdefault(uid, []).append(container["name"])
    return users


def _mapped(name: str, mapping: Obj, result: Obj, claim: Obj) -> Amounts:
    """Return the amount of a resource that a device stands for: a part of a capacity, or the same for each device.

    Raises DeviceError. Upstream: `addDeviceMapping`.
    """
    nothing = parse("0")
    if key := mapping.get("capacityKey"):
        consumed = result.get("consumedCapacity")
        if consumed is None:
            about = f"claim {full_name(claim)}, device {result['device']}"
            why = f"ConsumedCapacity is nil, but Capacity key '{key}' is set in NodeAllocatableResources for resource"
            raise DeviceError(f"{about}: {why} {name}")
        if key not in consumed:
            return {}
        amount = parse(str(consumed[key]))
        multiplier = parse(mapping.get("capacityMultiplier") or "1")
        return {name: nothing + (amount if multiplier == 1 else amount * multiplier)}
    each = mapping.get("deviceMultiplier")
    return {} if each is None else {name: nothing + parse(each)}


def _uncovered(pod: PodInfo) -> Status | None:
    """Return the reason that the requests and limits of a pod as a whole leave too little for its devices."""
    if not pod.counted.pod_level or not pod.status[CLAIM_STATUSES]:
        return None
    why = uncovered(pod.spec, pod.status)
    return unresolvable(why) if why else None


def _lacking(pod: PodInfo, node: NodeInfo) -> Status | None:
    """Return the resources that a node has too little of, None if it has enough. Upstream: `nodeFitsResources`."""
    asked = {name: pod.taken[name] for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if name in pod.taken}
    asked |= {name: amount for name, amount in pod.taken.items() if is_huge_pages(name)}
    lacking = {
        name: amount
        for name, amount in asked.items()
        if amount > node.allocatable.get(name, 0) - node.requested.get(name, 0)
    }
    if not lacking:
        return None
    hopeless = any(amount > node.allocatable.get(name, 0) for name, amount in lacking.items())
    reasons = tuple(f"Insufficient {name}" for name in lacking)
    return Status(Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE, reasons)
