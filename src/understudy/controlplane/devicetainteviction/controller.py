"""Follows pods, claims, slices and rules, and lets workers evict pods when it is time."""

from __future__ import annotations

import logging

from understudy.apiserver.controllers.framework import controller as framework
from understudy.apiserver.controllers.framework.controller import run_controllers
from understudy.controlplane.allocator.checks.taint_rules import RuleMatcher
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.controller_manager import controller_client
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.pod_claims import group_name, is_group, reservations
from understudy.controlplane.client.resources import (
    PODS,
    device_classes,
    device_taint_rules,
    resource_claims,
    resource_slices,
)
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.devicetainteviction import rule_status
from understudy.controlplane.devicetainteviction.eviction import NO_EXECUTE, Eviction
from understudy.controlplane.devicetainteviction.pod_eviction import PodEviction
from understudy.controlplane.devicetainteviction.pools import Pools
from understudy.controlplane.devicetainteviction.references import PodReference, RuleReference
from understudy.controlplane.devicetainteviction.rule_status import RuleStatus
from understudy.controlplane.devicetainteviction.tainted_claims import TaintedClaims
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_33, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj, nested_field

log = logging.getLogger(__name__)

NAME = "device-taint-eviction-controller"
WORKERS = 8
GROUP = "group"  # the index of pods by their PodGroup
# Whether a pod of `reservedFor` that is missing ends the walk over the others, by mistake.
STOPS_AT_MISSING_PODS = ByRelease({V1_33: True, V1_36: False})
# Whether a pod that was evicted is not evicted again while it is being deleted.
REMEMBERS_EVICTED = ByRelease({V1_33: False, V1_36: True})
# The fields of a pod whose changes matter.
_NODE_AND_CLAIMS = (("spec", "nodeName"), ("status", "resourceClaimStatuses"))
CHANGES = ByRelease({V1_37: (*_NODE_AND_CLAIMS, ("status", "extendedResourceClaimStatus")), V1_33: _NODE_AND_CLAIMS})
MOST_EVICTED = 500  # evicted pods that are remembered

WorkItem = PodReference | RuleReference


async def run(context: ComponentContext) -> None:
    """Run the controller of a release until cancelled; without the feature gate it does nothing, as upstream."""
    if not context.gates[features.DRA_DEVICE_TAINTS]:
        log.warning("device-taint-eviction does nothing: the feature gate DRADeviceTaints is off")
        return
    client = controller_client(context, NAME)
    async with client, EventRecorder(client, NAME) as events:
        controller = Controller(context.version, context.gates, client, events)
        await run_controllers(controller.informers, [controller])


