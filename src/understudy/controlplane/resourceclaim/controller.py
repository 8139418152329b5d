"""Decides which pods and claims have to be looked at, and lets workers do it."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from understudy.apiserver.controllers.components import ComponentContext
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.controller_manager import controller_client
from understudy.controlplane.client.events import EventRecorder
from understudy.controlplane.client.informer import Informers
from understudy.controlplane.client.pod_claims import (
    check_owner,
    claim_name,
    entries_of,
    full_name,
    is_allocated,
    is_done,
    is_reserved_for,
    known_claim_names,
)
from understudy.controlplane.client.resources import PODS, resource_claim_templates, resource_claims
from understudy.controlplane.client.workqueue import TryAgainError, WorkQueue
from understudy.controlplane.resourceclaim.claim_sync import ClaimSync, DeletedPods
from understudy.controlplane.resourceclaim.pod_sync import PodSync
from understudy.controlplane.resourceclaim.scheduling_contexts import SchedulingContexts
from understudy.machinery.releases.version import V1_31, V1_32, V1_34, V1_35, V1_36, ByRelease, Version
from understudy.machinery.types import Obj, nested_field

log = logging.getLogger(__name__)

ACCOUNT, SOURCE = "resource-claim-controller", "resource_claim"
WORKERS = ByRelease({V1_31: 10, V1_34: 50})
# Whether claims that are new or have changed are looked at. 1.32 and 1.33 only look at deleted ones, by mistake.
LOOKS_AT_CHANGED_CLAIMS = ByRelease({V1_31: True, V1_32: False, V1_34: True})
CLAIMS, TEMPLATES = "claims", "templates"  # indexes of pods by what they use


class Key(NamedTuple):
    """What to look at: "pod" or "claim", and its name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}"


async def run(context: ComponentContext) -> None:
    """Run the claim controller of a release until cancelled."""
    client = controller_client(context, ACCOUNT)
    async with client, EventRecorder(client, SOURCE) as events:
        await Controller(context, client, events).run()


class Controller:
    """Follows pods, claims and templates, and keeps the claims of pods as they have to be. Upstream: `Controller`."""

    def __init__(self, context: ComponentContext, client: APIClient, events: EventRecorder) -> None:
        self._version: Version = context.version
        self._queue: WorkQueue[Key] = WorkQueue()
        self._informers = Informers(client)
        self._pods = self._informers.of(PODS)
        self._claims = self._informers.of(resource_claims(context.version))
        self._templates = self._informers.of(resource_claim_templates(context.version))
        self._contexts = SchedulingContexts(client, self._informers) if context.version < V1_32 else None
        self._deleted = DeletedPods()
        self._pod_sync = PodSync(
            context, client, events, self._pods.store, self._claims, self._templates.store, self._contexts
        )
        self._claim_sync = ClaimSync(context.version, client, self._pods.store, self._claims, self._deleted)
        self._pods.store.add_index(CLAIMS, _claims_of)
        self._pods.store.add_index(TEMPLATES, _templates_of)
        self._add_handlers()

    async def run(self) -> None:
        """Run informers and workers until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informers.run())
                await self._informers.wait_for_sync()
                await self._queue.process(self._sync, WORKERS[self._version])
        finally:
            self._queue.stop()

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

    async def _sync(self, key: Key) -> None:
        sync = self._pod_sync if key.kind == "pod" else self._claim_sync
        await sync.sync(key.namespace, key.name)

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
            names = known_claim_names(pod)
            if extended is not None:
                names.append(extended["resourceClaimName"])
            for name in names:
                self._queue.add(Key("claim", metadata["namespace"], name))
        if self._needs_work(pod):
            self._queue.add(Key("pod", metadata["namespace"], metadata["name"]))

    def _needs_work(self, pod: Obj) -> bool:
        """Report whether a claim of a pod has to be made, named or reserved. Upstream: `podNeedsWork`."""
        if pod["metadata"].get("deletionTimestamp"):
            return False
        return any(self._entry_needs_work(pod, entry) for entry in entries_of(pod))

    def _entry_needs_work(self, pod: Obj, entry: Obj) -> bool:
        try:
            name, generated = claim_name(pod, entry)
        except TryAgainError:
            return True
        if name is None:
            return False
        claim = self._claims.store.get(pod["metadata"]["namespace"], name)
        if claim is None:
            return "resourceClaimTemplateName" in entry
        if generated:
            try:
                check_owner(pod, claim)
            except TryAgainError as why:
                log.debug("%s, claim %s: %s", full_name(pod), entry["name"], why)
                return False
        if not pod["spec"].get("nodeName"):
            return False
        if not is_allocated(claim) and self._contexts is not None and self._contexts.is_missing(pod):
            return True
        return is_allocated(claim) and not is_reserved_for(pod, claim)

    def _claim_changed(self, claim: Obj) -> None:
        if LOOKS_AT_CHANGED_CLAIMS[self._version]:
            self._queue.add(Key("claim", claim["metadata"]["namespace"], claim["metadata"]["name"]))
        self._enqueue_users(claim)

    def _enqueue_users(self, claim: Obj) -> None:
        """Enqueue the pods that use a claim, if there is something to do about them."""
        for pod in self._pods.store.by_index(CLAIMS, full_name(claim)):
            self._pod_changed(pod)

    def _template_changed(self, template: Obj) -> None:
        for pod in self._pods.store.by_index(TEMPLATES, full_name(template)):
            self._pod_changed(pod)


def _claims_of(pod: Obj) -> set[str]:
    namespace = pod["metadata"]["namespace"]
    return {f"{namespace}/{name}" for name in known_claim_names(pod)}


def _templates_of(pod: Obj) -> set[str]:
    namespace = pod["metadata"]["namespace"]
    names = (entry.get("resourceClaimTemplateName") for entry in entries_of(pod))
    return {f"{namespace}/{name}" for name in names if name}
