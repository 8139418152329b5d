"""The PodGroups that there are, and the pods of each (1.37: `GenericWorkload`). Upstream: `podgroupstate.go`."""

from __future__ import annotations

from understudy.controlplane.scheduler.cache import NodeCache
from understudy.controlplane.scheduler.framework.pods import PodInfo
from understudy.machinery.types import Obj


class PodGroups:
    """Finds groups and their pods by the group's key, "namespace/name". Pods may be there before their group."""

    def __init__(self, cache: NodeCache) -> None:
        self._cache = cache
        self._objects: dict[str, Obj] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}

    def get(self, key: str) -> Obj | None:
        """Return a group, None if there is none."""
        return self._objects.get(key)

    def put(self, group: Obj) -> None:
        """Take in a group that the server has sent, in a watch or as an answer, unless a newer state is known."""
        key = key_of(group)
        known = self._objects.get(key)
        if known is None or known["metadata"]["uid"] != group["metadata"]["uid"] or _version(known) < _version(group):
            self._objects[key] = group

    def remove(self, group: Obj) -> None:
        """Forget a group that is gone. Its pods stay."""
        known = self._objects.get(key_of(group))
        if known is not None and known["metadata"]["uid"] == group["metadata"]["uid"]:
            del self._objects[key_of(group)]

    def put_pod(self, pod: PodInfo) -> None:
        """Take in a pod that is new or has changed."""
        if pod.group_key:
            self._pods.setdefault(pod.group_key, {})[pod.uid] = pod

    def remove_pod(self, pod: PodInfo) -> None:
        """Forget a pod that is gone."""
        pods = self._pods.get(pod.group_key, {})
        pods.pop(pod.uid, None)
        if not pods:
            self._pods.pop(pod.group_key, None)

    def priority(self, key: str) -> int:
        """Return the priority of a group, 0 if it has none or is not there."""
        group = self._objects.get(key)
        return int(group["spec"].get("priority") or 0) if group is not None else 0

    def count(self, key: str) -> int:
        """Return the number of pods of a group."""
        return len(self._pods.get(key, ()))

    def scheduled(self, key: str) -> list[PodInfo]:
        """Return the pods of a group that have a node, those included that are being bound to one."""
        pods = self._pods.get(key, {}).values()
        return [pod for pod in pods if pod.node_name or self._cache.is_assumed(pod.uid)]


def key_of(group: Obj) -> str:
    """Return "namespace/name" of a group."""
    return f"{group['metadata']['namespace']}/{group['metadata']['name']}"


def minimum_of(group: Obj) -> int:
    """Return the number of pods of a group that have to be scheduled together: 1 if it is no gang.

    Upstream: `getMinCount`.
    """
    gang = group["spec"]["schedulingPolicy"].get("gang")
    return int(gang["minCount"]) if gang is not None else 1


def _version(group: Obj) -> int:
    return int(group["metadata"]["resourceVersion"])
