"""The names of the objects that a pod refers to: secrets, config maps, service accounts, claims.

Source: `VisitPodSecretNames` and others in k8s.io/kubernetes/pkg/api/v1/pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from understudy.machinery.types import Obj

MIRROR = "kubernetes.io/config.mirror"
# Kinds of volumes with a secret. That of a persistent volume is in the namespace of its claim, unless the volume names
# another; the latter have no default.
OF_CLAIM, OF_ITSELF = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"), ("cinder", "storageos")


def is_mirror(pod: Obj) -> bool:
    """Report whether a pod stands for one that a kubelet runs from a file."""
    return MIRROR in (pod["metadata"].get("annotations") or {})


def service_accounts(pod: Obj) -> Iterator[str]:
    """Yield the name of the service account of a pod, if it has one."""
    if name := pod["spec"].get("serviceAccountName"):
        yield name


def secrets(pod: Obj) -> Iterator[str]:
    """Yield the names of the secrets that a pod uses. Upstream: `VisitPodSecretNames`."""
    return filter(None, _secrets(pod))


def _secrets(pod: Obj) -> Iterator[str]:
    for reference in pod["spec"].get("imagePullSecrets") or ():
        yield reference.get("name", "")
    yield from _environment(pod, "secretRef", "secretKeyRef")
    for volume in pod["spec"].get("volumes") or ():
        for source in ("azureFile", "secret"):
            yield (volume.get(source) or {}).get("secretName", "")
        for source in (*OF_CLAIM, *OF_ITSELF):
            yield ((volume.get(source) or {}).get("secretRef") or {}).get("name", "")
        yield ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", "")
        yield from _projected(volume, "secret")


def config_maps(pod: Obj) -> Iterator[str]:
    """Yield the names of the config maps that a pod uses. Upstream: `VisitPodConfigmapNames`."""
    return filter(None, _config_maps(pod))


def _config_maps(pod: Obj) -> Iterator[str]:
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


def projected_sources(pod: Obj) -> Iterator[Obj]:
    """Yield the sources of a pod's projected volumes."""
    for volume in pod["spec"].get("volumes") or ():
        yield from (volume.get("projected") or {}).get("sources") or ()


def _projected(volume: Obj, kind: str) -> Iterator[str]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield (source.get(kind) or {}).get("name", "")


def volume_claims(pod: Obj) -> Iterator[str]:
    """Yield the names of the volume claims that a pod uses, or that are made for it."""
    return (claim for volume in pod["spec"].get("volumes") or () if (claim := claim_of(pod, volume)))


def claim_of(pod: Obj, volume: Obj) -> str:
    """Return the name of the claim behind a volume of a pod, "" without one."""
    if source := volume.get("persistentVolumeClaim"):
        return str(source.get("claimName", ""))
    return f"{pod['metadata']['name']}-{volume['name']}" if volume.get("ephemeral") else ""


def claims(pod: Obj) -> Iterator[str]:
    """Yield the names of the resource claims that a pod uses, those made for it as its status has them."""
    status = pod.get("status") or {}
    made = {each["name"]: each.get("resourceClaimName", "") for each in status.get("resourceClaimStatuses") or ()}
    for claim in pod["spec"].get("resourceClaims") or ():
        if "resourceClaimTemplateName" in claim:
            yield made.get(claim["name"], "")
        else:
            yield claim.get("resourceClaimName", "")
    yield (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName", "")
