"""Validation of what drivers report about the health of volumes, new in 1.37 behind the gate `CSIVolumeHealth`."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.kinds.common.formats import invalid_texts
from understudy.machinery.types import Obj
from understudy.machinery.validation.field import Errors, Path, not_found
from understudy.machinery.validation.names import condition_reason_texts


def of_claim(status: Obj) -> Errors:
    """Check `healthStatus` of a volume claim's status (upstream: `validateVolumeHealthStatus`)."""
    health = status.get("healthStatus") or {}
    return _conditions(health.get("healthConditions") or (), Path("status", "healthStatus", "healthConditions"))


def of_pod(pod: Obj) -> Errors:
    """Check `volumeHealth` of a pod's status, about its own volumes (upstream: `validatePodVolumeHealth`)."""
    names = {volume.get("name", "") for volume in pod["spec"].get("volumes") or ()}
    errors: Errors = []
    for i, health in enumerate((pod.get("status") or {}).get("volumeHealth") or ()):
        here, name = Path("status", "volumeHealth").index(i), health.get("name", "")
        if name and name not in names:
            errors.append(not_found(here.child("name"), name))
        errors += _conditions(health.get("healthConditions") or (), here.child("healthConditions"))
    return errors


def _conditions(conditions: Sequence[Obj], path: Path) -> Errors:
    return [
        error
        for i, condition in enumerate(conditions)
        if (reason := condition.get("reason"))
        for error in invalid_texts(condition_reason_texts(reason), reason, path.index(i).child("reason"))
    ]
