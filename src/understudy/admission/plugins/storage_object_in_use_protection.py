"""StorageObjectInUseProtection: add the finalizer that keeps volumes and claims while something uses them."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.admission.context import Context

FINALIZERS = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}


class StorageObjectInUseProtection:
    """Adds a finalizer to new persistent volumes and claims."""

    name = "StorageObjectInUseProtection"

    def handles(self, point: Point) -> bool:
        """Report whether a request creates a persistent volume or a volume claim."""
        created = point.operation == Operation.CREATE and not point.subresource
        return created and not point.group and point.resource in FINALIZERS

    async def admit(self, attributes: Attributes, ctx: Context) -> None:
        """Add the finalizer if the object does not have it yet."""
        metadata, finalizer = attributes.new["metadata"], FINALIZERS[attributes.point.resource]
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]
