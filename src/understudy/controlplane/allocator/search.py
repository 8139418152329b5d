"""The search for devices: depth first, the first solution wins (upstream: `allocateOne`, `allocateDevice`).

Requests are met in their order, each by devices in the order of their pools. When a request cannot be met, the device
that was chosen last is given back and the next one is tried. Upstream recurses; here a stack of frames holds what is
still to be tried:

    ClaimEnd       the requests of a claim are met, the next claim begins
    Subrequests    a subrequest of a request is tried
    AllDevices     a device of a request for all devices is taken
    Choice         a device is chosen; it is given back to try the next one

A step is either a `Position` to go on from or a reason to turn back; then the last frame says what is next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

from understudy.controlplane.allocator import allocated
from understudy.controlplane.allocator.allocated import AllocatedState, Amounts
from understudy.controlplane.allocator.checks.counters import SharedCounters
from understudy.controlplane.allocator.checks.groups import CompatibilityGroups, CounterSet, Groups
from understudy.controlplane.allocator.checks.taints import untolerated_taint
from understudy.controlplane.allocator.errors import AllocationError, AllocatorPanicError
from understudy.controlplane.allocator.inventory import Device
from understudy.controlplane.allocator.pools import NodePools
from understudy.controlplane.allocator.requests import MAX_RESULTS, ClaimData, Matcher, Request
from understudy.controlplane.allocator.rules import Blocked, InvalidPools, Rules, Variant
from understudy.machinery.releases.version import V1_37
from understudy.machinery.types import NamedTuple, dataclass
from understudy.machinery.validation.generated_names import new_uid


class Position(NamedTuple):
    """The next thing to allocate: a device of a subrequest of a request of a claim, all counted from 0.

    picked  whether the subrequest has been picked
    start   the number of the device at which the search goes on
    """

    claim: int
    request: int = 0
    subrequest: int = 0
    device: int = 0
    picked: bool = False
    start: int = 0


class End(Enum):
    """The reasons for which a search ends or turns back."""

    DONE = "everything is allocated"
    FAILED = "a request cannot be met"
    EXCEEDED = "a request is for more devices than a result may have"
    STOPPED = "nothing else is tried"


Step = Position | End


class Refusal(Enum):
    """The reasons for which a device that the selectors match is not allocated in some state of the search."""

    IN_USE = "in use"
    COUNTERS = "counters exhausted"
    GROUPS = "compatibility groups do not go with those of other devices"
    OPERATIONS = "the node does not skip the operations that the driver has left out"
    PARTITIONS = "partitionable devices are off"
    TAINT = "taint not tolerated"
    CONSTRAINT = "constraint not satisfied"
    CAPACITY = "capacity exhausted"


CheckTime = Callable[[], None]
Refuse = Callable[[Request, Device, Refusal, object], None]


def _ignore(request: Request, device: Device, refusal: Refusal, about: object) -> None:
    """Do nothing about a device that is not allocated."""


@dataclass(eq=False, slots=True)
class Allocated:
    """A device that the search has taken for a request, and what has to be undone to give it back.

    counters     whether it consumes shared counters
    groups       what was common to the devices of its counter sets before, if it was added to them
    constraints  how many of the claim's constraints it was added to
    marked       whether it is in `Search.allocating`
    share_id     the id of its share, if requests share the device, with the amounts that it has `consumed`
    was_shared   whether the device had shares in this search before
    """

    request: Request
    device: Device
    counters: bool = False
    groups: Mapping[CounterSet, Groups | None] | None = None
    constraints: int = 0
    marked: bool = False
    share_id: str | None = None
    consumed: Amounts | None = None
    was_shared: bool = False


class Frame(Protocol):
    """A place that the search has passed and to which it turns back."""

    def retry(self, end: End) -> Step:
        """Return the next step after those that followed have failed; an `End` leaves the frame, too."""


class Search:
    """A search for devices for the claims of a pod on a node."""

    def __init__(
        self,
        rules: Rules,
        claims: Sequence[ClaimData],
        pools: NodePools,
        matcher: Matcher,
        allocated: AllocatedState,
        counters: SharedCounters,
        groups: CompatibilityGroups,
        check_time: CheckTime | None = None,
        refuse: Refuse | None = None,
    ) -> None:
        """Set up a search.

        check_time  is called at every step, and may raise to give up
        refuse      is told why a device is not allocated
        """
        self.rules = rules
        self.claims = claims
        self.pools = pools
        self.matcher = matcher
        self.allocated = allocated
        self.counters = counters
        self.groups = groups
        self.check_time = check_time
        self.refuse = refuse or _ignore
        self.results: list[list[Allocated]] = [[] for _ in claims]
        self.picked: dict[tuple[int, int], int] = {}
        self.allocating: dict[str, set[int]] = {}
        self._shares = rules.consumable_capacity
        self._taints = rules.device_taints
        self._grouped = rules.variant is Variant.EXPERIMENTAL and rules.release >= V1_37 and rules.compatibility_groups
        self.allocating_capacity: dict[str, Amounts] = {}

    def run(self) -> bool:
        """Allocate devices for all claims; return whether that is possible. Raises AllocationError."""
        frames: list[Frame] = []
        step: Step = Position(0)
        while True:
            if isinstance(step, Position):
                step = self._enter(step, frames)
            elif step is End.DONE:
                for frame in frames:
                    if isinstance(frame, Subrequests):
                        self.picked[frame.position.claim, frame.position.request] = frame.at
                return True
            elif step is End.STOPPED or not frames:
                break
            else:
                step = frames[-1].retry(step)
                if not isinstance(step, Position):
                    frames.pop()
        if step is End.EXCEEDED:
            raise AllocationError("allocation max size exceeded")
        return False

    def _enter(self, position: Position, frames: list[Frame]) -> Step:
        """Go on from a position; frames are pushed for what may be tried later."""
        if self.check_time:
            self.check_time()
        if position.claim >= len(self.claims):
            return End.DONE
        requests = self.claims[position.claim].requests
        if position.request >= len(requests):
            frames.append(ClaimEnd())
            return Position(position.claim + 1)
        subrequests = requests[position.request]
        request = subrequests[position.subrequest]
        if request.is_subrequest and not position.picked:
            frame = Subrequests(self, position, len(subrequests))
            frames.append(frame)
            return frame.first()
        if request.all_devices is not None and not request.all_devices and self.rules.needs_a_device:
            return End.FAILED
        if position.device >= request.count:
            return Position(position.claim, position.request + 1)
        if len(self.results[position.claim]) + request.count - position.device > MAX_RESULTS:
            return End.EXCEEDED if self.rules.limits_results else End.FAILED
        if request.all_devices is not None:
            return self._take_of_all(request, position, frames)
        choice = Choice(self, request, position)
        step = choice.next()
        if isinstance(step, Position):
            frames.append(choice)
        return step

    def _take_of_all(self, request: Request, position: Position, frames: list[Frame]) -> Step:
        """Take the next device of a request for all devices."""
        assert request.all_devices is not None
        device = request.all_devices[position.device]
        taken = self.allocate(request, device, position, must=True)
        if taken is None and self.rules.blocked is not Blocked.LEFT_OUT:
            return End.STOPPED if self.rules.blocked is Blocked.STOPS else End.FAILED
        frames.append(AllDevices(self, taken))
        subrequest = position.subrequest if self.rules.keeps_subrequest else 0
        return Position(position.claim, position.request, subrequest, position.device + 1, position.picked)

    def candidates(self, request: Request, start: int) -> Iterator[tuple[int, Device]]:
        """Yield the devices that can be chosen for a request, from a place on, with the place to go on after each."""
        devices, candidates = self.pools.devices, request.candidates
        in_use, allocating = self.allocated.devices, self.allocating
        at = start
        while True:
            if at < len(candidates):
                device = candidates[at]
            elif request.looked_at < len(devices):
                device = devices[request.looked_at]
                request.looked_at += 1
                if device.id in in_use and not request.admin_access:
                    continue
                if not allocating.get(device.id) and not self._is_selectable(request, device):
                    continue
                candidates.append(device)
            elif self.pools.refusal:
                raise AllocationError(self.pools.refusal)
            else:
                return
            at += 1
            if self._is_taken(request, device):
                continue
            matches = request.matches.get(device.id)
            if matches or (matches is None and self._is_selectable(request, device)):
                if self.rules.invalid_pools is InvalidPools.REFUSED_WITH_DEVICE:
                    self._refuse_invalid(device)
                if not self._shares or self._has_capacity(request, device):
                    yield at, device

    def _is_selectable(self, request: Request, device: Device) -> bool:
        return self.matcher.is_selectable(request, device, request.matches, request.of_class)

    def _is_taken(self, request: Request, device: Device) -> bool:
        """Report whether a device is allocated already, to other claims or in this search."""
        holders = self.allocating.get(device.id)
        if request.admin_access:
            return self.rules.admin_once_per_claim and request.claim_index in (holders or ())
        return bool(holders) or device.id in self.allocated.devices

    def _refuse_invalid(self, device: Device) -> None:
        pool = self.pools.by_id[device.slice.pool]
        if pool.invalid:
            raise AllocationError(f"pool {pool.name} is invalid: {pool.invalid}")

    def _has_capacity(self, request: Request, device: Device) -> bool:
        """Report whether a device has enough capacity besides what others take (upstream: `CmpRequestOverCapacity`)."""
        try:
            demand = request.demand(device)
        except AllocationError as error:
            what = f"{request.own.owner}, request {request.name}"
            raise AllocationError(f"{what}: checking capacity for device {device.id}: {error}") from None
        if demand.refusal:
            return False
        taken, allocating = self.allocated.capacity.get(device.id), self.allocating_capacity.get(device.id)
        if not taken and not allocating:
            return demand.alone
        return demand.too_much(taken, allocating) is None

    # --- devices ------------------------------------------------------------------------------------------------------

    def allocate(self, request: Request, device: Device, position: Position, *, must: bool = False) -> Allocated | None:
        """Take a device for a request; None if a check refuses it.

        must  whether it is one of all devices: it may be taken already, and to break a constraint is an error
        """
        rules = self.rules
        shared = device.shareable and self._shares
        if must and self._is_taken(request, device) and not (shared and request.admin_access):
            self.refuse(request, device, Refusal.IN_USE, None)
            return None
        if not self.matcher.runs(device):
            self.refuse(request, device, Refusal.OPERATIONS, None)
            return None
        taken = Allocated(request, device)
        if device.consumes and not self._reserve_counters(taken, shared):
            return None
        if device.taints and self._taints:
            if taint := untolerated_taint(device.taints, request.tolerations, rules.effects):
                self._undo(taken, Refusal.TAINT, taint)
                return None
        for constraint in self.claims[request.claim_index].constraints:
            if not constraint.add(request, device):
                if must:
                    claim = request.own.owner
                    text = "because a claim constraint would not be satisfied"
                    raise AllocationError(f"{claim}, request {request.name}: cannot add device {device.id} {text}")
                if taken.constraints:
                    self._remove_from_constraints(taken)
                self._undo(taken, Refusal.CONSTRAINT, constraint)
                return None
            taken.constraints += 1
        if not shared and (rules.admin_once_per_claim or not request.admin_access):
            self.allocating.setdefault(device.id, set()).add(request.claim_index)
            taken.marked = True
        if self._shares:
            if not self._has_capacity(request, self._compared(device, position)):
                self._undo(taken, Refusal.CAPACITY, None)
                return None
            if shared:
                self._take_share(taken)
        self.results[request.claim_index].append(taken)
        return taken

    def _compared(self, device: Device, position: Position) -> Device:
        """Return the device whose capacity is compared: in 1.34 it has the number that the request's device has."""
        if not self.rules.capacity_by_position:
            return device
        devices = device.slice.devices
        if position.device >= len(devices):
            text = f"index out of range [{position.device}] with length {len(devices)}"
            raise AllocatorPanicError(f"runtime error: {text}")
        return devices[position.device]

    def _reserve_counters(self, taken: Allocated, shared: bool) -> bool:
        """Consume the counters of a device; return whether there are enough of them."""
        rules, device = self.rules, taken.device
        if not rules.partitionable_devices:
            if rules.needs_partitions:
                self.refuse(taken.request, device, Refusal.PARTITIONS, None)
            return not rules.needs_partitions
        if shared and rules.shares_counters:
            if device.id in self.allocated.capacity or device.id in self.allocating_capacity:
                return True
            if rules.bare_shares_count and device.id in self.allocated.shares:
                return True
        if rules.all_without_pool and taken.request.all_devices is not None:
            raise AllocatorPanicError("runtime error: invalid memory address or nil pointer dereference")
        if self._grouped:
            taken.groups = self.groups.take(device)
            if taken.groups is None:
                self.refuse(taken.request, device, Refusal.GROUPS, None)
                return False
        pool = self.pools.by_id[device.slice.pool] if rules.counter_slices else None
        exhausted = self.counters.reserve(device, pool, lambda id_: bool(self.allocating.get(id_)))
        if exhausted:
            self._undo(taken, Refusal.COUNTERS, exhausted)
            return False
        taken.counters = True
        return True

    def _take_share(self, taken: Allocated) -> None:
        """Take a part of a device that may be shared."""
        id_ = taken.device.id
        taken.share_id = new_uid()
        taken.consumed = taken.request.demand(taken.device).amounts
        taken.was_shared = id_ in self.allocating_capacity
        self.allocating_capacity[id_] = allocated.add(self.allocating_capacity.get(id_, {}), taken.consumed)

    def _undo(self, taken: Allocated, refusal: Refusal, about: object) -> None:
        """Undo the bookkeeping for a device that a check refuses.

        Up to 1.35 only the check itself does that: counters stay consumed, and a device without enough capacity stays
        taken.
        """
        self.refuse(taken.request, taken.device, refusal, about)
        if self.rules.undoes_failures:
            self._restore(taken)

    def give_back(self, taken: Allocated) -> None:
        """Give back a device that was allocated, and all that came after it."""
        results = self.results[taken.request.claim_index]
        del results[results.index(taken) :]
        if taken.share_id is not None and not self.rules.undoes_failures:
            taken.counters = False
            if not taken.consumed:
                taken.share_id = None
        self._restore(taken)

    def _restore(self, taken: Allocated) -> None:
        id_ = taken.device.id
        if taken.share_id is not None:
            left = allocated.subtract(self.allocating_capacity.pop(id_, {}), taken.consumed or {})
            if any(amount.value for amount in left.values()):
                self.allocating_capacity[id_] = left
            elif taken.was_shared and self.rules.undoes_failures:
                self.allocating_capacity[id_] = {}
        if taken.marked:
            self.allocating[id_].discard(taken.request.claim_index)
        if taken.constraints:
            self._remove_from_constraints(taken)
        if taken.groups is not None:
            self.groups.give_back(taken.groups)
        if taken.counters:
            self.counters.give_back(taken.device)

    def _remove_from_constraints(self, taken: Allocated) -> None:
        for constraint in self.claims[taken.request.claim_index].constraints[: taken.constraints]:
            constraint.remove(taken.request, taken.device)
        taken.constraints = 0


