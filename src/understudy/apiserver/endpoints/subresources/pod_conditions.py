"""Conditions of pods that the server itself finds true."""

from __future__ import annotations

from understudy.machinery.types import Obj


def with_condition(pod: Obj, condition: str, now: str, **why: str) -> Obj:
    """The pod's status with a condition, in the place of one of the same type. `why`: reason and message."""
    status = pod.get("status") or {}
    others = [c for c in status.get("conditions") or [] if c["type"] != condition]
    new = {"type": condition, "status": "True", "lastProbeTime": None, "lastTransitionTime": now, **why}
    return {**status, "conditions": [*others, new]}
