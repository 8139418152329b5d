"""An account of what happens to claims, and to the pods that use them: one line for each step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from understudy.controlplane.allocator.checks.taints import taint_text
from understudy.machinery.types import Obj
from understudy.machinery.util.regex import regex

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"  # annotation of claims that were made from a template

# What the scheduler adds to each reason, from 1.37 on without the words about claims: devices are not preempted.
PREEMPTION = regex(r"( still not schedulable,)? preemption: .*", re.DOTALL)
NO_DEVICES = "cannot allocate all claims"  # part of the scheduler's words


class Account:
    """Prints changes as they are seen. Objects that are there at the start are printed as if they were new.

    tell     is called with each line
    why_not  yields lines about a pod that waits for devices
    """

    def __init__(self, tell: Callable[[str], None], why_not: Callable[[Obj], Iterator[str]]) -> None:
        self._tell = tell
        self._why_not = why_not
        self._explained: dict[str, list[str]] = {}  # by uid of the pod
        self._waits: dict[str, set[str]] = {}  # by uid of the pod: what was told since it began to wait

    def claim_added(self, claim: Obj) -> None:
        """Print a new claim, and the devices that it may have already."""
        annotations = claim["metadata"].get("annotations") or {}
        owners = [owner["name"] for owner in claim["metadata"].get("ownerReferences") or () if owner["kind"] == "Pod"]
        origin = f" from a template for pod {owners[0]}" if POD_CLAIM in annotations and owners else ""
        self._claim(claim, f"created{origin}")
        self._claim_changes({}, claim)

    def claim_updated(self, old: Obj, new: Obj) -> None:
        """Print the change of a claim."""
        self._claim_changes(old.get("status") or {}, new)
        if _is_going(new) and not _is_going(old):
            self._claim(new, "is being deleted")

    def claim_deleted(self, claim: Obj) -> None:
        """Tell that a claim is gone."""
        self._claim(claim, "deleted")

    def pod_added(self, pod: Obj) -> None:
        """Print a new pod, if it uses claims."""
        if _uses_claims(pod):
            self._pod(pod, "created")
            self._pod_changes({}, {}, pod)

    def pod_updated(self, old: Obj, new: Obj) -> None:
        """Print the change of a pod, if it uses claims."""
        if _uses_claims(new):
            self._pod_changes(old["spec"], old.get("status") or {}, new)
            if _is_going(new) and not _is_going(old):
                self._pod(new, "is being deleted")

    def pod_deleted(self, pod: Obj) -> None:
        """Tell that a pod is gone, if it used claims."""
        self._explained.pop(pod["metadata"]["uid"], None)
        self._waits.pop(pod["metadata"]["uid"], None)
        if _uses_claims(pod):
            self._pod(pod, "deleted")

    def slice_added(self, resource_slice: Obj) -> None:
        """Print the devices that a driver publishes."""
        self._tell(_published(resource_slice))

    def slice_updated(self, old: Obj, new: Obj) -> None:
        """Print the devices that a driver publishes, if they have changed or if one is tainted now."""
        if _published(old) != _published(new):
            self._tell(_published(new))

    def slice_deleted(self, resource_slice: Obj) -> None:
        """Tell that devices are published no more."""
        self._tell(f"slice {resource_slice['metadata']['name']}: deleted")

    def event_changed(self, event: Obj) -> None:
        """Print a warning: when it is new, and when it has come 2, 4, 8, … times.

        Those of the scheduler are in the conditions of pods as well.
        """
        about, count = event["involvedObject"], event.get("count") or 1
        is_power_of_two = count & (count - 1) == 0
        if event.get("type") == "Warning" and event.get("reason") != "FailedScheduling" and is_power_of_two:
            where = f"{about.get('namespace', '')}/{about['name']}".lstrip("/")
            times = f" ({count} times)" if count > 1 else ""
            self._tell(f"{about['kind'].lower()} {where}: {event.get('reason')}: {event.get('message')}{times}")

    def _claim_changes(self, old: Obj, claim: Obj) -> None:
        """Print the devices that were allocated or given back, and the pods that the claim is reserved for."""
        new = claim.get("status") or {}
        before, after = old.get("allocation"), new.get("allocation")
        if after and not before:
            self._claim(claim, f"allocated {_devices(after)}")
        users, former = _users(new), _users(old)
        for uid in users.keys() - former.keys():
            self._claim(claim, f"reserved for {users[uid]}")
        for uid in former.keys() - users.keys():
            self._claim(claim, f"no longer reserved for {former[uid]}")
        if before and not after:
            self._claim(claim, f"deallocated, {_devices(before)} given back")

    def _pod_changes(self, spec: Obj, old: Obj, pod: Obj) -> None:
        new = pod.get("status") or {}
        message, uid = _waits_for(new), pod["metadata"]["uid"]
        if message and message != _waits_for(old) and not pod["spec"].get("nodeName"):
            if message not in self._waits.setdefault(uid, set()):
                self._waits[uid].add(message)
                self._pod(pod, f"waits: {message}")
            if NO_DEVICES in message:
                self._explain(pod)
        node = pod["spec"].get("nodeName")
        if node and not spec.get("nodeName"):
            self._waits.pop(uid, None)
            self._pod(pod, f"bound to node {node}")
        phase = new.get("phase", "Pending")
        if phase != old.get("phase", "Pending"):
            self._pod(pod, phase.lower())

    def _explain(self, pod: Obj) -> None:
        """Print the reasons that a pod waits for devices, if they are not the same as before."""
        uid, lines = pod["metadata"]["uid"], list(self._why_not(pod))
        if self._explained.get(uid) != lines:
            self._explained[uid] = lines
            for line in lines:
                self._tell(f"    {line}")

    def _claim(self, claim: Obj, text: str) -> None:
        self._tell(f"claim {_key(claim)}: {text}")

    def _pod(self, pod: Obj, text: str) -> None:
        self._tell(f"pod {_key(pod)}: {text}")


def _uses_claims(pod: Obj) -> bool:
    return bool(pod["spec"].get("resourceClaims"))


def _is_going(obj: Obj) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _key(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _devices(allocation: Obj) -> str:
    """Return the devices of an allocation: `gpu-0, gpu-1 of pool node-1 (gpu.example.com)`."""
    by_pool: dict[str, list[str]] = {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        by_pool.setdefault(f"pool {result['pool']} ({result['driver']})", []).append(result["device"])
    return "; ".join(f"{', '.join(devices)} of {pool}" for pool, devices in by_pool.items()) or "no devices"


def _published(resource_slice: Obj) -> str:
    """Describe a slice: `slice s: 2 devices of pool n1 (gpu.example.com), gpu-0 is tainted key:NoExecute`."""
    spec = resource_slice["spec"]
    devices = spec.get("devices") or ()
    taints = [
        f", {device['name']} is tainted {taint_text(taint)}"
        for device in devices
        for taint in (device.get("basic") or device).get("taints") or ()
    ]
    number = f"{len(devices)} device{'' if len(devices) == 1 else 's'}"
    offer = f"{number} of pool {spec['pool']['name']} ({spec['driver']}){''.join(taints)}"
    return f"slice {resource_slice['metadata']['name']}: {offer}"


def _users(status: Obj) -> dict[str, str]:
    """Return those that a claim is reserved for, by uid."""
    kinds = {"pods": "pod"}
    users = status.get("reservedFor") or ()
    return {user["uid"]: f"{kinds.get(user['resource'], user['resource'])} {user['name']}" for user in users}


def _waits_for(status: Obj) -> str:
    """Return the scheduler's reason that a pod has no node, "" if it has given none."""
    conditions = status.get("conditions") or ()
    scheduled: Obj = next((condition for condition in conditions if condition["type"] == "PodScheduled"), {})
    message = str(scheduled.get("message") or "") if scheduled.get("status") == "False" else ""
    return PREEMPTION.sub("", message)