class Controller(framework.Controller[WorkItem]):
    """Evicts the pods whose devices are tainted. Upstream: `Controller`."""

    def __init__(self, version: Version, gates: Gates, client: APIClient, events: EventRecorder) -> None:
        self.informers = Informers(client)
        self._clock = client.clock
        super().__init__(self.informers, WORKERS, NAME)
        self._version = version
        self._pods = self.informers.of(PODS)
        classes = self.informers.of(device_classes(version))
        self._with_groups = gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]
        matcher = RuleMatcher(version, lambda name: classes.store.get("", name))
        self._claims = TaintedClaims(version, Pools(), matcher, self._with_groups)
        self._eviction = PodEviction(version, client, events)
        self._evictions: dict[PodReference, Eviction] = {}  # of pods that wait for theirs. Upstream: `deletePodAt`
        self._evicted: dict[str, None] = {}  # the uids of pods, the newest last
        self._status: RuleStatus | None = None
        if gates[features.DRA_DEVICE_TAINT_RULES] or version < V1_35:
            rules = self.informers.of(device_taint_rules(version))
            rules.add_handler(
                add=lambda rule: self._rule_changed(None, rule),
                update=self._rule_changed,
                delete=lambda rule: self._rule_changed(rule, None),
            )
            if version >= V1_35:
                self._status = RuleStatus(client, rules, self._pods.store, self._claims)
            else:
                classes.add_handler(*[lambda *_: self._reconsider()] * 3)
        self._add_handlers()

    def _add_handlers(self) -> None:
        self.informers.of(resource_claims(self._version)).add_handler(
            add=lambda claim: self._claim_changed(None, claim),
            update=self._claim_changed,
            delete=self._claim_deleted,
        )
        self.informers.of(resource_slices(self._version)).add_handler(
            add=lambda slice_: self._slice_changed(None, slice_),
            update=self._slice_changed,
            delete=lambda slice_: self._slice_changed(slice_, None),
        )
        self._pods.store.add_index(GROUP, lambda pod: [f"{pod['metadata']['namespace']}/{group_name(pod)}"])
        self._pods.add_handler(add=self._pod_changed, update=self._pod_updated, delete=self._pod_deleted)

    # --- what changes -----------------------------------------------------------------------------------------------

    def _claim_changed(self, old: Obj | None, new: Obj) -> None:
        self._claims.put(new)
        if old is not None and reservations(old) != reservations(new):
            self._handle_pods(old)
        self._handle_pods(new)

    def _claim_deleted(self, claim: Obj) -> None:
        self._claims.remove(claim)
        self._handle_pods(claim)

    def _slice_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None:
            self._claims.pools.remove(old)
        if new is not None:
            self._claims.pools.put(new)
        self._reconsider()

    def _rule_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Take a rule in. Its status is written first, before it evicts pods."""
        if old is not None and new is not None and old["spec"] == new["spec"]:
            return
        if old is not None:
            self._claims.rules.pop(old["metadata"]["name"], None)
            if new is None and self._status is not None:
                self._status.forget(old["metadata"]["uid"])
        if new is not None:
            if self._status is not None:
                self.queue.add(RuleReference.of(new))
            if new["spec"]["taint"]["effect"] == NO_EXECUTE:
                self._claims.rules[new["metadata"]["name"]] = new
        self._reconsider()

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        """Look at a pod that got its node or its claims; other changes of a pod do not matter here."""
        if any(nested_field(old, *field) != nested_field(new, *field) for field in CHANGES[self._version]):
            self._pod_changed(new)

    def _pod_deleted(self, pod: Obj) -> None:
        self._evictions.pop(PodReference.of(pod), None)

    def _reconsider(self) -> None:
        for claim in self._claims.reconsider():
            self._handle_pods(claim)

    def _handle_pods(self, claim: Obj) -> None:
        """Look at the pods that a claim is reserved for. Upstream: `handlePods`."""
        namespace = claim["metadata"]["namespace"]
        for consumer in reservations(claim):
            if self._with_groups and is_group(consumer):
                for member in self._pods.store.by_index(GROUP, f"{namespace}/{consumer['name']}"):
                    self._pod_changed(member)
            if consumer.get("apiGroup") or consumer["resource"] != "pods":
                continue
            pod = self._pods.store.get(namespace, consumer["name"])
            if pod is not None and pod["metadata"]["uid"] == consumer["uid"]:
                self._pod_changed(pod)
            elif STOPS_AT_MISSING_PODS[self._version]:
                return

    def _pod_changed(self, pod: Obj) -> None:
        """Plan the eviction of a pod, or cancel it. Upstream: `handlePod`."""
        reference = PodReference.of(pod)
        eviction = self._claims.eviction_of(pod)
        if eviction is None:
            if self._evictions.pop(reference, None) is not None:
                self._eviction.tell(reference, "Cancelling deletion")
            return
        self._evictions[reference] = eviction
        self.queue.add_after(reference, eviction.when - self._clock.now())
        self._update_rules_later(eviction)

    # --- work -------------------------------------------------------------------------------------------------------

    async def sync(self, key: WorkItem) -> None:
        """Evict a pod, or write the status of a rule."""
        if isinstance(key, PodReference):
            await self._evict(key)
        elif self._status is not None:
            again = await self._status.update(key)
            if again > 0:
                self.queue.add_after(key, again)

    async def _evict(self, reference: PodReference) -> None:
        """Evict a pod, if it still has to be and it is time. Upstream: `maybeDeletePod`."""
        eviction = self._evictions.get(reference)
        if eviction is None or (REMEMBERS_EVICTED[self._version] and reference.uid in self._evicted):
            return
        wait = eviction.when - self._clock.now()
        if wait > 0:
            self.queue.add_after(reference, wait)
            return
        done = await self._eviction.evict(reference)
        self._evictions.pop(reference, None)
        self._evicted[reference.uid] = None
        if len(self._evicted) > MOST_EVICTED:
            del self._evicted[next(iter(self._evicted))]
        if done and self._status is not None:
            for reason in eviction.rules():
                self._status.count_evicted(reason.rule_uid)
            self._update_rules_later(eviction)

    def _update_rules_later(self, eviction: Eviction) -> None:
        """Write the status of the rules behind an eviction, once more has happened."""
        if self._status is not None:
            for reason in eviction.rules():
                self.queue.add_after(RuleReference(reason.rule, reason.rule_uid), rule_status.PERIOD)
