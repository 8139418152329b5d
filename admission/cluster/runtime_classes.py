"""Runtime classes."""

from __future__ import annotations

from understudy.admission.core import resources, scheduling
from understudy.admission.core.formats import label, labels
from understudy.admission.field import Errors, Path, invalid
from understudy.admission.meta import IMMUTABLE
from understudy.apiserver.kind import Context
from understudy.apiserver.types import Obj


def create(obj: Obj, ctx: Context) -> Errors:
    errors = label(obj.get("handler", ""), Path("handler"))
    overhead, placed = obj.get("overhead"), obj.get("scheduling")
    if overhead is not None:
        limits = {"limits": overhead.get("podFixed")}
        errors += resources.requirements(limits, (), Path("overhead"), ctx.release)
    if placed is not None:
        path = Path("scheduling")
        errors += labels(placed.get("nodeSelector"), path.child("nodeSelector"))
        # Upstream names the list twice.
        errors += scheduling.tolerations(
            placed.get("tolerations"), path.child("tolerations", "tolerations"), ctx.release
        )
    return errors


def same_handler(obj: Obj, old: Obj, ctx: Context) -> Errors:
    handler = obj.get("handler", "")
    return [] if handler == old.get("handler", "") else [invalid(Path("handler"), handler, IMMUTABLE)]
