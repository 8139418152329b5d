"""Validation of namespaces and service accounts."""

from __future__ import annotations

from understudy.kinds.common.formats import qualified
from understudy.kinds.context import Context
from understudy.machinery.releases.version import V1_32
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, invalid

STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_FINALIZERS = Path("spec", "finalizers")
_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


def _finalizer(name: str, path: Path) -> Errors:
    errors = qualified(name, path)
    if "/" not in name and name not in STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(path, name, text))
    return errors


def validate(obj: Obj, ctx: Context) -> Errors:
    """Check a namespace (upstream: `ValidateNamespace`)."""
    return [error for name in obj["spec"].get("finalizers") or () for error in _finalizer(name, _FINALIZERS)]


def finalize(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check a write of the `finalize` subresource (upstream: `ValidateNamespaceFinalizeUpdate`)."""
    finalizers = obj["spec"].get("finalizers") or ()
    return [error for i, name in enumerate(finalizers) for error in _finalizer(name, _FINALIZERS.index(i))]


def update_status(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that the phase follows the deletion (upstream: `ValidateNamespaceStatusUpdate`)."""
    phase = (obj.get("status") or {}).get("phase", "")
    going = bool(obj["metadata"].get("deletionTimestamp"))
    if phase == ("Terminating" if going else "Active"):
        return []
    text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
    if not going:
        text = "may only be 'Active' if `deletionTimestamp` is empty"
    return [invalid(Path("status", "Phase"), phase, text)]


def warn_account(obj: Obj, old: Obj | None, ctx: Context) -> None:
    """Warn of a service account that restricts its secrets."""
    annotations, before = (((o or {}).get("metadata") or {}).get("annotations") or {} for o in (obj, old))
    if ctx.release >= V1_32 and _MOUNTABLE in annotations and _MOUNTABLE not in before:
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ctx.warn(f"metadata.annotations[{_MOUNTABLE}]: {text}")
