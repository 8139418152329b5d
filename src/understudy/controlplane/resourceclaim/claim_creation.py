"""Makes the claims of pods and groups of pods from templates, and writes their names into the owners' status."""

from __future__ import annotations

from understudy.apiserver.controllers.framework.workqueue import TryAgainError
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.informer import Informer, Informers
from understudy.controlplane.client.pod_claims import (
    ClaimNotFoundError,
    UnsupportedError,
    claim_name,
    generate_name,
    is_for_pod,
)
from understudy.controlplane.client.resources import PODS, Resource
from understudy.controlplane.client.store import Store
from understudy.controlplane.components import ComponentContext
from understudy.controlplane.resourceclaim.created_claims import CreatedClaims
from understudy.machinery.errors import StatusError, not_found
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_32, V1_33, V1_35, V1_37
from understudy.machinery.types import NamedTuple, Obj, nested_field

FIELD_MANAGER = "ResourceClaimController"  # of the owner's status
ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
FAILED = "FailedResourceClaimCreation"
LONGEST_LAG = 1.0  # seconds that an informer may take to see what was written here


class CreationError(TryAgainError):
    """A claim that cannot be made; its text goes into an event of the owner."""


class Owner(NamedTuple):
    """A pod or a group of pods that claims are made for."""

    resource: Resource
    obj: Obj


class ClaimCreation:
    """Makes claims from templates, each only once."""

    def __init__(
        self,
        context: ComponentContext,
        client: APIClient,
        events: EventRecorder,
        informers: Informers,
        claims: Informer,
        templates: Store,
    ) -> None:
        self._version = context.version
        self._gates = context.gates
        self._client = client
        self._events = events
        self._informers = informers
        self._resource = claims.resource
        self._created = CreatedClaims(claims.store, context.version, context.clock.monotonic)
        self._claims = claims.store
        self._templates = templates
        self._with_groups = context.gates[features.DRA_WORKLOAD_RESOURCE_CLAIMS]

    async def has_claim(self, obj: Obj, entry: Obj) -> bool:
        """Report whether an entry of a pod or of a group has its claim, or needs none. Raises CreationError."""
        try:
            name, generated = claim_name(obj, entry)
        except ClaimNotFoundError:
            return False
        except UnsupportedError as why:
            raise CreationError(f"checking for claim before creating it: {why}") from why
        if name is None:
            return True
        claim = await self._existing(obj["metadata"]["namespace"], name)
        if claim is None or not generated:
            return claim is not None
        return is_for_pod(obj, claim, groups=self._with_groups)

    async def _existing(self, namespace: str, name: str) -> Obj | None:
        """Return a claim, None if there is none. From 1.37 on the server is asked about one that is not known.

        Raises CreationError. Upstream: `claimExists`.
        """
        if self._version < V1_37:
            return self._claims.get(namespace, name)
        if (claim := self._created.get(namespace, name)) is not None:
            return claim
        try:
            return await self._client.get(self._resource, name, namespace)
        except StatusError as why:
            if why.code == 404:
                return None
            raise CreationError(f"checking claim existence: {why}") from why

    async def ensure(self, owner: Owner, entry: Obj) -> Obj:
        """Return the claim of an entry of an owner, which is made if that has not been done.

        Raises CreationError for a template that is missing, and for what the server refuses.
        """
        claim = self.made_before(owner.obj, entry)
        if claim is None:
            template = self._template(owner.obj["metadata"]["namespace"], entry["resourceClaimTemplateName"])
            claim = await self._create(owner, entry, template)
            self._created.add(claim)
        return claim

    def made_before(self, owner: Obj, entry: Obj) -> Obj | None:
        """Return the claim that was made for an entry of an owner. Upstream: `findPodResourceClaim`."""
        for claim in self._created.of_owner(owner["metadata"]["uid"]):
            if self._version >= V1_37 and claim["metadata"]["namespace"] != owner["metadata"]["namespace"]:
                continue
            made_for = (claim["metadata"].get("annotations") or {}).get(ENTRY_ANNOTATION)
            if made_for is None and self._version < V1_32:  # by the fixed name of Kubernetes 1.27 and before
                if claim["metadata"]["name"] == f"{owner['metadata']['name']}-{entry['name']}":
                    return claim
            elif made_for == entry["name"]:
                return claim
        return None

    def tell(self, owner: Owner, entry: Obj, why: Exception) -> None:
        """Record in an event of an owner that a claim cannot be made."""
        message = f"{owner.resource.kind}ResourceClaim {entry['name']}: {why}"
        self._events.event(owner.resource, owner.obj, "Warning", FAILED, message)

    async def name(self, owner: Owner, names: dict[str, str]) -> None:
        """Write the names of new claims, by entry, into the status of their owner, and wait until that is seen.

        From 1.37 on those that a pod has already are written as well, all sorted by entry.

        The owner may have to be looked at again immediately. If its names were not known then, its claims would be
        asked for, and so be forgotten (see `CreatedClaims`): a claim that is deleted once the pod has ended would be
        made anew. kube-controller-manager does not wait, but the change nearly always reaches it before its next look.
        """
        if self._version >= V1_37 and owner.resource is PODS:
            names = dict(sorted({**_names_of(owner.obj), **names}.items()))
        statuses = [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]
        metadata = {field: owner.obj["metadata"][field] for field in ("name", "namespace")}
        applied = {"metadata": metadata, "status": {"resourceClaimStatuses": statuses}}
        written = await self._client.apply(owner.resource, applied, FIELD_MANAGER, "status")
        seen = self._informers.of(owner.resource)
        await seen.wait_for_version(written["metadata"]["resourceVersion"], LONGEST_LAG)

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

    async def _create(self, owner: Owner, entry: Obj, template: Obj) -> Obj:
        """Make the claim of an entry. Raises CreationError for what the server refuses."""
        metadata, template_metadata = owner.obj["metadata"], template["spec"].get("metadata") or {}
        reference = {
            "apiVersion": owner.resource.api_version,
            "kind": owner.resource.kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        if self._version < V1_35:
            reference["blockOwnerDeletion"] = True
        claim: Obj = {
            "metadata": {
                "generateName": generate_name(metadata["name"], entry["name"]),
                "annotations": {**(template_metadata.get("annotations") or {}), ENTRY_ANNOTATION: entry["name"]},
                "ownerReferences": [reference],
            },
            "spec": template["spec"]["spec"],
        }
        if labels := template_metadata.get("labels"):
            claim["metadata"]["labels"] = labels
        try:
            return await self._client.create(self._resource, claim, metadata["namespace"])
        except StatusError as why:
            raise CreationError(f"create ResourceClaim : {why}") from why


def _names_of(pod: Obj) -> dict[str, str]:
    """Return the names of the claims in the status of a pod, by entry."""
    statuses = nested_field(pod, "status", "resourceClaimStatuses", default=())
    return {status["name"]: status["resourceClaimName"] for status in statuses if "resourceClaimName" in status}
