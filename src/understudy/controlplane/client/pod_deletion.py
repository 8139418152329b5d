"""Deletes pods that are disrupted, with the condition that says why. Upstream: `addConditionAndDeletePod`."""

from __future__ import annotations

from understudy.apiserver.endpoints.negotiation import STRATEGIC_PATCH
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import PODS
from understudy.machinery.types import Obj, condition_of, nested_field
from understudy.machinery.util.clock import timestamp


async def add_condition_and_delete(client: APIClient, pod: Obj, condition: Obj) -> None:
    """Add a condition to a pod, unless it has it, and delete the pod. Raises StatusError, ConnectionError."""
    metadata = pod["metadata"]
    old = condition_of(pod, condition["type"])
    if not condition.items() <= old.items():
        now = timestamp(client.clock.now())
        since = old["lastTransitionTime"] if old.get("status") == condition["status"] else now
        new = {**condition, "lastProbeTime": None, "lastTransitionTime": since}
        conditions = nested_field(pod, "status", "conditions", default=())
        order = [{"type": each["type"]} for each in (*conditions, *([] if old else [condition]))]
        status = {"$setElementOrder/conditions": order, "conditions": [new]}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await client.patch(
            PODS, metadata["name"], patch, metadata["namespace"], content_type=STRATEGIC_PATCH, subresource="status"
        )
    await client.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
