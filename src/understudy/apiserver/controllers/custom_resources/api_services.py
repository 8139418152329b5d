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
API_SERVICES = f"/registry/{GROUP}/{RESOURCE}/"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"


class APIServiceController(Controller[str]):
    """Creates and deletes API services, and sets back those that others have changed; keys are their names."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._client = context.clients.client(APISERVER_AGENT)
        self._release = context.state.release
        informers.of(PREFIX).add_handler(self._note, self._changed, self._note)
        informers.of(API_SERVICES).on_change(self._note_api_service)

    def _changed(self, old: Entry, new: Entry) -> None:
        """Look at the API services of a definition that was written, as it is now and, if it can be read, as it was."""
        self._note(new)
        self._note(old)

    def _note_api_service(self, entry: Entry) -> None:
        if _is_managed(entry.value):
            self.queue.add(entry.key.removeprefix(API_SERVICES))

    def _note(self, entry: Entry) -> None:
        definition = Definition(entry.object)
        group = self._release.group(definition.group)
        versions = definition.versions.keys() - (group.versions.keys() if group else ())
        self.queue.add_all(f"{version}.{definition.group}" for version in definition.versions if version in versions)

    async def sync(self, key: str) -> None:
        """Create, set back or delete the API service of a group-version."""
        version, _, group = key.partition(".")
        service = self._registry.lookup(GROUP, RESOURCE, "", key)
        collection, desired = resource_path(GROUP, "v1", RESOURCE), _api_service(group, version)
        if service is None:
            if self._is_served(group, version) and self._release.group(GROUP) is not None:
                await self._client.create(collection, desired)
        elif not _is_managed(service):
            return
        elif not self._is_served(group, version):
            await self._client.delete(f"{collection}/{key}", uid=service["metadata"]["uid"])
        elif service["spec"] != desired["spec"]:
            await self._client.update(f"{collection}/{key}", {**service, "spec": desired["spec"]})

    def _is_served(self, group: str, version: str) -> bool:
        """Report whether any definition serves a group-version."""
        stored = self._registry.listing(DEFINITIONS, "customresourcedefinitions")
        definitions = (Definition(obj) for obj in stored if obj["spec"].get("group") == group)
        return any(version in definition.served_versions for definition in definitions)


def _is_managed(service: Obj) -> bool:
    """Report whether an API service is kept as a definition asks for it; those of a release are made once."""
    return (service["metadata"].get("labels") or {}).get(AUTOMANAGED) == "true"


def _api_service(group: str, version: str) -> Obj:
    """Return the API service of a group-version, with the fixed priorities of those made from definitions."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    }
