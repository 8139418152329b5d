"""StorageObjectInUseProtection: add the finalizer that keeps volumes and claims while something uses them."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.context import Context
from understudy.machinery.releases.version import V1_33

_CLASSES = ("storage.k8s.io", "volumeattributesclasses")

FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    _CLASSES: "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection:
    """Adds a finalizer to new persistent volumes and claims, since 1.33 to classes of their attributes, too."""

    name = "StorageObjectInUseProtection"

    def handles(self, point: Point) -> bool:
        """Report whether a request creates a persistent volume, a volume claim or a class of attributes."""
        return point.operation == Operation.CREATE and not point.subresource and point[1:3] in FINALIZERS

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add the finalizer if the object does not have it yet."""
        if attributes.point[1:3] == _CLASSES and ctx.release < V1_33:
            return
        metadata, finalizer = attributes.new["metadata"], FINALIZERS[attributes.point[1:3]]
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]
