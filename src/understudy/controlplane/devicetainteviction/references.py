"""Names of pods and rules, of one life each: by name and uid. Upstream: `tainteviction.NamespacedObject`."""

from __future__ import annotations

from understudy.machinery.types import NamedTuple, Obj


class PodReference(NamedTuple):
    """A pod that may have to be evicted."""

    namespace: str
    name: str
    uid: str

    @staticmethod
    def of(pod: Obj) -> PodReference:
        """Return the reference of a pod."""
        metadata = pod["metadata"]
        return PodReference(metadata["namespace"], metadata["name"], metadata["uid"])

    def partial(self) -> Obj:
        """Return as much of the pod as an event names."""
        return {"metadata": self._asdict()}


class RuleReference(NamedTuple):
    """A rule whose status may have to be written."""

    name: str
    uid: str

    @staticmethod
    def of(rule: Obj) -> RuleReference:
        """Return the reference of a rule."""
        return RuleReference(rule["metadata"]["name"], rule["metadata"]["uid"])
