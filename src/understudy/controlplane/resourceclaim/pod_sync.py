"""Makes the claims of a pod of its templates, names them in its status, and reserves claims for a pod with a node."""

from __future__ import annotations

from understudy.apiserver.controllers.components import ComponentContext
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events import EventRecorder
from understudy.controlplane.client.informer import Informer
from understudy.controlplane.client.pod_claims import (
    ClaimNotFoundError,
    UnsupportedError,
    check_owner,
    claim_name,
    entries_of,
    generate_name,
    is_allocated,
    is_reserved_for,
    reservations,
)
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.client.store import Store
from understudy.controlplane.client.workqueue import TryAgainError
from understudy.controlplane.resourceclaim.created_claims import CreatedClaims
from understudy.controlplane.resourceclaim.scheduling_contexts import SchedulingContexts
from understudy.machinery.errors import StatusError, not_found
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_33, V1_35
from understudy.machinery.types import Obj

FIELD_MANAGER = "ResourceClaimController"  # of the pod's status
ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
FAILED = "FailedResourceClaimCreation"


class CreationError(TryAgainError):
    """A claim of a pod that cannot be made; its text goes into an event."""


class PodSync:
    """Does the work of one pod. Upstream: `syncPod`."""

    def __init__(
        self,
        context: ComponentContext,
        client: APIClient,
        events: EventRecorder,
        pods: Store,
        claims: Informer,
        templates: Store,
        contexts: SchedulingContexts | None,
    ) -> None:
        self._version = context.version
        self._gates = context.gates
        self._client = client
        self._events = events
        self._pods = pods
        self._resource = claims.resource
        self._claims = claims.store
        self._created = CreatedClaims(claims.store)
        self._templates = templates
        self._contexts = contexts

    async def sync(self, namespace: str, name: str) -> None:
        """Make, name and reserve the claims of a pod. Raises StatusError and TryAgainError for another try."""
        pod = self._pods.get(namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        names: dict[str, str] = {}
        for entry in entries_of(pod):
            try:
                await self._ensure_claim(pod, entry, names)
            except (CreationError, StatusError) as why:
                self._events.event(PODS, pod, "Warning", FAILED, f"PodResourceClaim {entry['name']}: {why}")
                raise
        if names:
            await self._name_claims(pod, names)
        if pod["spec"].get("nodeName"):
            await self._reserve_claims(pod)

    async def _ensure_claim(self, pod: Obj, entry: Obj, names: dict[str, str]) -> None:
        """Make the claim of an entry, and note its name, unless that has been done. Upstream: `handleClaim`."""
        namespace = pod["metadata"]["namespace"]
        try:
            name, generated = claim_name(pod, entry)
        except ClaimNotFoundError:
            pass
        except UnsupportedError as why:
            raise CreationError(f"checking for claim before creating it: {why}") from why
        else:
            if name is None:
                return
            claim = self._claims.get(namespace, name)
            if claim is not None and (not generated or _is_owner(pod, claim)):
                return
        template_name = entry.get("resourceClaimTemplateName")
        if template_name is None:
            return
        claim = self._made_before(pod, entry)
        if claim is None:
            claim = await self._create(pod, entry, self._template(namespace, template_name))
            self._created.add(claim)
        names[entry["name"]] = claim["metadata"]["name"]

    def _made_before(self, pod: Obj, entry: Obj) -> Obj | None:
        """Return the claim of an entry that is not in the pod's status yet. Upstream: `findPodResourceClaim`."""
        for claim in self._created.of_pod(pod["metadata"]["uid"]):
            made_for = (claim["metadata"].get("annotations") or {}).get(ENTRY_ANNOTATION)
            if made_for is None and self._version < V1_32:  # by the fixed name of Kubernetes 1.27 and before
                if claim["metadata"]["name"] == f"{pod['metadata']['name']}-{entry['name']}":
                    return claim
            elif made_for == entry["name"]:
                return claim
        return None

    def _template(self, namespace: str, name: str) -> Obj:
        """Return a template. Raises CreationError for one that is missing, or asks for a feature that is off."""
        template = self._templates.get(namespace, name)
        if template is None:
            missing = not_found("resource.k8s.io", "resourceclaimtemplate", name)
            raise CreationError(f'resource claim template "{name}": {missing}')
        requests = template["spec"]["spec"].get("devices", {}).get("requests") or []
        if self._version >= V1_32 and not self._gates[features.DRA_ADMIN_ACCESS]:
            if any(request.get("exactly", request).get("adminAccess") for request in requests):
                raise CreationError("admin access is requested, but the feature is disabled")
        if self._version >= V1_33 and not self._gates[features.DRA_PRIORITIZED_LIST]:
            if any(request.get("firstAvailable") for request in requests):
                message = "template includes a prioritized list of subrequests, but the feature is disabled"
                raise CreationError(message)
        return template

    async def _create(self, pod: Obj, entry: Obj, template: Obj) -> Obj:
        """Make the claim of an entry. Raises CreationError for what the server refuses."""
        metadata, template_metadata = pod["metadata"], template["spec"].get("metadata") or {}
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        if self._version < V1_35:
            owner["blockOwnerDeletion"] = True
        claim: Obj = {
            "metadata": {
                "generateName": generate_name(metadata["name"], entry["name"]),
                "annotations": {**(template_metadata.get("annotations") or {}), ENTRY_ANNOTATION: entry["name"]},
                "ownerReferences": [owner],
            },
            "spec": template["spec"]["spec"],
        }
        if labels := template_metadata.get("labels"):
            claim["metadata"]["labels"] = labels
        try:
            return await self._client.create(self._resource, claim, metadata["namespace"])
        except StatusError as why:
            raise CreationError(f"create ResourceClaim : {why}") from why

    async def _name_claims(self, pod: Obj, names: dict[str, str]) -> None:
        """Write the names of new claims into the status of their pod."""
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
        metadata = {field: pod["metadata"][field] for field in ("name", "namespace")}
        applied = {"metadata": metadata, "status": {"resourceClaimStatuses": statuses}}
        await self._client.apply(PODS, applied, FIELD_MANAGER, "status")

    async def _reserve_claims(self, pod: Obj) -> None:
        """Reserve the allocated claims of a pod with a node, which the scheduler has not done for it."""
        for entry in entries_of(pod):
            name, generated = claim_name(pod, entry)
            if name is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], name)
            if claim is None:
                return
            if generated:
                check_owner(pod, claim)
            if not is_allocated(claim):
                if self._contexts is not None:
                    await self._contexts.ensure(pod)
                    return
            elif not is_reserved_for(pod, claim):
                consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
                status = {**claim["status"], "reservedFor": [*reservations(claim), consumer]}
                await self._client.update_status(self._resource, {**claim, "status": status})


def _is_owner(pod: Obj, claim: Obj) -> bool:
    try:
        check_owner(pod, claim)
    except TryAgainError:
        return False
    return True
