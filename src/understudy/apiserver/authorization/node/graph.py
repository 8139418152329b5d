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
from understudy.machinery.types import Obj

MIRROR = "kubernetes.io/config.mirror"
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
            and MIRROR not in (pod["metadata"].get("annotations") or {})
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


def _account(pod: Obj) -> Iterable[str]:
    return (pod["spec"].get("serviceAccountName", ""),)


def _secrets(pod: Obj) -> Iterator[str]:
    """Yield the names of the secrets that a pod uses. Upstream: `VisitPodSecretNames`."""
    for reference in pod["spec"].get("imagePullSecrets") or ():
        yield reference.get("name", "")
    yield from _environment(pod, "secretRef", "secretKeyRef")
    for volume in pod["spec"].get("volumes") or ():
        for source in ("azureFile", "secret"):
            yield (volume.get(source) or {}).get("secretName", "")
        for source in (*_OF_CLAIM, *_OF_ITSELF):
            yield ((volume.get(source) or {}).get("secretRef") or {}).get("name", "")
        yield ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", "")
        yield from _projected(volume, "secret")


def _config_maps(pod: Obj) -> Iterator[str]:
    """Yield the names of the config maps that a pod uses. Upstream: `VisitPodConfigmapNames`."""
    yield from _environment(pod, "configMapRef", "configMapKeyRef")
    for volume in pod["spec"].get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name", "")
        yield from _projected(volume, "configMap")


def _environment(pod: Obj, whole: str, key: str) -> Iterator[str]:
    """Yield the names of what the variables of all containers come from."""
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in pod["spec"].get(containers) or ():
            for source in container.get("envFrom") or ():
                yield (source.get(whole) or {}).get("name", "")
            for variable in container.get("env") or ():
                yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name", "")


def _projected(volume: Obj, kind: str) -> Iterator[str]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield (source.get(kind) or {}).get("name", "")


def _volume_claims(pod: Obj) -> Iterator[str]:
    """Yield the names of the volume claims that a pod uses, or that are made for it."""
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim.get("claimName", "")
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _claims(pod: Obj) -> Iterator[str]:
    """Yield the names of the resource claims that a pod uses, those made for it as its status has them."""
    status = pod.get("status") or {}
    made = {each["name"]: each.get("resourceClaimName", "") for each in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        if "resourceClaimTemplateName" in claim:
            yield made.get(claim["name"], "")
        else:
            yield claim.get("resourceClaimName", "")
    yield (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName", "")


_NAMED_BY_PODS: Mapping[GroupResource, Callable[[Obj], Iterable[str]]] = {
    SECRETS: _secrets,
    CONFIG_MAPS: _config_maps,
    SERVICE_ACCOUNTS: _account,
    VOLUME_CLAIMS: _volume_claims,
    CLAIMS: _claims,
}
# Kinds of volumes whose secret is, unless they name its namespace, in that of the claim; or never is.
_OF_CLAIM, _OF_ITSELF = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"), ("cinder", "storageos")
_OF_KUBELET = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")  # the others are for controllers


def _volume_secrets(volume: Obj) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the secrets that kubelets need for a volume. Upstream: `VisitPVSecretNames`."""
    spec = volume["spec"]
    home = (spec.get("claimRef") or {}).get("namespace", "")
    if file := spec.get("azureFile"):
        yield file.get("secretNamespace") or home, file.get("secretName", "")
    for source in (*_OF_CLAIM, *_OF_ITSELF):
        if secret := (spec.get(source) or {}).get("secretRef"):
            default = home if source in _OF_CLAIM else ""
            yield secret.get("namespace") or default, secret.get("name", "")
    for field in _OF_KUBELET:
        if secret := (spec.get("csi") or {}).get(field):
            yield secret.get("namespace", ""), secret.get("name", "")
