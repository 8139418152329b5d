"""Finds out why claims cannot be allocated on a node.

Each device is looked at alone first, in the order of the checks of a search: this shows selectors that are false,
devices in use, taints. A device that fits alone may still be refused together with others: a real search notes why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from understudy.controlplane.allocator.allocated import AllocatedState, key_of
from understudy.controlplane.allocator.checks.attributes import Attributes
from understudy.controlplane.allocator.checks.constraints import Constraint
from understudy.controlplane.allocator.checks.counters import SharedCounters
from understudy.controlplane.allocator.checks.taints import taint_text, untolerated_taint
from understudy.controlplane.allocator.errors import AllocationError, AllocatorPanicError
from understudy.controlplane.allocator.explanation import (
    ClaimVerdict,
    DeviceVerdict,
    Explanation,
    Reason,
    RequestVerdict,
)
from understudy.controlplane.allocator.inventory import Device, Inventory
from understudy.controlplane.allocator.pools import NodePools, device_is_for_node, is_for_node, pools_of
from understudy.controlplane.allocator.requests import ClaimData, ClaimReader, Matcher, Request, internal_claim
from understudy.controlplane.allocator.rules import Rules
from understudy.controlplane.allocator.search import CheckTime, Refusal, Refuse
from understudy.controlplane.allocator.selectors import SelectorError
from understudy.machinery.types import Obj

STEPS = 200_000

Allocate = Callable[[Obj, Sequence[Obj], CheckTime, Refuse], list[Obj] | None]
Verdict = tuple[Reason, str]

_REASONS = {
    Refusal.IN_USE: Reason.IN_USE,
    Refusal.COUNTERS: Reason.COUNTERS,
    Refusal.GROUPS: Reason.GROUPS,
    Refusal.OPERATIONS: Reason.OPERATIONS,
    Refusal.PARTITIONS: Reason.PARTITIONS,
    Refusal.TAINT: Reason.TAINT,
    Refusal.CONSTRAINT: Reason.CONSTRAINT,
    Refusal.CAPACITY: Reason.CAPACITY,
}


class _Requests(ClaimReader):
    """Reads claims without choosing the devices of requests for all of them, which may fail."""

    def all_devices(self, what: str, request: Request, matches: dict[str, bool]) -> list[Device]:
        return []


class Explainer:
    """Explains allocations on one node."""

    def __init__(
        self,
        rules: Rules,
        inventory: Inventory,
        allocated: AllocatedState,
        classes: Mapping[str, Obj],
        matcher: Matcher,
        attributes: Attributes,
        node: Obj,
    ) -> None:
        self._rules = rules
        self._inventory = inventory
        self._allocated = allocated
        self._node = node
        self._error = ""  # that of pools which cannot be gathered, since a slice has a wrong node selector
        try:
            self._pools = pools_of(inventory, node)
        except AllocationError as error:
            self._error = str(error)
            self._pools = NodePools([], rules)
        self._matcher = matcher
        self._reader = _Requests(rules, classes, self._pools, matcher, attributes, allocated)

    def explain(self, claims: Sequence[Obj], allocate: Allocate, steps: int) -> Explanation:
        """Explain the allocation of claims, or its failure.

        allocate  allocates the claims, with a function that is called at every step, and one that is told refusals
        """
        refused: dict[tuple[int, str, str], Verdict] = {}

        def refuse(request: Request, device: Device, refusal: Refusal, about: object) -> None:
            key = (request.claim_index, request.full_name, device.id)
            if key not in refused:
                refused[key] = self._refusal(request, device, refusal, about)

        error, allocations = "", None
        try:
            allocations = allocate(self._node, claims, _step_limit(steps), refuse)
        except AllocationError as why:
            error = str(why)
        verdicts = [self._claim(index, internal_claim(claim), refused) for index, claim in enumerate(claims)]
        name = self._node["metadata"].get("name", "")
        return Explanation(name, allocations, error, verdicts, [*self._left_out()])

    def _claim(self, index: int, claim: Obj, refused: Mapping[tuple[int, str, str], Verdict]) -> ClaimVerdict:
        key = key_of(claim)
        if self._error:
            return ClaimVerdict(key, self._error)
        try:
            data = self._reader.read(index, claim)
        except AllocationError as error:
            return ClaimVerdict(key, str(error))
        requests = [request for subrequests in data.requests for request in subrequests]
        return ClaimVerdict(key, "", [self._request(request, data, refused) for request in requests])

    def _request(
        self, request: Request, data: ClaimData, refused: Mapping[tuple[int, str, str], Verdict]
    ) -> RequestVerdict:
        devices, fitting = [], 0
        for device in self._devices():
            reason, message = self._alone(request, device, data)
            if reason is Reason.FITS:
                fitting += 1
                key = (request.claim_index, request.full_name, device.id)
                reason, message = refused.get(key, (reason, message))
            devices.append(DeviceVerdict(device.id, reason, message))
        asked = None if request.all_devices is not None else request.count
        return RequestVerdict(request.full_name, asked, fitting, devices)

    def _devices(self) -> Iterator[Device]:
        """Yield the devices of all pools that are considered, once each."""
        devices = (device for pool in self._pools.pools for slice_ in pool.slices for device in slice_.devices)
        yield from {id(device): device for device in devices}.values()

    # --- devices alone ------------------------------------------------------------------------------------------------

    def _alone(self, request: Request, device: Device, data: ClaimData) -> Verdict:
        """Return the first rule that a device fails for a request while nothing else is allocated."""
        rules = self._rules
        if device.unknown:
            return Reason.UNKNOWN, "is of no kind that the release knows"
        if device.binding_conditions and not rules.binding_conditions:
            return Reason.BINDING_CONDITIONS, "has binding conditions, which are off"
        if not request.admin_access and device.id in self._allocated.devices:
            return Reason.IN_USE, f"in use by claim {', '.join(self._allocated.devices[device.id])}"
        return (
            self._selected(request, device)
            or self._without_operations(device)
            or self._with_counters(device)
            or self._tolerated(request, device)
            or self._with_attributes(request, device, data.constraints)
            or self._with_capacity(request, device)
            or (Reason.FITS, "fits")
        )

    def _selected(self, request: Request, device: Device) -> Verdict | None:
        try:
            refusing = self._matcher.refusing(request, device, request.of_class)
        except (SelectorError, AllocatorPanicError) as error:
            return Reason.SELECTOR_ERROR, str(error)
        if refusing:
            selectors, position = refusing
            expression = selectors.expressions[position]
            return Reason.SELECTOR, f"selector #{position} of {selectors.owner} is false: {expression}"
        try:
            if device.slice.per_device and not device_is_for_node(device, self._node, self._rules.release):
                return Reason.NODE, "is for other nodes"
        except AllocationError as error:
            return Reason.SELECTOR_ERROR, str(error)
        return None

    def _without_operations(self, device: Device) -> Verdict | None:
        if self._matcher.runs(device):
            return None
        skipped = ", ".join(device.slice.skipped_operations)
        return Reason.OPERATIONS, f"is without {skipped}, which the node or the scheduler does not support"

    def _with_counters(self, device: Device) -> Verdict | None:
        rules = self._rules
        if not device.consumes:
            return None
        if not rules.partitionable_devices:
            off = Reason.PARTITIONS, "consumes counters, but the DRAPartitionableDevices feature is disabled"
            return off if rules.needs_partitions else None
        pool = self._pools.by_id[device.slice.pool] if rules.counter_slices else None
        exhausted = SharedCounters(rules, {}, self._allocated).reserve(device, pool, lambda _: False)
        return (Reason.COUNTERS, _exhausted(exhausted)) if exhausted else None

    def _tolerated(self, request: Request, device: Device) -> Verdict | None:
        if not self._rules.device_taints:
            return None
        taint = untolerated_taint(device.taints, request.tolerations, self._rules.effects)
        return (Reason.TAINT, f"taint {taint_text(taint)} is not tolerated") if taint else None

    def _with_attributes(self, request: Request, device: Device, constraints: Sequence[Constraint]) -> Verdict | None:
        for constraint in constraints:
            try:
                if not constraint.add(request, device):
                    return Reason.CONSTRAINT, _breaks(constraint, request, device)
            except AllocationError as error:
                return Reason.CONSTRAINT, str(error)
            constraint.remove(request, device)
        return None

    def _with_capacity(self, request: Request, device: Device) -> Verdict | None:
        if not self._rules.consumable_capacity:
            return None
        return self._lacks_capacity(request, device)

    def _lacks_capacity(self, request: Request, device: Device) -> Verdict | None:
        try:
            demand = request.demand(device)
        except AllocationError as error:
            return Reason.CAPACITY, str(error)
        if demand.refusal:
            return Reason.CAPACITY, demand.refusal
        if name := demand.too_much(self._allocated.capacity.get(device.id)):
            sharers = ", ".join(self._allocated.shares.get(device.id, ()))
            taken = f", shared by claim {sharers}" if sharers else ""
            return Reason.CAPACITY, f"has less than {demand.amounts[name]} of {name} left{taken}"
        return None

    # --- devices with others ------------------------------------------------------------------------------------------

    def _refusal(self, request: Request, device: Device, refusal: Refusal, about: object) -> Verdict:
        """Return the reason that the search refused a device."""
        match refusal:
            case Refusal.COUNTERS:
                message = _exhausted(str(about))
            case Refusal.CONSTRAINT:
                message = _breaks(cast(Constraint, about), request, device)
            case Refusal.CAPACITY:
                lacks = self._lacks_capacity(request, device)
                message = lacks[1] if lacks else "has no capacity left beside what else is asked for"
            case Refusal.IN_USE:
                message = "is needed for another request"
            case _:
                message = refusal.value
        return _REASONS[refusal], message

    # --- pools --------------------------------------------------------------------------------------------------------

    def _left_out(self) -> Iterator[str]:
        """Yield the reasons of pools and slices that are not considered."""
        rules, name = self._rules, self._node["metadata"].get("name", "")
        considered = {slice_.name for pool in self._pools.pools for slice_ in [*pool.slices, *pool.elsewhere]}
        for pool in self._pools.pools:
            slices = self._inventory.by_pool[pool.id]
            newest = max(slice_.generation for slice_ in slices)
            if pool.incomplete:
                there = sum(slice_.generation == newest for slice_ in slices)
                text = f"generation {newest} has {there} of {slices[0].count} slices"
                taken = "its devices are taken nevertheless" if rules.takes_from_incomplete else "no device is taken"
                yield f"pool {pool.id} is incomplete: {text}, {taken}"
            if pool.invalid:
                yield f"pool {pool.id} is invalid: {pool.invalid}"
        kept = {pool.id for pool in self._pools.pools if not pool.incomplete and not pool.invalid}
        for slice_ in self._inventory.near(name):
            if slice_.name in considered:
                continue
            try:
                elsewhere = not is_for_node(slice_, self._node, rules)
            except AllocationError:
                continue  # that of the allocation
            if elsewhere:
                yield f"slice {slice_.name} is for other nodes"
            elif slice_.pool in kept or slice_.pool not in self._pools.by_id:
                yield f"slice {slice_.name} is of an older generation of pool {slice_.pool}"


def _exhausted(counter: str) -> str:
    return f"needs more of counter {counter} than is left"


def _breaks(constraint: Constraint, request: Request, device: Device) -> str:
    return f"{constraint.field}: {constraint.refusal(request, device)}"


def _step_limit(steps: int) -> CheckTime:
    """Return a function that raises AllocationError when it has been called more often than a number of times."""
    left = iter(range(steps))

    def check() -> None:
        if next(left, None) is None:
            raise AllocationError(f"no solution found in {steps} steps, the search was given up")

    return check
