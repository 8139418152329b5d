"""The relations between nodes and objects: an object is a node's if a pod on it, or the object itself, names the other.

    node <- pod <- secret, config map, service account, claim of a resource
    node <- pod <- claim of a volume <- volume <- secret
    node <- volume attachment, resource slice, pod certificate request

Nothing is kept between questions: a node's answer follows from the objects that are stored at that moment.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/graph.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from understudy.apiserver.authorization.authorizer import StoredObjects
from understudy.apiserver.authorization.node import pod_references
from understudy.apiserver.authorization.node.pod_references import OF_CLAIM, OF_ITSELF
from understudy.machinery.types import Obj

PODS, SECRETS, CONFIG_MAPS = ("", "pods"), ("", "secrets"), ("", "configmaps")
SERVICE_ACCOUNTS = ("", "serviceaccounts")
VOLUME_CLAIMS, VOLUMES = ("", "persistentvolumeclaims"), ("", "persistentvolumes")
ATTACHMENTS = ("storage.k8s.io", "volumeattachments")
CLAIMS, SLICES = ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceslices")
CERTIFICATE_REQUESTS = ("certificates.k8s.io", "podcertificaterequests")

GroupResource = tuple[str, str]


class Graph:
    """Knows which stored objects belong to a node."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects

    def has_path(self, node: str, resource: GroupResource, namespace: str, name: str) -> bool:
        """Report whether an object, which need not exist, belongs to a node. Upstream: `hasPathFrom`."""
        if resource in _NAMED_BY_PODS:
            by_pod = self._named_by_pods(node, resource, namespace, name)
            return by_pod or (resource == SECRETS and self._named_by_volumes(node, namespace, name))
        objects = (obj for obj in self._objects.stored(*resource) if _is(obj, namespace, name))
        if resource == VOLUMES:
            return any(self._has_volume(node, volume) for volume in objects)
        return any(obj["spec"].get("nodeName") == node for obj in objects)

    def _named_by_pods(self, node: str, resource: GroupResource, namespace: str, name: str) -> bool:
        """Report whether a pod on a node names an object. Mirror pods, which nodes create, give nothing."""
        names = _NAMED_BY_PODS[resource]
        return any(
            name in names(pod)
            for pod in self._objects.stored(*PODS)
            if pod["spec"].get("nodeName") == node
            and pod["metadata"]["namespace"] == namespace
            and not pod_references.is_mirror(pod)
        )

    def _named_by_volumes(self, node: str, namespace: str, name: str) -> bool:
        """Report whether a volume of a node names a secret."""
        return any(
            (namespace, name) in _volume_secrets(volume) and self._has_volume(node, volume)
            for volume in self._objects.stored(*VOLUMES)
        )

    def _has_volume(self, node: str, volume: Obj) -> bool:
        """Report whether a volume is bound to a claim that a pod on a node uses."""
        claim = volume["spec"].get("claimRef") or {}
        return self._named_by_pods(node, VOLUME_CLAIMS, claim.get("namespace", ""), claim.get("name", ""))


def _is(obj: Obj, namespace: str, name: str) -> bool:
    metadata = obj["metadata"]
    return (metadata["name"], metadata.get("namespace", "")) == (name, namespace)


_NAMED_BY_PODS: Mapping[GroupResource, Callable[[Obj], Iterable[str]]] = {
    SECRETS: pod_references.secrets,
    CONFIG_MAPS: pod_references.config_maps,
    SERVICE_ACCOUNTS: pod_references.service_accounts,
    VOLUME_CLAIMS: pod_references.volume_claims,
    CLAIMS: pod_references.claims,
}
_OF_KUBELET = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")  # the others are for controllers


def _volume_secrets(volume: Obj) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the secrets that kubelets need for a volume. Upstream: `VisitPVSecretNames`."""
    spec = volume["spec"]
    home = (spec.get("claimRef") or {}).get("namespace", "")
    if file := spec.get("azureFile"):
        yield file.get("secretNamespace") or home, file.get("secretName", "")
    for source in (*OF_CLAIM, *OF_ITSELF):
        if secret := (spec.get(source) or {}).get("secretRef"):
            default = home if source in OF_CLAIM else ""
            yield secret.get("namespace") or default, secret.get("name", "")
    for field in _OF_KUBELET:
        if secret := (spec.get("csi") or {}).get(field):
            yield secret.get("namespace", ""), secret.get("name", "")
