"""PersistentVolumeClaimResize: let a volume claim grow only if its storage class allows expansion."""

from __future__ import annotations

from understudy.admission.chain import Attributes, Operation, Point
from understudy.kinds.context import Context
from understudy.kinds.core.pods.volumes.persistent_volumes import class_of
from understudy.machinery import errors
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj, nested_field

_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class PersistentVolumeClaimResize:
    """Refuses claims that ask for more than before if their storage class does not let them grow."""

    name = "PersistentVolumeClaimResize"

    def handles(self, point: Point) -> bool:
        return point[:4] == (Operation.UPDATE, "", "persistentvolumeclaims", "")

    async def validate(self, attributes: Attributes, ctx: Context) -> None:
        """Raise 403 for a claim that may not grow. Validation ran before and let only bound claims grow."""
        claim, old = attributes.new, attributes.old
        name = class_of(claim)
        if _size(claim) > _size(old) and (not name or name != class_of(old) or not _expands(name, ctx)):
            raise errors.admission_forbidden("", "persistentvolumeclaims", claim["metadata"], _FIXED)


def _size(claim: Obj) -> Quantity:
    return parse(nested_field(claim, "spec", "resources", "requests", "storage", default="0"))


def _expands(name: str, ctx: Context) -> bool:
    """Report whether a storage class exists and allows expansion."""
    return bool((ctx.lookup("storage.k8s.io", "storageclasses", "", name) or {}).get("allowVolumeExpansion"))
