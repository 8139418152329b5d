"""Takes secrets away from what is shown."""

from __future__ import annotations

from understudy.machinery.types import Obj

LEFT_OUT = "(left out)"  # stands for what is secret
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def mask_secret(secret: Obj) -> Obj:
    """Return a Secret without its values, also those in the annotation in which kubectl keeps the manifest."""
    masked = dict(secret)
    for field in ("data", "stringData"):
        if masked.get(field):
            masked[field] = dict.fromkeys(masked[field], LEFT_OUT) if isinstance(masked[field], dict) else LEFT_OUT
    metadata = masked.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        masked["metadata"] = {**masked["metadata"], "annotations": {**annotations, _LAST_APPLIED: LEFT_OUT}}
    return masked
