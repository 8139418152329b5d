"""Evicts one pod: writes an event and a condition about it, and deletes it."""

from __future__ import annotations

from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.events.recorder import EventRecorder
from understudy.controlplane.client.pod_deletion import add_condition_and_delete
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.devicetainteviction.references import PodReference
from understudy.machinery.errors import StatusError
from understudy.machinery.releases.version import V1_35, Version

EVENT = "DeviceTaintManagerEviction"
CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByDeviceTaintManager",
    "message": "Device Taint manager: deleting due to NoExecute taint",
}


class PodEviction:
    """Deletes pods of a release's clusters. Upstream: `addConditionAndDeletePod`."""

    def __init__(self, version: Version, client: APIClient, events: EventRecorder) -> None:
        self._version = version
        self._client = client
        self._events = events
        self._has_told = False

    async def evict(self, reference: PodReference) -> bool:
        """Evict a pod; report whether it was still there. Raises StatusError.

        A pod that is being deleted is left alone from 1.35 on.
        """
        try:
            pod = await self._client.get(PODS, reference.name, reference.namespace)
            if pod["metadata"]["uid"] != reference.uid:
                return False
            if pod["metadata"].get("deletionTimestamp") and self._version >= V1_35:
                return True
            self._tell_deletion(reference)
            await add_condition_and_delete(self._client, pod, CONDITION)
        except StatusError as why:
            if why.code != 404:
                raise
            return False
        return True

    def _tell_deletion(self, reference: PodReference) -> None:
        """Record that a pod is evicted; before 1.35 the controller does so for the first pod only, by mistake."""
        if self._version >= V1_35 or not self._has_told:
            self.tell(reference, "Marking for deletion")
        self._has_told = True

    def tell(self, reference: PodReference, message: str) -> None:
        """Record an event about the eviction of a pod."""
        self._events.event(PODS, reference.partial(), "Normal", EVENT, message)
