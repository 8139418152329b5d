"""Conditions of pods that the server itself sets."""

from __future__ import annotations

from understudy.machinery.types import Obj, with_condition


def with_pod_condition(pod: Obj, condition: str, now: str, **fields: str) -> Obj:
    """Return the pod's status with a condition that is true. Upstream: `UpdatePodCondition`.

    fields  reason and message
    """
    status = pod.get("status") or {}
    new = {"type": condition, "status": "True", "lastProbeTime": None, **fields}
    return {**status, "conditions": with_condition(status.get("conditions") or [], new, now)}
