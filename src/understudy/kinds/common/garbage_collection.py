"""What kinds and the registry know of the garbage collector: its finalizers, and the fields that it changes."""

from __future__ import annotations

from understudy.machinery.types import Obj

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


def set_gc_finalizers(metadata: Obj, finalizers: list[str]) -> None:
    """Set which of the garbage collector's finalizers an object has, in place; its other ones stay."""
    before = metadata.get("finalizers") or []
    after = [*(finalizer for finalizer in before if finalizer not in (ORPHAN, FOREGROUND)), *finalizers]
    if set(after) != set(before):
        metadata["finalizers"] = after
        if not after:
            del metadata["finalizers"]


GC_FIELDS = ("ownerReferences", "finalizers", "managedFields")  # that the garbage collector changes


def changes_only_gc_fields(obj: Obj, old: Obj | None) -> bool:
    """Report whether an update changes nothing but what the garbage collector does. Upstream:
    `IsOnlyMutatingGCFields`."""
    return old is not None and _without_gc_fields(obj) == _without_gc_fields(old)


def _without_gc_fields(obj: Obj) -> Obj:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in GC_FIELDS}
    return {**obj, "metadata": metadata}
