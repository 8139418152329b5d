"""Puts into every namespace what each one has in a cluster: the service account `default` and the authority to trust.

    kubectl create namespace a     ServiceAccount `default`, which `kubectl create token default` and pods need
                                   ConfigMap `kube-root-ca.crt`, with which pods verify the API server
    kubectl -n a delete …          makes them again, unless the namespace is being deleted

Source: k8s.io/kubernetes/pkg/controller/serviceaccount/serviceaccounts_controller.go and
k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from abc import abstractmethod

from understudy.apiserver.controllers.controller import CONTROLLER_AGENT, ControllerContext, service_account
from understudy.apiserver.controllers.framework.controller import Controller
from understudy.apiserver.controllers.framework.store_informer import StoreInformers
from understudy.apiserver.endpoints.requestinfo import resource_path
from understudy.apiserver.storage.interface import Entry
from understudy.machinery.errors import StatusError
from understudy.machinery.types import Obj

NAMESPACES = "/registry/namespaces/"
ACCOUNT = "default"
ROOT_CA, CA_KEY = "kube-root-ca.crt", "ca.crt"
DESCRIPTION = "kubernetes.io/description"
DESCRIPTION_TEXT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)


class _InEveryNamespace(Controller[str]):
    """Keeps one object in every namespace that is active; keys are names of namespaces."""

    def __init__(
        self, context: ControllerContext, informers: StoreInformers, account: str, resource: str, name: str
    ) -> None:
        super().__init__(informers)
        self._registry = context.state.registry
        self._client = context.clients.client(CONTROLLER_AGENT, service_account(account))
        self._resource = resource
        self._name = name
        informers.of(NAMESPACES).on_change(lambda entry: self.queue.add(entry.key.removeprefix(NAMESPACES)))
        informers.of(f"/registry/{resource}/").on_change(self._object_changed)

    def _object_changed(self, entry: Entry) -> None:
        if entry.key.endswith(f"/{self._name}"):
            self.queue.add(entry.value["metadata"]["namespace"])

    async def sync(self, key: str) -> None:
        """Create or mend the object of a namespace, unless that is gone or going."""
        namespace = self._registry.lookup("", "namespaces", "", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") != "Active":
            return
        stored = self._registry.lookup("", self._resource, key, self._name)
        changed = self._object(stored)
        if changed is None:
            return
        try:
            if stored is None:
                await self._client.create(resource_path("", "v1", self._resource, key), changed)
            else:
                await self._client.update(resource_path("", "v1", self._resource, key, self._name), changed)
        except StatusError as error:
            if not _is_no_matter(error):
                raise

    @abstractmethod
    def _object(self, stored: Obj | None) -> Obj | None:
        """Return the object as it has to be, None if the stored one is good."""


class ServiceAccountController(_InEveryNamespace):
    """Creates the service account `default`. Upstream: `ServiceAccountsController`."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(context, informers, "service-account-controller", "serviceaccounts", ACCOUNT)

    def _object(self, stored: Obj | None) -> Obj | None:
        return {"metadata": {"name": ACCOUNT}} if stored is None else None


class RootCAPublisher(_InEveryNamespace):
    """Publishes the authority of the server's certificate, "" for plain HTTP. Upstream: `rootcacertpublisher`."""

    def __init__(self, context: ControllerContext, informers: StoreInformers) -> None:
        super().__init__(context, informers, "root-ca-cert-publisher", "configmaps", ROOT_CA)
        self._data = {CA_KEY: context.root_ca}

    def _object(self, stored: Obj | None) -> Obj | None:
        """Return the object with the right data and some description; a description that somebody gave it stays."""
        metadata = (stored or {"metadata": {"name": ROOT_CA}})["metadata"]
        annotations = metadata.get("annotations") or {}
        if stored is not None and stored.get("data") == self._data and annotations.get(DESCRIPTION):
            return None
        annotations = {**annotations, DESCRIPTION: DESCRIPTION_TEXT}
        return {**(stored or {}), "metadata": {**metadata, "annotations": annotations}, "data": self._data}


def _is_no_matter(error: StatusError) -> bool:
    """Report whether a write failed as the namespace is going or gone, or since somebody else was quicker."""
    causes = (error.details or {}).get("causes") or ()
    return error.code in (404, 409) or any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
