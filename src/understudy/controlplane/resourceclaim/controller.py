"""Decides which pods and claims have to be looked at, and lets workers do it."""

from __future__ import annotations

import logging

from understudy.apiserver.controllers.framework import controller as framework
from understudy.apiserver.controllers.framework.controller import run_controllers
from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.controller_manager import controller_client
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.informer import Informer, Informers
from understudy.controlplane.client.pod_claims import (
    claim_name,
    entries_of,
    full_name,
    group_name,
    is_allocated,
    is_done,
    is_for_pod,
    is_of_group,
    is_reserved_for,
    known_claim_names,
    pod_claims,
)
from understudy.controlplane.client.resources import PODS, resource_claim_templates, resource_claims
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.resourceclaim.claim_creation import ClaimCreation
from understudy.controlplane.resourceclaim.claim_sync import ClaimSync, DeletedOwners
from understudy.controlplane.resourceclaim.pod_group_sync import PodGroupSync
from understudy.controlplane.resourceclaim.pod_groups import NoGroupsError, PodGroups
from understudy.controlplane.resourceclaim.pod_sync import PodSync
from understudy.controlplane.resourceclaim.scheduling_contexts import SchedulingContexts
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_35, V1_36, ByRelease, Version
from understudy.machinery.types import NamedTuple, Obj, nested_field

log = logging.getLogger(__name__)

ACCOUNT, SOURCE = "resource-claim-controller", "resource_claim"
WORKERS = ByRelease({V1_31: 10, V1_34: 50})
# Whether claims that are new or have changed are looked at. 1.32 and 1.33 only look at deleted ones, by mistake.
LOOKS_AT_CHANGED_CLAIMS = ByRelease({V1_31: True, V1_32: False, V1_34: True})
CLAIMS, TEMPLATES, GROUP = "claims", "templates", "group"  # indexes of pods and groups by what they use


