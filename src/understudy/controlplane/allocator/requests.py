"""The requests of claims: checked one after the other, with their classes, and how many devices each is for.

A request with subrequests becomes one `Request` for each of them, of which the search picks the first that can be met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from understudy.cel.checker.environment import Environment
from understudy.controlplane.allocator.allocated import AllocatedState, key_of
from understudy.controlplane.allocator.checks.attributes import Attributes
from understudy.controlplane.allocator.checks.capacity import Demand
from understudy.controlplane.allocator.checks.constraints import Constraint, read_constraint
from understudy.controlplane.allocator.errors import AllocationError, AllocatorPanicError
from understudy.controlplane.allocator.inventory import FLAT_VERSIONS, Device
from understudy.controlplane.allocator.pools import NodePools, device_is_for_node
from understudy.controlplane.allocator.rules import Rules, Variant
from understudy.controlplane.allocator.selectors import SelectorError, Selectors
from understudy.kinds.resource.common.flat_form import nested_claim
from understudy.machinery.golang.text import go_quote
from understudy.machinery.quantity import wrapped
from understudy.machinery.releases.features import DRA_OPTIONAL_NODE_OPERATIONS
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj, dataclass, split_api_version

MAX_RESULTS = 32  # AllocationResultsMaxSize
EXACT_COUNT, ALL = "ExactCount", "All"
_LIMIT = f"exceeds the claim limit of {MAX_RESULTS}"
_NO_SELECTORS = Selectors("", ())


@dataclass(eq=False, slots=True)
class Request:
    """A request for devices of one class, or a subrequest (upstream: `requestAccessor`, `requestData`).

    rules         the rules of the allocator
    claim_index   the claim that it is of
    base_name     its name; that of the request which a subrequest is of
    full_name     its name, `REQUEST/SUBREQUEST` for a subrequest
    spec          what is asked for: the fields of `exactly`
    class_        the DeviceClass
    count         the number of devices; for all devices it is known when they have been chosen
    all_devices   the devices of a request for all of them, None for a request for a number of devices
    matches       whether the selectors match a device, by its id, as far as it is known
    candidates    the devices that may match, of the first `looked_at` ones
    """

    rules: Rules
    claim_index: int
    name: str
    base_name: str
    full_name: str
    spec: Obj
    is_subrequest: bool
    class_: Obj
    of_class: Selectors
    own: Selectors
    admin_access: bool
    count: int = 0
    all_devices: list[Device] | None = None
    matches: dict[str, bool] = field(default_factory=dict)
    candidates: list[Device] = field(default_factory=list)
    looked_at: int = 0
    demands: dict[Device, Demand] = field(default_factory=dict)

    @property
    def tolerations(self) -> Sequence[Obj]:
        """Return the tolerations."""
        return self.spec.get("tolerations") or ()

    @property
    def capacity(self) -> Mapping[str, str]:
        """Return the requested amounts of capacity by name."""
        return (self.spec.get("capacity") or {}).get("requests") or {}

    def demand(self, device: Device) -> Demand:
        """Return the capacity that the request takes of a device."""
        demand = self.demands.get(device)
        if demand is None:
            demand = self.demands[device] = Demand(self.capacity, device, self.rules)
        return demand

    @property
    def derived(self) -> Mapping[str, str]:
        """Return the expressions of derived attributes by name."""
        entries = self.spec.get("derivedAttributes") or ()
        return {entry["name"]: entry["expression"] for entry in entries}


@dataclass(eq=False, slots=True)
class ClaimData:
    """A claim to allocate: its requests, each a list of subrequests (one entry if there are none), and constraints."""

    claim: Obj
    requests: list[list[Request]]
    constraints: list[Constraint]


class Matcher:
    """Says whether selectors match a device, and whether it is for the node (upstream: `isSelectable`)."""

    def __init__(self, rules: Rules, environment: Environment, node: Obj) -> None:
        self._rules = rules
        self._environment = environment
        self._node = node

    def is_selectable(self, request: Request, device: Device, matches: dict[str, bool], of_class: Selectors) -> bool:
        """Report whether a device can be chosen for a request; `matches` keeps the answers. Raises AllocationError."""
        if device.unknown or (device.binding_conditions and not self._rules.binding_conditions):
            return False
        known = matches.get(device.id)
        if known is None:
            try:
                known = self.refusing(request, device, of_class) is None
            except SelectorError as error:
                raise AllocationError(str(error)) from None
            if known and device.slice.per_device:
                known = device_is_for_node(device, self._node, self._rules.release)
            matches[device.id] = known
        return known

    def runs(self, device: Device) -> bool:
        """Report whether the node takes a device for which it skips operations, if the device asks for that.

        The incubating and the stable allocator do not look at it.
        """
        if not device.slice.skipped_operations or self._rules.variant is not Variant.EXPERIMENTAL:
            return True
        declared = (self._node.get("status") or {}).get("declaredFeatures") or ()
        return self._rules.optional_operations and DRA_OPTIONAL_NODE_OPERATIONS in declared

    def refusing(self, request: Request, device: Device, of_class: Selectors) -> tuple[Selectors, int] | None:
        """Return the selectors and the position of the first one that is false for a device, None if all are true.

        Raises SelectorError.
        """
        for selectors in (of_class, request.own):
            position = selectors.refusing(device, self._environment)
            if position is not None:
                return selectors, position
        return None


class ClaimReader:
    """Checks claims for a node and turns them into what the search needs (upstream: `validateDeviceRequest`)."""

    def __init__(
        self,
        rules: Rules,
        classes: Mapping[str, Obj],
        pools: NodePools,
        matcher: Matcher,
        attributes: Attributes,
        allocated: AllocatedState,
    ) -> None:
        self._rules = rules
        self._classes = classes
        self._pools = pools
        self._matcher = matcher
        self._attributes = attributes
        self._allocated = allocated

    def read(self, index: int, claim: Obj) -> ClaimData:
        """Return the requests and constraints of a claim in the form of v1. Raises AllocationError."""
        devices = (claim.get("spec") or {}).get("devices") or {}
        key = key_of(claim)
        requests, count = [], 0
        for request in devices.get("requests") or ():
            subrequests = self._subrequests(index, key, request)
            requests.append(subrequests)
            count = self._counted(f"claim {key}, request {request['name']}", subrequests, count)
        count = wrapped(count)
        if count > MAX_RESULTS:
            raise AllocationError(f"claim {key}: number of requested devices {count} {_LIMIT}")
        if count < 0:
            raise AllocatorPanicError("runtime error: makeslice: cap out of range")
        constraints = []
        for i, spec in enumerate(devices.get("constraints") or ()):
            constraint = read_constraint(spec, self._rules, self._attributes)
            if constraint is None:
                text = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {key}, constraint #{i}: {text}")
            constraints.append(constraint)
        return ClaimData(claim, requests, constraints)

    def _counted(self, what: str, subrequests: Sequence[Request], before: int) -> int:
        """Return the number of devices with those of one more request, which is a lower bound. Raises AllocationError.

        Up to 1.36 the limit is looked at when all requests of the claim have been counted.
        """
        count = min(request.count for request in subrequests)
        if self._rules.limits_each_request and count > MAX_RESULTS - before:
            known = f"with {before} already accounted for"
            raise AllocationError(f"{what}: adding {count} devices {_LIMIT}, {known}")
        return before + count

    def _subrequests(self, index: int, key: str, request: Obj) -> list[Request]:
        """Return the subrequests of a request, or the request alone if it has none."""
        subrequests = request.get("firstAvailable") or ()
        name, exactly = request["name"], request.get("exactly") or {}
        if subrequests and not self._rules.prioritized_list:
            gate = "has subrequests, but the DRAPrioritizedList feature is disabled"
            raise AllocationError(f"claim {key}, request {name}: {gate}")
        if self._rules.knows_capacity and not self._rules.consumable_capacity:
            self._refuse_capacity(key, name, exactly, subrequests)
        if not subrequests and "exactly" not in request and self._rules.release >= V1_34:
            raise AllocatorPanicError("runtime error: invalid memory address or nil pointer dereference")
        if not subrequests:
            return [self._request(index, key, exactly, name, "", {})]
        out: list[Request] = []
        matches: list[dict[str, bool]] = []
        for i, subrequest in enumerate(subrequests):
            reused = i == 1 and self._rules.shares_first_matches
            matches.append(matches[0] if reused else {})
            out.append(self._request(index, key, subrequest, subrequest["name"], name, matches[i]))
        return out

    def _refuse_capacity(self, key: str, name: str, exactly: Obj, subrequests: Sequence[Obj]) -> None:
        """Raise AllocationError if a request, or a subrequest of it, asks for capacity."""
        refused = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if exactly.get("capacity") is not None:
            raise AllocationError(f"claim {key}, request {name}: {refused}")
        for subrequest in subrequests:
            if subrequest.get("capacity") is not None:
                if self._rules.names_request_of_capacity:
                    raise AllocationError(f"claim {key}, request {name}: {refused}")
                raise AllocationError(f"claim {key}, subrequest {subrequest['name']}: {refused}")

    def _request(self, index: int, key: str, spec: Obj, name: str, parent: str, matches: dict[str, bool]) -> Request:
        """Return a request or subrequest; `matches` has the answers of its selectors that are known already."""
        what = f"claim {key}, request {name}"
        if spec.get("derivedAttributes") and not self._rules.derived_attributes:
            raise AllocationError(f"{what}: cannot handle request with derived attributes, the feature is disabled")
        selectors = spec.get("selectors") or ()
        for i, selector in enumerate(selectors):
            if selector.get("cel") is None:
                text = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{what}, selector #{i}: {text}")
        admin_access = not parent and spec.get("adminAccess")
        if admin_access is not None and not parent and not self._rules.admin_access:
            raise AllocationError(f"{what}: admin access is requested, but the feature is disabled")
        class_ = self._class(what, spec.get("deviceClassName") or "")
        request = Request(
            rules=self._rules,
            claim_index=index,
            name=name,
            base_name=parent or name,
            full_name=f"{parent}/{name}" if parent else name,
            spec=spec,
            is_subrequest=bool(parent),
            class_=class_,
            of_class=Selectors.of(
                f"class {class_['metadata'].get('name', '')}", (class_.get("spec") or {}).get("selectors") or ()
            ),
            own=Selectors.of(f"claim {key}", selectors),
            admin_access=bool(admin_access),
        )
        mode = spec.get("allocationMode") or ""
        if mode == EXACT_COUNT:
            request.count = spec.get("count") or 0
        elif mode == ALL:
            request.all_devices = self.all_devices(what, request, matches)
            request.count = len(request.all_devices)
        else:
            raise AllocationError(f"{what}: unsupported count mode {mode}")
        return request

    def _class(self, what: str, name: str) -> Obj:
        if not name:
            raise AllocationError(f"{what}: missing device class name (unsupported request type?)")
        if name not in self._classes:
            missing = f"deviceclass.resource.k8s.io {go_quote(name)} not found"
            raise AllocationError(f"{what}: could not retrieve device class {name}: {missing}")
        return self._classes[name]

    def all_devices(self, what: str, request: Request, matches: dict[str, bool]) -> list[Device]:
        """Return all devices of the node that a request for all can have. Raises AllocationError."""
        of_class = request.of_class if self._rules.class_selects_all else _NO_SELECTORS
        devices = []
        for pool in self._pools.pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                text = f"asks for all devices, but resource pool {pool.id} is currently {state}"
                raise AllocationError(f"{what}: {text}")
            for slice_ in pool.slices:
                for device in slice_.devices:
                    if self._matcher.is_selectable(request, device, matches, of_class):
                        if self._has_capacity(what, request, device):
                            devices.append(device)
        return devices

    def _has_capacity(self, what: str, request: Request, device: Device) -> bool:
        """Report whether a device has enough capacity, up to 1.36 beside what other claims take of it."""
        if not self._rules.consumable_capacity:
            return True
        try:
            demand = request.demand(device)
        except AllocationError as error:
            raise AllocationError(f"{what}: checking capacity for device {device.name}: {error}") from None
        taken = None if self._rules.all_despite_use else self._allocated.capacity.get(device.id)
        return not demand.refusal and (demand.too_much(taken) is None if taken else demand.alone)


def internal_claim(claim: Obj) -> Obj:
    """Return a claim in the form of v1."""
    _, version = split_api_version(claim["apiVersion"])
    return {**claim, "spec": nested_claim(claim.get("spec") or {})} if version in FLAT_VERSIONS else claim
