"""What a CSINode says about the health of its storage, new in 1.37 behind the gate `CSIVolumeHealth`."""

from __future__ import annotations

from understudy.kinds.common.formats import choice, invalid_texts
from understudy.kinds.context import Context
from understudy.kinds.core.pods.volumes.volume_sources import csi_driver
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, duplicate, required, too_long, too_many
from understudy.machinery.validation.names import condition_reason_texts, size

_MAX_CONDITIONS, _MAX_REASON, _MAX_MESSAGE = 16, 256, 1024
_HEALTH_MODES = {
    "accessMode": ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"),
    "volumeMode": ("Filesystem", "Block"),
}


def validate(obj: Obj, old: Obj, ctx: Context) -> Errors:
    """Check what a CSINode says about the health of storage (upstream: `ValidateCSINodeStatusUpdate`)."""
    path, seen, errors = Path("status", "storageHealth"), set[str](), Errors()
    for i, health in enumerate((obj.get("status") or {}).get("storageHealth") or ()):
        here, name = path.index(i), health.get("name", "")
        if name in seen:
            errors.append(duplicate(here, name))
        seen.add(name)
        errors += csi_driver(name, here.child("name"), ctx.release) if name else [required(here.child("name"))]
        conditions, below = health.get("healthConditions") or [], here.child("healthConditions")
        if len(conditions) > _MAX_CONDITIONS:
            errors.append(too_many(below, len(conditions), _MAX_CONDITIONS))
            continue
        errors += [error for j, one in enumerate(conditions) for error in _health(one, below.index(j))]
    return errors


def _health(condition: Obj, path: Path) -> Errors:
    errors = choice(condition.get("status", ""), ("StorageDegraded", "StorageUnreachable"), path.child("status"))
    reason, here = condition.get("reason", ""), path.child("reason")
    if reason:
        errors += invalid_texts(condition_reason_texts(reason), reason, here)
        errors += [too_long(here, _MAX_REASON)] if size(reason) > _MAX_REASON else []
    else:
        errors.append(required(here))
    if size(condition.get("message", "")) > _MAX_MESSAGE:
        errors.append(too_long(path.child("message"), _MAX_MESSAGE))
    for name, allowed in _HEALTH_MODES.items():
        if condition.get(name) is not None:
            errors += choice(condition[name], allowed, path.child(name))
    return errors