class QueueKey(NamedTuple):
    """The name of an object in the work queue; `kind` is "pod", "podgroup" or "claim"."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


async def run(context: ComponentContext) -> None:
    """Run the claim controller of a release until cancelled."""
    client = controller_client(context, ACCOUNT)
    async with client, EventRecorder(client, SOURCE) as events:
        controller = Controller(context, client, events)
        await run_controllers(controller.informers, [controller])


class Controller(framework.Controller[QueueKey]):
    """Follows pods, claims and templates, and keeps the claims of pods as they have to be. Upstream: `Controller`."""

    def __init__(self, context: ComponentContext, client: APIClient, events: EventRecorder) -> None:
        self.informers = Informers(client)
        super().__init__(self.informers, WORKERS[context.version], ACCOUNT)
        self._version: Version = context.version
        self._pods = self.informers.of(PODS)
        self._claims = self.informers.of(resource_claims(context.version))
        self._templates = self.informers.of(resource_claim_templates(context.version))
        self._contexts = SchedulingContexts(client, self.informers) if context.version < V1_32 else None
        self._deleted = DeletedOwners()
        self._groups = groups = PodGroups(context.version, context.gates, self.informers)
        pods = self._pods.store
        creation = ClaimCreation(context, client, events, self.informers, self._claims, self._templates.store)
        self._syncs: dict[str, PodSync | PodGroupSync | ClaimSync] = {
            "pod": PodSync(context.version, client, creation, pods, self._claims, groups, self._contexts),
            "podgroup": PodGroupSync(creation, groups),
            "claim": ClaimSync(context.version, client, pods, self._claims, groups, self._deleted),
        }
        pods.add_index(CLAIMS, _claims_of)
        pods.add_index(TEMPLATES, _templates_of)
        self._add_handlers()
        if groups.enabled and groups.informer is not None:
            self._follow_groups(groups.informer)

    def _add_handlers(self) -> None:
        self._pods.add_handler(
            add=self._pod_changed,
            update=lambda _, pod: self._pod_changed(pod),
            delete=lambda pod: self._pod_changed(pod, deleted=True),
        )
        self._claims.add_handler(
            add=self._claim_changed,
            update=lambda _, claim: self._claim_changed(claim),
            delete=self._enqueue_users,
        )
        if self._version >= V1_36:  # before, a pod whose template was missing waited for its next try
            self._templates.add_handler(
                add=self._template_changed, update=lambda _, template: self._template_changed(template)
            )

    async def sync(self, key: QueueKey) -> None:
        """Make, name, reserve or free what a pod, a group or a claim needs, as it is now."""
        try:
            await self._syncs[key.kind].sync(key.namespace, key.name)
        except NoGroupsError as why:
            log.warning("%s is not looked at again: %s", key, why)

    def _follow_groups(self, informer: Informer) -> None:
        self._pods.store.add_index(GROUP, lambda pod: [f"{pod['metadata']['namespace']}/{group_name(pod)}"])
        informer.store.add_index(CLAIMS, _claims_of)
        informer.store.add_index(TEMPLATES, _templates_of)
        informer.add_handler(
            add=self._group_changed,
            update=lambda _, group: self._group_changed(group),
            delete=lambda group: self._group_changed(group, deleted=True),
        )

    # --- what has to be looked at ---------------------------------------------------------------------------------

    def _pod_changed(self, pod: Obj, deleted: bool = False) -> None:
        """Enqueue the claims that a pod does not need any more, and a pod that needs work. Upstream: `enqueuePod`."""
        extended = nested_field(pod, "status", "extendedResourceClaimStatus") if self._version >= V1_35 else None
        if not entries_of(pod) and extended is None:
            return
        metadata = pod["metadata"]
        if deleted:
            self._deleted.add(metadata["uid"])
        if deleted or is_done(pod):
            for name, _ in pod_claims(pod, extended=extended is not None):
                self.queue.add(QueueKey("claim", metadata["namespace"], name))
        if self._needs_work(pod):
            self.queue.add(QueueKey("pod", metadata["namespace"], metadata["name"]))

    def _needs_work(self, owner: Obj) -> bool:
        """Report whether a claim of a pod or a group has to be made, named or reserved. Upstream: `podNeedsWork`."""
        if owner["metadata"].get("deletionTimestamp"):
            return False
        return any(self._entry_needs_work(owner, entry) for entry in entries_of(owner))

    def _entry_needs_work(self, owner: Obj, entry: Obj) -> bool:
        try:
            name, generated = claim_name(owner, entry)
        except TryAgainError:
            return True
        if name is None:
            return False
        claim = self._claims.store.get(owner["metadata"]["namespace"], name)
        if claim is None:
            return "resourceClaimTemplateName" in entry and not self._waits_for_group(owner, entry)
        if generated and not is_for_pod(owner, claim, groups=self._groups.enabled):
            log.debug("%s: claim %s was made for another owner", full_name(owner), name)
            return False
        if not owner["spec"].get("nodeName"):
            return False
        if not is_allocated(claim) and self._contexts is not None and self._contexts.is_missing(owner):
            return True
        return is_allocated(claim) and not is_reserved_for(owner, claim, groups=self._groups.enabled)

    def _waits_for_group(self, pod: Obj, entry: Obj) -> bool:
        """Report whether the claim of an entry of a pod is made by the work of its group."""
        try:
            return is_of_group(self._groups.of_pod(pod), entry)
        except (TryAgainError, NoGroupsError):  # the work of the pod says so
            return False

    def _group_changed(self, group: Obj, deleted: bool = False) -> None:
        """Enqueue the claims of a deleted group, a group that needs work, and its pods. Upstream: `enqueuePodGroup`."""
        if not entries_of(group):
            return
        metadata = group["metadata"]
        if deleted:
            self._deleted.add(metadata["uid"])
            for name in known_claim_names(group):
                self.queue.add(QueueKey("claim", metadata["namespace"], name))
        if self._needs_work(group):
            self.queue.add(QueueKey("podgroup", metadata["namespace"], metadata["name"]))
        for pod in self._pods.store.by_index(GROUP, full_name(group)):
            self._pod_changed(pod)

    def _claim_changed(self, claim: Obj) -> None:
        if LOOKS_AT_CHANGED_CLAIMS[self._version]:
            self.queue.add(QueueKey("claim", claim["metadata"]["namespace"], claim["metadata"]["name"]))
        self._enqueue_users(claim)

    def _enqueue_users(self, claim: Obj) -> None:
        """Enqueue the pods and groups that use a claim, if there is something to do about them."""
        self._enqueue_indexed(CLAIMS, full_name(claim))

    def _template_changed(self, template: Obj) -> None:
        self._enqueue_indexed(TEMPLATES, full_name(template))

    def _enqueue_indexed(self, index: str, name: str) -> None:
        for pod in self._pods.store.by_index(index, name):
            self._pod_changed(pod)
        if self._groups.enabled and self._groups.informer is not None:
            for group in self._groups.informer.store.by_index(index, name):
                self._group_changed(group)


def _claims_of(pod: Obj) -> set[str]:
    namespace = pod["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in known_claim_names(pod)}


def _templates_of(pod: Obj) -> set[str]:
    namespace = pod["metadata"]["namespace"]
    names = (entry.get("resourceClaimTemplateName") for entry in entries_of(pod))
    return {f"{namespace}/{name}" for name in names if name}
