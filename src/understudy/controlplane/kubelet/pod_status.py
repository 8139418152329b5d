"""The status of a pod as the kubelet writes it. Upstream: `generateAPIPodStatus`, `pkg/kubelet/status/generate.go`.

No containers are started, so theirs is made up: one runs from the moment that its pod starts, is always ready, and ends
with exit code 0 when its pod is deleted. Containers have no image digest, and ids like `understudy://…`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from understudy.machinery.golang.json_writer import encode
from understudy.machinery.releases import features
from understudy.machinery.releases.features import Gates
from understudy.machinery.types import Obj, dataclass
from understudy.machinery.util.clock import timestamp

# Where the CDI devices of a pod are noted, {"container": ["vendor.com/class=device"]}. A real kubelet hands them to the
# container runtime and writes them nowhere.
CDI_ANNOTATION = "understudy.dev/cdi-devices"

TERMINAL_PHASES = ("Succeeded", "Failed")
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_IP_LISTS = {"hostIPs", "podIPs"}
_READINESS_GATE_MISSING = 'corresponding condition of pod readiness gate "{0}" does not exist.'
_READINESS_GATE_UNMET = 'the status of pod readiness gate "{0}" is not "True", but {1}'


@dataclass(frozen=True)
class PodState:
    """The state of a pod on its node.

    started  time at which its containers were started, None before
    stopped  whether they have ended
    """

    host_ip: str
    pod_ip: str = ""
    started: float | None = None
    stopped: bool = False
    cdi_devices: Mapping[str, list[str]] = field(default_factory=dict)


def is_terminal(pod: Obj) -> bool:
    """Report whether a pod has succeeded or failed."""
    return pod.get("status", {}).get("phase") in TERMINAL_PHASES


class PodStatusWriter:
    """Makes the status of pods. `health` returns the `allocatedResourcesStatus` of a container, [] if none is known."""

    def __init__(self, gates: Gates, health: Callable[[Obj, Obj], list[Obj]]) -> None:
        self._gates = gates
        self._health = health

    def patch(self, pod: Obj, state: PodState, now: float) -> Obj | None:
        """Return the strategic merge patch that makes the status of a pod that of a state, None if it is so already."""
        old: Obj = pod.get("status", {})
        new = self.status(pod, state, now)
        status: dict[str, Any] = {key: value for key, value in new.items() if old.get(key) != value}
        if "conditions" in status:
            conditions = {condition["type"]: condition for condition in old.get("conditions") or ()}
            changed = [c for c in new["conditions"] if conditions.get(c["type"]) != c]
            order = [{"type": c["type"]} for c in new["conditions"]]
            status["conditions"] = [{**dict.fromkeys(conditions.get(c["type"], ())), **c} for c in changed]
            if [c["type"] for c in old.get("conditions") or ()] != [c["type"] for c in new["conditions"]]:
                status["$setElementOrder/conditions"] = order
        for key in _IP_LISTS & status.keys():  # they are merged by address: the old ones have to be named
            gone = [{**entry, "$patch": "delete"} for entry in old.get(key) or () if entry not in new[key]]
            status[key] = [*gone, *new[key]]
        metadata: dict[str, Any] = {"uid": pod["metadata"]["uid"]}
        note = encode(dict(state.cdi_devices)).decode() if state.cdi_devices else None
        if note and (pod["metadata"].get("annotations") or {}).get(CDI_ANNOTATION) != note:
            metadata["annotations"] = {CDI_ANNOTATION: note}
        if not status and len(metadata) == 1:
            return None
        return {"metadata": metadata, **({"status": status} if status else {})}

    def status(self, pod: Obj, state: PodState, now: float) -> Obj:
        """Return the status of a pod, without the fields that others write."""
        old: Obj = pod.get("status", {})
        phase = "Pending" if state.started is None else "Running"
        if is_terminal(pod):
            phase = old["phase"]
        elif state.stopped:
            phase = "Succeeded" if state.started is not None else "Failed"
        status: Obj = {"phase": phase, "hostIP": state.host_ip, "hostIPs": [{"ip": state.host_ip}]}
        pod_ip = state.host_ip if pod["spec"].get("hostNetwork") else state.pod_ip
        if pod_ip:
            status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
        status["startTime"] = old.get("startTime") or timestamp(now)
        if self._gates[features.POD_OBSERVED_GENERATION_TRACKING]:
            status["observedGeneration"] = pod["metadata"]["generation"]
        spec = pod["spec"]
        for group, key in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
            if spec.get(group):
                status[key] = [self._container(pod, container, group, state, now) for container in spec[group]]
        status["conditions"] = self._conditions(pod, state, phase, now)
        return status

    # --- containers

    def _container(self, pod: Obj, container: Obj, group: str, state: PodState, now: float) -> Obj:
        """Return the status of one container."""
        is_init = group == "initContainers" and container.get("restartPolicy") != "Always"
        status: Obj = {
            "name": container["name"],
            "state": {},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": "",
            "started": False,
        }
        if state.started is None:
            waiting = "PodInitializing" if pod["spec"].get("initContainers") and group == "containers" else None
            return {**status, "state": {"waiting": {"reason": waiting or "ContainerCreating"}}}
        began, container_id = timestamp(state.started), container_id_of(pod, container)
        status["containerID"] = container_id
        if is_init or state.stopped:
            ended = began if is_init else timestamp(now)
            status["state"] = {"terminated": _terminated(container_id, began, ended)}
            status["ready"] = is_init
        else:
            status |= {"state": {"running": {"startedAt": began}}, "ready": True, "started": True}
        if self._gates[features.IN_PLACE_POD_VERTICAL_SCALING]:
            resources = container.get("resources") or {}
            if resources.get("requests"):
                status["allocatedResources"] = resources["requests"]
            status["resources"] = resources
        if self._gates[features.RESOURCE_HEALTH_STATUS] and (health := self._health(pod, container)):
            status["allocatedResourcesStatus"] = health
        return status

    # --- conditions

    def _conditions(self, pod: Obj, state: PodState, phase: str, now: float) -> list[Obj]:
        """Return all conditions, those of others first. One that stays as it is keeps its time."""
        old = {condition["type"]: condition for condition in pod.get("status", {}).get("conditions") or ()}
        mine = self._own_conditions(pod, state, phase, old)
        generation = pod["metadata"].get("generation")
        conditions = [condition for name, condition in old.items() if name not in mine]
        for name, (status, reason, message) in mine.items():
            condition: Obj = {"type": name, "status": status, "lastProbeTime": None}
            if name in old and old[name]["status"] == status:
                condition["lastTransitionTime"] = old[name].get("lastTransitionTime")
            else:
                condition["lastTransitionTime"] = timestamp(now)
            if reason:
                condition["reason"] = reason
            if message:
                condition["message"] = message
            if self._gates[features.POD_OBSERVED_GENERATION_TRACKING]:
                condition["observedGeneration"] = generation
            conditions.append(condition)
        return conditions

    def _own_conditions(
        self, pod: Obj, state: PodState, phase: str, old: Mapping[str, Obj]
    ) -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message of the kubelet's conditions."""
        running = state.started is not None and not state.stopped and phase == "Running"
        spec = pod["spec"]
        true = ("True", "", "")
        conditions: dict[str, tuple[str, str, str]] = {}
        if self._gates[features.POD_READY_TO_START_CONTAINERS_CONDITION]:
            conditions["PodReadyToStartContainers"] = true if running else ("False", "", "")
        init = [container["name"] for container in spec.get("initContainers") or ()]
        if phase == "Succeeded":
            conditions["Initialized"] = ("True", "PodCompleted", "")
        elif init and state.started is None:
            message = f"containers with incomplete status: [{' '.join(init)}]"
            conditions["Initialized"] = ("False", "ContainersNotInitialized", message)
        else:
            conditions["Initialized"] = true
        if phase in TERMINAL_PHASES:
            containers_ready = ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed", "")
        elif not running:
            restartable = [c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
            names = [*restartable, *(container["name"] for container in spec["containers"])]
            message = f"containers with unready status: [{' '.join(names)}]"
            containers_ready = ("False", "ContainersNotReady", message)
        else:
            containers_ready = true
        unmet = _unmet_readiness_gates(pod, old)
        if containers_ready == true and unmet:
            conditions["Ready"] = ("False", "ReadinessGatesNotReady", ", ".join(unmet))
        else:
            conditions["Ready"] = containers_ready
        conditions["ContainersReady"] = containers_ready
        conditions["PodScheduled"] = true
        return conditions


def container_id_of(pod: Obj, container: Obj) -> str:
    """Return the made-up id of a container, the same for as long as the pod lives."""
    name = f"{pod['metadata']['uid']}/{container['name']}"
    return f"understudy://{hashlib.sha256(name.encode()).hexdigest()}"


def _terminated(container_id: str, began: str, ended: str) -> Obj:
    return {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": began,
        "finishedAt": ended,
        "containerID": container_id,
    }


def _unmet_readiness_gates(pod: Obj, conditions: Mapping[str, Obj]) -> list[str]:
    """Return messages about the readiness gates of a pod that are not met. Upstream: `GeneratePodReadyCondition`."""
    messages = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        if name not in conditions:
            messages.append(_READINESS_GATE_MISSING.format(name))
        elif conditions[name]["status"] != "True":
            messages.append(_READINESS_GATE_UNMET.format(name, conditions[name]["status"]))
    return messages