class ClaimEnd:
    """The end of a claim. If the next claim asks for too many devices, this claim has failed like any other."""

    def retry(self, end: End) -> Step:
        """Turn back to the last request of the claim."""
        return End.FAILED


class Subrequests:
    """The subrequests of a request, of which `at` is tried."""

    def __init__(self, search: Search, position: Position, count: int) -> None:
        self.position = position
        self.at = 0
        self._count = count
        self._all_exceeded = search.rules.limits_results

    def first(self) -> Position:
        """Return the position at which the subrequest begins."""
        return self.position._replace(subrequest=self.at, picked=True)

    def retry(self, end: End) -> Step:
        """Try the next subrequest."""
        if end is not End.EXCEEDED:
            self._all_exceeded = False
        self.at += 1
        if self.at < self._count:
            return self.first()
        return End.EXCEEDED if self._all_exceeded else End.FAILED


class AllDevices:
    """A device of a request for all devices; None if it was left out."""

    def __init__(self, search: Search, taken: Allocated | None) -> None:
        self._search = search
        self._taken = taken

    def retry(self, end: End) -> Step:
        """Give the device back and turn back: there is no other one."""
        rules = self._search.rules
        if rules.stops_after_all:
            raise AllocationError("stop allocation")
        if rules.returns_all and self._taken:
            self._search.give_back(self._taken)
        return end


class Choice:
    """The choice of a device among those that match a request."""

    def __init__(self, search: Search, request: Request, position: Position) -> None:
        self._search = search
        self._request = request
        self._position = position
        self._candidates = search.candidates(request, position.start)
        self._taken: Allocated | None = None

    def next(self) -> Step:
        """Take the next device that fits."""
        for at, device in self._candidates:
            self._taken = self._search.allocate(self._request, device, self._position)
            if self._taken:
                start = at if self._search.rules.resumes else 0
                position = self._position
                return Position(
                    position.claim, position.request, position.subrequest, position.device + 1, position.picked, start
                )
        return End.FAILED

    def retry(self, end: End) -> Step:
        """Give the device back and take the next one; none if a later request is for too many devices."""
        assert self._taken
        self._search.give_back(self._taken)
        return end if end is End.EXCEEDED else self.next()
