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
