"""Sends the requests of an attempt: has claims written, binds the pod, or reports why a pod gets no node.

Upstream: `bindingCycle`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.series import SeriesRecorder
from understudy.controlplane.client.pod_claims import full_name, is_reserved_for
from understudy.controlplane.client.resources import PODS, pod_groups
from understudy.controlplane.scheduler.claim_writer import BindingError, ClaimWriter, named
from understudy.controlplane.scheduler.claims import ClaimTracker
from understudy.controlplane.scheduler.cycle import Failure, Placement
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.controlplane.scheduler.framework.status import Status
from understudy.controlplane.scheduler.group_cycle import GroupOutcome
from understudy.controlplane.scheduler.plugins.dynamicresources import dynamic_resources
from understudy.controlplane.scheduler.plugins.dynamicresources.binding_conditions import (
    BindingConditionError,
    are_enabled,
    has_binding_conditions,
    is_overdue,
    is_ready,
)
from understudy.controlplane.scheduler.plugins.dynamicresources.claims_state import (
    ClaimsState,
    GroupClaims,
    allocation_of,
)
from understudy.controlplane.scheduler.plugins.dynamicresources.extended_resources import Demand, is_in_memory
from understudy.machinery.errors import StatusError
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_37, Version
from understudy.machinery.types import Obj, nested_field
from understudy.machinery.util.clock import timestamp
from understudy.machinery.util.timers import sleep

log = logging.getLogger(__name__)

LONGEST_NOTE = 1024  # characters of an event's note. Upstream: `NoteLengthLimit`
ATTACHED_POLL = 0.5  # seconds between two looks at devices; upstream looks every five seconds
SCHEDULED = "PodGroupInitiallyScheduled"  # the condition of a group of pods


class Binder:
    """Writes the decisions about pods."""

    def __init__(
        self, client: APIClient, events: SeriesRecorder, claims: ClaimTracker, version: Version, gates: Gates
    ) -> None:
        self._client = client
        self._events = events
        self._claims = claims
        self._gates = gates
        self._writer = ClaimWriter(client, version, gates)
        self._groups = pod_groups(version)
        self._groups_have_claims = version >= V1_37 and gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]

    async def bind(self, placement: Placement) -> None:
        """Write the claims of a pod and bind it. Raises BindingError."""
        pod, data = placement.pod, _claims_state(placement)
        if (data.claims or placement.has_waited) and self._gates[features.NOMINATED_NODE_NAME_FOR_EXPECTATION]:
            await self._nominate(pod, placement.node)
        for index, claim in enumerate(data.claims):
            if not is_reserved_for(pod.obj, claim, groups=self._groups_have_claims):
                try:
                    await self._bind_claim(data, index, placement)
                except (BindingError, StatusError, ConnectionError) as why:
                    raise _in_pre_bind(why) from why
        await self._write_used(placement)
        await self._wait_for_devices(placement)
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        target = {"kind": "Node", "name": placement.node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            await self._client.create(PODS, binding, pod.namespace, pod.name, "binding")
        except (StatusError, ConnectionError) as why:
            raise BindingError(f'running Bind plugin "DefaultBinder": {why}') from why
        self._event(pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {placement.node}")

    async def _write_used(self, placement: Placement) -> None:
        """Write into the status of a pod what its devices use of its node. Raises BindingError."""
        pod, status = placement.pod, placement.state.pod_status
        if not status:
            return
        doing = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses"
        try:
            await named(doing, self._patch_status(pod, status))
        except BindingError as why:
            raise _in_pre_bind(why) from why

    async def _wait_for_devices(self, placement: Placement) -> None:
        """Wait until the devices of a pod are attached to its node, if they have to be. Raises BindingError."""
        data = _claims_state(placement)
        if not are_enabled(self._gates) or not any(map(has_binding_conditions, data.claims)):
            return
        note = f"waiting for binding conditions for device on node {placement.node}"
        self._event(placement.pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        try:
            while not self._are_attached(data):
                await sleep(self._client.clock, ATTACHED_POLL)
        except BindingConditionError as why:
            raise _in_pre_bind(why) from why

    def _are_attached(self, data: ClaimsState) -> bool:
        """Report whether all devices are attached, as the newest state of the claims says.

        Raises BindingConditionError. Upstream: `isPodReadyForBinding`.
        """
        for index, claim in enumerate(data.claims):
            name = claim["metadata"]["name"]
            current = self._claims.get(claim["metadata"]["namespace"], name)
            if current is None:
                raise BindingConditionError(f'resourceclaim.resource.k8s.io "{name}" not found')
            data.claims[index] = current
            if not is_ready(current):
                if is_overdue(current, self._client.clock.now()):
                    raise BindingConditionError(f"device binding timeout: claim={name}")
                return False
        return True

    async def unreserve(self, placement: Placement) -> None:
        """Take the reservations of a pod back that could not be bound. What fails is done by the next attempt."""
        pod = placement.pod
        data = _claims_state(placement)
        for claim in data.claims:
            if data.resources and claim is data.claims[-1]:
                if not is_in_memory(claim):
                    await self._try(f"delete {full_name(claim)}", lambda: self._writer.delete(data.claims[-1]))
            elif allocation_of(claim) and is_reserved_for(pod.obj, claim):
                await self._take_back(claim, pod.uid)
        if placement.state.pod_status:
            cleared: Obj = {"metadata": {"uid": pod.uid}, "status": {name: [] for name in placement.state.pod_status}}
            write = partial(self._client.patch, subresource="status")
            await self._try(f"clear the status of {pod.key}", lambda: write(PODS, pod.name, cleared, pod.namespace))

    async def _take_back(self, claim: Obj, uid: str) -> None:
        await self._try(f"unreserve {full_name(claim)}", partial(self._writer.take_back, claim, uid))

    async def report_group(self, outcome: GroupOutcome, group: Obj) -> Obj | None:
        """Write into the condition of a group whether it was scheduled; return the changed group, None for no change.

        What has once been scheduled stays so. A claim that is to be freed is freed first.

        group  the group as it is now

        Upstream: `updatePodGroupCondition`.
        """
        together: GroupClaims | None = outcome.state.get(dynamic_resources.NAME)
        if outcome.status is not None and together is not None:
            await self._free(together.deallocate, None)
            if together.unreserve is not None:
                await self._take_back(together.unreserve, group["metadata"]["uid"])
        condition = self._changed_condition(outcome.status, group)
        if condition is None:
            return None
        changed: list[Obj] = []
        status = {"status": {"conditions": [condition]}}
        name, namespace = group["metadata"]["name"], group["metadata"]["namespace"]
        patch = partial(self._client.patch, content_type=STRATEGIC_PATCH, subresource="status")

        async def write() -> None:
            changed.append(await patch(self._groups, name, status, namespace))

        await self._try(f"update the status of {full_name(group)}", write)
        return changed[0] if changed else None

    def _changed_condition(self, status: Status | None, group: Obj) -> Obj | None:
        """Return the condition of a group after an attempt, None if it stays as it is."""
        known = nested_field(group, "status", "conditions", default=())
        old: Obj = next((condition for condition in known if condition["type"] == SCHEDULED), {})
        condition: Obj = {"type": SCHEDULED, "status": "True", "reason": "Scheduled", "message": ""}
        if status is not None:
            reason = "Unschedulable" if status.is_rejected else "SchedulerError"
            condition |= {"status": "False", "reason": reason, "message": status.message}
        if old.get("status") == "True" != condition["status"]:
            return None
        if generation := group["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        if all(old.get(name) == value for name, value in condition.items()):
            return None
        kept = old.get("status") == condition["status"]
        condition["lastTransitionTime"] = old["lastTransitionTime"] if kept else self._now()
        return condition

    async def report(self, failure: Failure, pod: PodInfo) -> None:
        """Write why a pod gets no node into an event and its condition. A claim that is to be freed is freed first.

        pod  the pod as it is now
        """
        data = failure.state.data.get(dynamic_resources.NAME)
        if data is not None:
            await self._free(data.deallocate, data.delete)
        note = failure.message
        if len(note) > LONGEST_NOTE:
            note = note[: LONGEST_NOTE - 4] + " ..."
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", note)
        status = self._changed_status(failure, pod)
        if status:
            await self._try(f"update the status of {pod.key}", lambda: self._patch_status(pod, status))

    def report_deletion(self, pod: PodInfo) -> None:
        """Write an event which says that a pod is skipped since it is being deleted."""
        note = f"skip schedule deleting pod: {pod.key}"
        self._event(pod, "Warning", "FailedScheduling", "Scheduling", note)

    def _changed_status(self, failure: Failure, pod: PodInfo) -> Obj:
        """Return the changes of the status of a pod that gets no node, {} for none. Upstream: `updatePod`."""
        reason = "Unschedulable" if failure.is_rejected else "SchedulerError"
        condition: Obj = {"type": "PodScheduled", "status": "False", "reason": reason, "message": failure.message}
        known = [c for c in pod.status.get("conditions") or () if c["type"] == "PodScheduled"]
        old = known[0] if known else {}
        generation = pod.obj["metadata"].get("generation")
        if generation and (self._gates[features.POD_OBSERVED_GENERATION_TRACKING] or old.get("observedGeneration")):
            condition["observedGeneration"] = generation
        changed: Obj = {}
        if any(old.get(name) != value for name, value in condition.items()):
            kept = old.get("status") == "False"
            condition["lastTransitionTime"] = old["lastTransitionTime"] if kept else self._now()
            condition["lastProbeTime"] = None
            changed["conditions"] = [condition]
        if pod.status.get("nominatedNodeName"):
            changed["nominatedNodeName"] = None
        return changed

    async def _nominate(self, pod: PodInfo, node: str) -> None:
        """Tell others which node a pod is about to get, since its claims may take a while. Failing is no harm."""
        if pod.status.get("nominatedNodeName") != node:
            await self._try(f"nominate {node}", lambda: self._patch_status(pod, {"nominatedNodeName": node}))

    async def _bind_claim(self, data: ClaimsState, index: int, placement: Placement) -> None:
        """Write the devices of a claim, if they have just been chosen, and its reservation.

        One for extended resources is made before, unless the node has these itself.
        """
        chosen, allocation, pod = data.claims[index], data.allocations.get(index), placement.pod
        if is_in_memory(chosen) and allocation is None:
            return
        if is_in_memory(chosen):
            data.claims[index] = await self._writer.create(chosen, data.demands[placement.node])
        data.claims[index] = await self._writer.write(data.claims[index], allocation, data.consumers[index])
        self._claims.put(data.claims[index])
        if is_in_memory(chosen):
            await self._name_claim(data.claims[index], data.demands[placement.node], pod)
        self._claims.remove_pending(chosen, for_all=True)

    async def _name_claim(self, claim: Obj, demand: Demand, pod: PodInfo) -> None:
        """Write into the status of a pod which claim its extended resources come from. Raises BindingError."""
        mapped = {"requestMappings": demand.mappings, "resourceClaimName": claim["metadata"]["name"]}
        status = {"extendedResourceClaimStatus": mapped}
        await named(f"update pod {pod.key} ExtendedResourceClaimStatus", self._patch_status(pod, status))

    async def _free(self, deallocate: Obj | None, delete: Obj | None) -> None:
        """Free a claim that is not in use, and delete one that was made for extended resources."""
        if deallocate is not None:
            await self._try("deallocate", lambda: self._writer.deallocate(deallocate))
        if delete is not None:
            await self._try("delete", lambda: self._writer.delete(delete))

    def _now(self) -> str:
        """Return the time as objects hold it."""
        return timestamp(self._client.clock.now())

    async def _patch_status(self, pod: PodInfo, status: Obj) -> Obj:
        return await self._client.patch(
            PODS, pod.name, {"status": status}, pod.namespace, content_type=STRATEGIC_PATCH, subresource="status"
        )

    async def _try(self, doing: str, write: Callable[[], Awaitable[object]]) -> None:
        """Make a write that may fail: it is made again with the next attempt."""
        try:
            await write()
        except (StatusError, ConnectionError) as why:
            log.info("cannot %s: %s", doing, why)

    def _event(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        self._events.event(PODS, pod.obj, event_type, reason, action, note)


def _in_pre_bind(why: Exception) -> BindingError:
    return BindingError(f'running PreBind plugin "{dynamic_resources.NAME}": {why}')


def _claims_state(placement: Placement) -> ClaimsState:
    data: ClaimsState = placement.state.data[dynamic_resources.NAME]
    return data
