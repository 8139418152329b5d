"""StorageObjectInUseProtection: add the finalizer that keeps volumes and claims while something uses them."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.machinery.releases import features
from understudy.machinery.releases.version import V1_33

_CLASSES = ("storage.k8s.io", "volumeattributesclasses")
FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    _CLASSES: "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection:
    """Adds a finalizer to new persistent volumes and claims, and from 1.33 on to new volume attributes classes."""

    name = "StorageObjectInUseProtection"

    def handles(self, point: Point) -> bool:
        created = point.operation == Operation.CREATE and not point.subresource
        return created and (point.group, point.resource) in FINALIZERS

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add the finalizer if the object does not have it yet."""
        kind = (attributes.point.group, attributes.point.resource)
        if kind == _CLASSES and not (ctx.release >= V1_33 and ctx.gates[features.VOLUME_ATTRIBUTES_CLASS]):
            return
        metadata, finalizer = attributes.new["metadata"], FINALIZERS[kind]
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]
