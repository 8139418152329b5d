"""Warnings about volumes and claims that are accepted but deprecated or a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.kinds.context import Context
from understudy.kinds.core.pods.validation.pod_warnings import VOLUMES, node_term
from understudy.kinds.core.pods.volumes.claim_warnings import claim_spec
from understudy.kinds.core.pods.volumes.persistent_volumes import CLASS_ANNOTATION
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Path

_ANNOTATIONS = {
    CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_SOURCES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."


def volume(obj: Obj, ctx: Context) -> None:
    """Warn of mistakes in a persistent volume."""
    for text in _of_volume(obj):
        ctx.warn(text)


def _of_volume(obj: Obj) -> Iterator[str]:
    spec, annotations = obj["spec"], obj["metadata"].get("annotations") or {}
    for key, text in _ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {text}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    path = Path("spec", "nodeAffinity", "required", "nodeSelectorTerms")
    for i, term in enumerate(((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()):
        yield from node_term(term, path.index(i))
    for source in _SOURCES:
        if spec.get(source) is not None:
            field, text = VOLUMES[source]
            yield f"spec.{field}: {text}"


def claim(obj: Obj, ctx: Context) -> None:
    """Warn of mistakes in a persistent volume claim."""
    if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        text = 'deprecated since v1.8; use "storageClassName" attribute instead'
        ctx.warn(f"metadata.annotations[{CLASS_ANNOTATION}]: {text}")
    for text in claim_spec(obj["spec"], Path("spec")):
        ctx.warn(text)
