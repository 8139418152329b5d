"""Validation of runtime classes."""

from __future__ import annotations

from understudy.kinds.common.formats import label, labels
from understudy.kinds.common.objectmeta import IMMUTABLE
from understudy.kinds.context import Context
from understudy.kinds.core.pods.containers import resources
from understudy.kinds.core.pods.validation import scheduling
from understudy.machinery.releases.version import V1_35, V1_36, Version
from understudy.machinery.types import Obj
from understudy.machinery.validation.bad_values import Typed
from understudy.machinery.validation.field import Errors, Path, duplicate, invalid, required


def create(obj: Obj, ctx: Context) -> Errors:
    """Check a runtime class (upstream: `ValidateRuntimeClass`)."""
    handler = obj.get("handler", "")
    needed = not handler and ctx.release >= V1_36
    errors = [required(Path("handler"))] if needed else label(handler, Path("handler"))
    overhead, placed = obj.get("overhead"), obj.get("scheduling")
    if overhead is not None:
        limits = {"limits": overhead.get("podFixed")}
        errors += resources.requirements(limits, (), Path("overhead"))
    if placed is not None:
        path = Path("scheduling")
        errors += labels(placed.get("nodeSelector"), path.child("nodeSelector"))
        errors += _tolerations(placed.get("tolerations") or [], path.child("tolerations"), ctx.release)
    return errors


def _tolerations(items: list[Obj], path: Path, version: Version) -> Errors:
    where = path if version >= V1_35 else path.child("tolerations")  # upstream named the list twice
    errors = scheduling.tolerations(items, where, version)
    seen: list[list[str]] = []
    for i, toleration in enumerate(items):
        same = [toleration.get(name, "") for name in ("key", "operator", "value", "effect")]
        if same in seen:
            bad_value = Typed(toleration, "k8s.io/kubernetes/pkg/apis/core.Toleration")
            errors.append(duplicate(path.index(i), bad_value))
        seen.append(same)
    return errors


def same_handler(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check that a runtime class keeps its handler."""
    handler = obj.get("handler", "")
    return [] if handler == old.get("handler", "") else [invalid(Path("handler"), handler, IMMUTABLE)]
