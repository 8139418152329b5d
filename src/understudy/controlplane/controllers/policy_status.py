"""Warns in the status of ValidatingAdmissionPolicies of expressions that do not fit the objects they are about.

Source: k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import group_version_path
from understudy.machinery.types import GroupVersionKind, GroupVersionResource, Obj

if TYPE_CHECKING:
    from understudy.apiserver.endpoints.openapi.v3 import OpenAPI

GROUP, RESOURCE = "admissionregistration.k8s.io", "validatingadmissionpolicies"
PREFIX = f"/registry/{RESOURCE}/"
MANAGER = "validatingadmissionpolicy-status"


class PolicyStatusController(Controller[str]):
    """Checks each policy once for each change of its spec; keys are their names."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._state = context.state
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(f"{MANAGER}-controller"))
        self._openapi: OpenAPI | None = None
        informers.of(PREFIX).on_change(lambda entry: self.queue.add(entry.key.removeprefix(PREFIX)))

    async def sync(self, key: str) -> None:
        """Apply the warnings about a policy, if its spec has changed since the last ones."""
        policy = self._state.registry.lookup(GROUP, RESOURCE, "", key)
        if policy is None:
            return
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return
        from understudy.admission.plugins.policy.type_checking import Types, check  # CEL: most servers have no policies

        warnings = check(policy, Types(self._kinds, self._schemas), self._state.release.version)
        checked = {"expressionWarnings": warnings} if warnings else {}
        applied = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key},
            "status": {"observedGeneration": generation, "typeChecking": checked},
        }
        await self._client.apply(f"/apis/{GROUP}/v1/{RESOURCE}/{key}/status", applied, MANAGER)

    def _kinds(self, resource: GroupVersionResource) -> list[GroupVersionKind]:
        """Return the kinds of a resource. One of the core group matches that of any group (`KindsFor`)."""
        return [
            kind.gvk(resource.version)
            for kind in self._state.serving.kinds
            if resource.version in kind.versions
            and resource.group in ("", kind.group)
            and resource.resource.lower() in (kind.resource, kind.singular)
        ]

    def _schemas(self, group: str, version: str) -> Mapping[str, Obj]:
        """Return the schemas in the OpenAPI document of a group-version, none if it is not served."""
        openapi, name = self._documents(), group_version_path(group, version).removeprefix("/")
        if name not in openapi.hashes:
            return {}
        schemas: Mapping[str, Obj] = openapi.document(name)["components"]["schemas"]
        return schemas

    def _documents(self) -> OpenAPI:
        """Return the OpenAPI documents of what is served now."""
        from understudy.apiserver.endpoints.openapi.v3 import OpenAPI  # most servers have no policies

        serving = self._state.serving
        if self._openapi is None or self._openapi.serving is not serving:  # else its list of documents is kept
            self._openapi = OpenAPI(serving)
        return self._openapi
