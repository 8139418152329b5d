"""PersistentVolumeClaimResize: a volume claim grows only where its storage class lets it."""

from __future__ import annotations

from understudy.admission.context import Context
from understudy.admission.validation.core.volumes.persistent_volumes import class_of
from understudy.machinery import errors
from understudy.machinery.quantity import Quantity, parse
from understudy.machinery.types import Obj, at

_FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def check(claim: Obj, old: Obj, ctx: Context) -> None:
    """Raises StatusError (403). That only bound claims grow is a matter of validation."""
    name = class_of(claim)
    if _size(claim) > _size(old) and (not name or name != class_of(old) or not _expands(name, ctx)):
        raise errors.admission_forbidden("", "persistentvolumeclaims", claim["metadata"], _FIXED)


def _size(claim: Obj) -> Quantity:
    return parse(at(claim, "spec", "resources", "requests", "storage", default="0"))


def _expands(name: str, ctx: Context) -> bool:
    return bool((ctx.lookup("storage.k8s.io", "storageclasses", "", name) or {}).get("allowVolumeExpansion"))
