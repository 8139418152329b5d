"""Keeps an API service for each group-version that definitions serve (upstream: `crdRegistrationController` and
`autoRegisterController`)."""

from __future__ import annotations

from understudy.apiserver.controllers.controller import APISERVER_AGENT, ControllerContext
from understudy.apiserver.controllers.custom_resources.definitions import PREFIX
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.extensions.definition import Definition
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.types import Obj

GROUP, RESOURCE, DEFINITIONS = "apiregistration.k8s.io", "apiservices", "apiextensions.k8s.io"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"


class APIServiceController(Controller[str]):
    """Creates and deletes API services; keys are their names."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._client = context.clients.client(APISERVER_AGENT)
        self._release = context.state.release
        informers.of(PREFIX).add_handler(self._note, self._changed, self._note)

    def _changed(self, old: Entry, new: Entry) -> None:
        """Look at the API services of a definition that was written, as it was before and as it is now."""
        self._note(old)
        self._note(new)

    def _note(self, entry: Entry) -> None:
        definition = Definition(entry.object)
        group = self._release.group(definition.group)
        versions = definition.versions.keys() - (group.versions.keys() if group else ())
        self.queue.add_all(f"{version}.{definition.group}" for version in definition.versions if version in versions)

    async def sync(self, key: str) -> None:
        """Create or delete the API service of a group-version."""
        version, _, group = key.partition(".")
        service = self._registry.lookup(GROUP, RESOURCE, "", key)
        collection = resource_path(GROUP, "v1", RESOURCE)
        if self._is_served(group, version):
            if service is None and self._release.group(GROUP) is not None:
                await self._client.create(collection, _api_service(group, version))
        elif service is not None and AUTOMANAGED in (service["metadata"].get("labels") or {}):
            await self._client.delete(f"{collection}/{key}", uid=service["metadata"]["uid"])

    def _is_served(self, group: str, version: str) -> bool:
        """Report whether any definition serves a group-version."""
        stored = self._registry.listing(DEFINITIONS, "customresourcedefinitions")
        definitions = (Definition(obj) for obj in stored if obj["spec"].get("group") == group)
        return any(version in definition.served_versions for definition in definitions)


def _api_service(group: str, version: str) -> Obj:
    """Return the API service of a group-version, with the fixed priorities of those made from definitions."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    }
