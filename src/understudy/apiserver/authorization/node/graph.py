"""The relations between nodes and objects: an object is a node's if a pod on it, or the object itself, names the other.

    node <- pod <- secret, config map, service account, claim of a resource
    node <- pod <- claim of a volume <- volume <- secret
    node <- volume attachment, resource slice, pod certificate request

Only indexes are kept between questions: pods by node and namespace, other objects by name, until one is written.

Source: k8s.io/kubernetes/plugin/pkg/auth/authorizer/node/graph.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from understudy.kinds.core.pods import pod_references
from understudy.kinds.core.pods.pod_references import OF_CLAIM, OF_ITSELF
from understudy.machinery.auth.authorization import StoredObjects
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
        self._pods = _Index(objects, PODS, _place_of_pod)
        self._others = {
            resource: _Index(objects, resource, _name)
            for resource in (VOLUMES, ATTACHMENTS, SLICES, CERTIFICATE_REQUESTS)
        }

    def has_path(self, node: str, resource: GroupResource, namespace: str, name: str) -> bool:
        """Report whether an object, which need not exist, belongs to a node. Upstream: `hasPathFrom`."""
        if resource in _NAMED_BY_PODS:
            by_pod = self._named_by_pods(node, resource, namespace, name)
            return by_pod or (resource == SECRETS and self._named_by_volumes(node, namespace, name))
        if resource == PODS:
            return any(pod["metadata"]["name"] == name for pod in self._pods.at((node, namespace)))
        objects = self._others[resource].at((namespace, name))
        if resource == VOLUMES:
            return any(self._has_volume(node, volume) for volume in objects)
        return any(obj["spec"].get("nodeName") == node for obj in objects)

    def _named_by_pods(self, node: str, resource: GroupResource, namespace: str, name: str) -> bool:
        """Report whether a pod on a node names an object. Mirror pods, which nodes create, give nothing."""
        names = _NAMED_BY_PODS[resource]
        pods = self._pods.at((node, namespace))
        return any(name in names(pod) for pod in pods if not pod_references.is_mirror(pod))

    def _named_by_volumes(self, node: str, namespace: str, name: str) -> bool:
        """Report whether a volume of a node names a secret."""
        return any(
            (namespace, name) in _volume_secrets(volume) and self._has_volume(node, volume)
            for volume in self._others[VOLUMES].all()
        )

    def _has_volume(self, node: str, volume: Obj) -> bool:
        """Report whether a volume is bound to a claim that a pod on a node uses."""
        claim = volume["spec"].get("claimRef") or {}
        return self._named_by_pods(node, VOLUME_CLAIMS, claim.get("namespace", ""), claim.get("name", ""))


Place = tuple[str, str]


class _Index:
    """The stored objects of a resource by a place that each has. It is rebuilt for the first question after a
    write."""

    def __init__(self, objects: StoredObjects, resource: GroupResource, place: Callable[[Obj], Place]) -> None:
        self._objects = objects
        self._resource = resource
        self._place = place
        self._by_place: dict[Place, list[Obj]] | None = None
        objects.on_change(*resource, self._forget)

    def _forget(self) -> None:
        self._by_place = None

    def at(self, place: Place) -> Sequence[Obj]:
        """Return the objects at a place."""
        if self._by_place is None:
            self._by_place = {}
            for obj in self.all():
                self._by_place.setdefault(self._place(obj), []).append(obj)
        return self._by_place.get(place, ())

    def all(self) -> Sequence[Obj]:
        """Return all objects of the resource."""
        return self._objects.stored(*self._resource)


def _name(obj: Obj) -> Place:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _place_of_pod(pod: Obj) -> Place:
    return pod["spec"].get("nodeName", ""), pod["metadata"]["namespace"]


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
