"""Claims of pods: which nodes can have their devices, and which devices they get.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ (upstream:
`pkg/scheduler/framework/plugins/dynamicresources`). What is decided here is written by `binding`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from understudy.controlplane.allocator.allocated import device_results
from understudy.controlplane.allocator.errors import AllocationError, AllocationTimeoutError
from understudy.controlplane.client.pod_claims import (
    claim_name,
    consumer_of,
    entries_of,
    full_name,
    is_reserved_for,
    reservations,
)
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.devices import Devices
from understudy.controlplane.scheduler.framework.events import Action, ClusterEvent, Kind, Trigger, is_about
from understudy.controlplane.scheduler.framework.nodes import NodeInfo
from understudy.controlplane.scheduler.framework.plugin import SKIP, CycleState, GroupState, Plugin, Skip
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status, error, unresolvable, unschedulable
from understudy.controlplane.scheduler.plugins.dynamicresources.binding_conditions import (
    BindingConditionError,
    are_enabled,
    is_overdue,
    is_ready,
)
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import (
    ClaimError,
    ClaimsState,
    GroupClaims,
    allocation_of,
    claims_of,
    to_free,
    to_free_of_group,
)
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import (
    Demand,
    demand_of,
    is_claim_of,
    is_in_memory,
    new_claim,
    provided_by_classes,
)
from understudy.controlplane.scheduler.plugins.dynamicresources.node_allocatable import (
    NOT_SHARED,
    Allocated,
    NodeAllocatable,
)
from understudy.controlplane.scheduler.pod_groups import PodGroups, key_of
from understudy.kinds.core.pods.containers.claim_requests import CLAIM_STATUSES
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_36, V1_37, ByRelease, Version
from understudy.machinery.selectors.nodes import NodeSelector
from understudy.machinery.types import Obj, nested_field

NAME = "DynamicResources"
_WITHOUT_SLICES = (
    Trigger(Kind.NODE, Action.ADD),
    Trigger(Kind.NODE, Action.UPDATE_LABELS),
    Trigger(Kind.CLAIM, Action.ADD),
    Trigger(Kind.CLAIM, Action.UPDATE),
    Trigger(Kind.POD, Action.UPDATE_CLAIMS),
    Trigger(Kind.CLASS, Action.ADD),
    Trigger(Kind.CLASS, Action.UPDATE),
)
_WITH_SLICES = (*_WITHOUT_SLICES, Trigger(Kind.SLICE, Action.ADD), Trigger(Kind.SLICE, Action.UPDATE))
_WITH_NODES = (*_WITH_SLICES, Trigger(Kind.NODE, Action.UPDATE_ALLOCATABLE))
# In 1.31 pods do not wait for devices: they are looked at again after something else, or after five minutes.
TRIGGERS = ByRelease(
    {
        V1_31: _WITHOUT_SLICES,
        V1_32: _WITH_SLICES,
        V1_34: _WITH_NODES,
        V1_37: (*_WITH_NODES, Trigger(Kind.CLAIM, Action.DELETE)),
    }
)
# What is said where no claim can be freed: of a pod without claims, and of others.
NOTHING_TO_FREE: ByRelease[tuple[Status, Status]] = ByRelease(
    {
        V1_31: (unschedulable("no new claims to deallocate"), unschedulable("still not schedulable")),
        V1_37: (unschedulable(), unschedulable()),
    }
)
FILTER_TIMEOUT = 10.0  # seconds for the search on one node: `DynamicResourcesFilterTimeoutDefault`, from 1.34 on
FINALIZER = "resource.kubernetes.io/delete-protection"


class DynamicResources(Plugin):
    """Finds devices for the claims of pods.

    groups  the groups of pods, None if pods have none
    """

    name = NAME

    def __init__(
        self,
        version: Version,
        gates: Gates,
        claims: ClaimTracker,
        devices: Devices,
        groups: PodGroups | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.triggers = TRIGGERS[version]
        self._version = version
        self._gates = gates
        self._claims = claims
        self._devices = devices
        self._groups = groups
        self._groups_have_claims = groups is not None and gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]
        self._clock = clock
        counts_nodes = version >= V1_37 and gates[features.DRA_NODE_ALLOCATABLE_RESOURCES]
        self._node_allocatable = NodeAllocatable(devices.inventory) if counts_nodes else None

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Keep a pod back until all its claims are there."""
        try:
            self._claims_of(pod)
        except ClaimError as why:
            return unresolvable(str(why))
        return None

    def _claims_of(self, pod: PodInfo) -> list[Obj]:
        return claims_of(pod, self._claims, self._version, groups=self._groups_have_claims)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | Skip | None:
        """Look the claims up, and the classes of those that have no devices yet."""
        data = state.data[NAME] = ClaimsState([], None)
        together: GroupClaims | None = None
        if state.group is not None:
            together = state.group.setdefault(NAME, GroupClaims())
            together.pods[pod.uid] = data
        try:
            claims = self._claims_of(pod)
        except ClaimError as why:
            return unresolvable(str(why))
        resources = provided_by_classes(pod, self._devices.class_of)
        if not claims and not resources:
            return SKIP
        for index, claim in enumerate(claims):
            allocation = allocation_of(claim)
            if not allocation and together is not None and claim["metadata"]["uid"] in together.pending:
                allocation = self._claims.pending_allocation(claim["metadata"]["uid"])
                data.shared |= {index: allocation} if allocation else {}
            status = None if allocation else self._check(claim)
            if status:
                return status
            if allocation and (selector := allocation.get("nodeSelector")) is not None:
                data.nodes[index] = NodeSelector(selector)
                if wrong := data.nodes[index].error(self._version):
                    return error(wrong)
        data.consumers = self._consumers(pod)
        if resources:
            left = next((claim for claim in self._claims.all() if is_claim_of(claim, pod)), None)
            claims.append(left or new_claim(pod))
        data.claims, data.resources = claims, resources
        if data.to_allocate:
            data.allocator = self._devices.allocator()
        if self._node_allocatable is not None:
            allocated = _allocated(data, data.shared)
            data.exclusive = {index for index, each in allocated.items() if self._node_allocatable.is_exclusive(each)}
        return None

    def _consumers(self, pod: PodInfo) -> list[Obj]:
        """Return for whom each claim of a pod is reserved, that for extended resources included."""
        group = self._groups.get(pod.group_key) if self._groups is not None and self._groups_have_claims else None
        entries = [entry for entry in entries_of(pod.obj) if claim_name(pod.obj, entry)[0] is not None]
        return [*(consumer_of(pod.obj, group, entry) for entry in entries), consumer_of(pod.obj, None, {})]

    def _check(self, claim: Obj) -> Status | None:
        """Return the reason not to look for devices."""
        if self._claims.is_pending(claim["metadata"]["uid"]):
            return unresolvable(f"resource claim {full_name(claim)} is in the process of being allocated")
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            alternatives = request.get("firstAvailable")
            if alternatives and not self._gates[features.DRA_PRIORITIZED_LIST]:
                return unresolvable(
                    f"resource claim {full_name(claim)}, request {request['name']}: "
                    "has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            for name, part in _parts(request, alternatives):
                class_name = part.get("deviceClassName")
                if not class_name:
                    return error(f"request {name}: unsupported request type")
                if not self._devices.has_class(class_name):
                    return unresolvable(f"request {name}: device class {class_name} does not exist")
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Turn down a node that the devices of a claim are not for, or that has no devices for one."""
        data: ClaimsState = state.data[NAME]
        if data.resources and not is_in_memory(data.claims[-1]):
            return unresolvable("cannot schedule extended resource claim")
        away = {index for index in range(len(data.claims)) if not self._is_near(data, index, node.obj)}
        if status := self._not_shared(state, pod, data.exclusive - away):
            return status
        unavailable = away | {index for index, claim in enumerate(data.claims) if not self._can_attach(claim)}
        chosen = dict(data.shared)
        for index, allocation in data.shared.items():
            claim = {**data.claims[index], "status": {"allocation": allocation}}
            if skips_operations(claim) and not can_skip_operations(node.obj):
                needs = "allocation requires DRAOptionalNodeOperations feature on the node"
                return unresolvable(f"resource claim {full_name(claim)} {needs}")
        if data.allocator is not None:
            to_allocate = self._to_allocate(data, pod, node)
            try:
                allocations = data.allocator.allocate(node.obj, list(to_allocate.values()), timeout=FILTER_TIMEOUT)
            except AllocationTimeoutError:
                return _timed_out(node, self._version)
            except AllocationError as why:
                return unresolvable(str(why)) if why.only_this_node else error(str(why))
            if allocations is None or len(allocations) != len(to_allocate):
                return unresolvable("cannot allocate all claims")
            chosen |= zip(to_allocate, allocations, strict=True)
        used: list[Obj] = []
        if self._node_allocatable is not None:
            outcome = self._node_allocatable.used_on(pod, _allocated(data, chosen).values(), node)
            if isinstance(outcome, Status):
                return outcome
            used = outcome
        if unavailable:
            data.unavailable |= unavailable
            return unresolvable("resourceclaim not available on the node")
        data.by_node[node.name], data.used[node.name] = chosen, used
        return None

    def _not_shared(self, state: CycleState, pod: PodInfo, exclusive: set[int]) -> Status | None:
        """Return the reason that a pod cannot have claims, since other pods have them and they are not shared.

        Upstream: `validateNodeAllocatableDRAClaimSharing`.
        """
        data: ClaimsState = state.data[NAME]
        together: GroupClaims = (state.group or {}).get(NAME) or GroupClaims()
        for claim in (data.claims[index] for index in sorted(exclusive)):
            others = together.pending.get(claim["metadata"]["uid"], set()) - {pod.uid}
            is_ours = not reservations(claim) or is_reserved_for(pod.obj, claim, groups=self._groups_have_claims)
            if others or not is_ours:
                return unresolvable(NOT_SHARED.format(claim["metadata"]["name"]))
        return None

    def _to_allocate(self, data: ClaimsState, pod: PodInfo, node: NodeInfo) -> dict[int, Obj]:
        """Return the claims that need devices of a node, by their indexes.

        That for extended resources asks for those that the node does not have itself; if it has all, it needs none.
        """
        claims = {index: data.claims[index] for index in data.to_allocate}
        if data.resources:
            last = len(data.claims) - 1
            missing = [name for name in data.resources if not node.allocatable.get(name)]
            demand = data.demands[node.name] = demand_of(pod, missing, self._devices.class_of)
            claims[last] = with_requests(claims[last], demand)
            if not missing:
                del claims[last]
        return claims

    def _is_near(self, data: ClaimsState, index: int, node: Obj) -> bool:
        """Report whether the devices of a claim, if it has some, are for a node."""
        claim, nodes = data.claims[index], data.nodes.get(index)
        if nodes is not None and not nodes.matches(node):
            return False
        return not (self._version >= V1_37 and skips_operations(claim) and not can_skip_operations(node))

    def _can_attach(self, claim: Obj) -> bool:
        """Report whether the devices of a claim, if it has some, are attached to their node, or may still be."""
        if not allocation_of(claim) or not are_enabled(self._gates):
            return True
        try:
            return is_ready(claim) or not is_overdue(claim, self._clock())
        except BindingConditionError:
            return False

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: Mapping[str, Status]) -> Status | None:
        """Choose a claim to be freed that no other pod uses, and that has devices where the pod cannot go."""
        data: ClaimsState | None = state.data.get(NAME)
        if self._version == V1_33 and not pod.spec.get("resourceClaims"):
            return None
        if data is None:
            return error("not found")  # another plugin has ended the attempt before this one was asked
        without_claims, without_free_claim = NOTHING_TO_FREE[self._version]
        if not data.claims:
            return without_claims
        return to_free(data, pod) or without_free_claim

    def post_filter_group(self, state: GroupState, group: Obj, pods: Sequence[PodInfo]) -> Status:
        """Choose claims of a group's pods to be freed, or a claim of the group if there is none for some pod."""
        together: GroupClaims | None = state.get(NAME)
        if together is None:
            return error("not found")  # no pod of the group has been looked at
        freed = [to_free(together.pods[pod.uid], pod) for pod in pods if pod.uid in together.pods]
        has_nodes = self._groups is None or bool(self._groups.scheduled(key_of(group)))
        if not all(freed) and self._groups_have_claims and not has_nodes:
            status = to_free_of_group(together, group, pods[0], self._claims)
            if status is not None:
                return status
        return unschedulable("deallocation and deletion of ResourceClaims completed")

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status | None:
        """Take the devices that were found on the node."""
        data: ClaimsState = state.data[NAME]
        together: GroupClaims | None = (state.group or {}).get(NAME)
        if data.used.get(node):
            state.pod_status[CLAIM_STATUSES] = data.used[node]
        for index, allocation in data.by_node.get(node, {}).items():
            claim = data.claims[index]
            data.allocations[index] = allocation
            if together is not None:
                together.pending.setdefault(claim["metadata"]["uid"], set()).add(pod.uid)
            data.taken.append(claim)
            self._claims.add_pending({**claim, "status": {**(claim.get("status") or {}), "allocation": allocation}})
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Give back the devices of allocations that were not written."""
        data: ClaimsState = state.data[NAME]
        while data.taken:
            self._claims.remove_pending(data.taken.pop())

    def is_schedulable_after(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Report whether an event may help: devices are free again, or a claim of the pod is there or has changed."""
        if event.kind in (Kind.NODE, Kind.CLASS):
            return True
        if event.kind is Kind.POD:
            return is_about(event, pod) and self.pre_enqueue(pod) is None
        if event.action is Action.DELETE:
            return event.old is not None and allocation_of(event.old) is not None
        try:
            claims = self._claims_of(pod)
        except ClaimError:
            return False
        if event.kind is Kind.SLICE or event.new is None:
            return True
        if event.old is not None and allocation_of(event.old) and not allocation_of(event.new):
            return True
        if event.new["metadata"]["uid"] not in [claim["metadata"]["uid"] for claim in claims]:
            return False
        return event.old is None or event.old.get("status") != event.new.get("status")


def _allocated(data: ClaimsState, chosen: dict[int, Obj]) -> dict[int, Allocated]:
    """Return the claims that have devices, or get the chosen ones, by their indexes."""
    pairs = {index: chosen.get(index) or allocation_of(claim) for index, claim in enumerate(data.claims)}
    return {index: Allocated(data.claims[index], allocation) for index, allocation in pairs.items() if allocation}


def _timed_out(node: NodeInfo, version: Version) -> Status:
    """Return the status of a node that was searched for too long: from 1.36 on the pod is soon tried again.

    Releases before 1.34 search on and on. Here they give up too: a search must not keep the server waiting.
    """
    if version >= V1_36:
        return error(f"node {node.name}: timed out trying to allocate devices")
    return unresolvable("timed out trying to allocate devices")


def skips_operations(claim: Obj) -> bool:
    """Report whether nodes do less than usual for a device of a claim."""
    return any(result.get("skipNodeOperations") for result in device_results(claim))


def can_skip_operations(node: Obj) -> bool:
    """Report whether the kubelet of a node knows of operations that may be skipped."""
    declared: list[str] = nested_field(node, "status", "declaredFeatures", default=[])
    return features.DRA_OPTIONAL_NODE_OPERATIONS in declared


def with_requests(claim: Obj, demand: Demand) -> Obj:
    """Return a claim that asks for what a pod needs on a node."""
    return {**claim, "spec": {"devices": {"requests": demand.requests}}}


def _parts(request: Obj, alternatives: list[Obj] | None) -> list[tuple[str, Obj]]:
    """Return the name and the content of a request, or of each of its alternatives."""
    if alternatives:
        return [(f"{request['name']}/{part['name']}", part) for part in alternatives]
    return [(request["name"], request.get("exactly") or request)]
