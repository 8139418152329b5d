"""Table rows of pods: ready containers, status and restarts, as `kubectl get pods` shows them (upstream: `printPod`).

The status is read from the containers; the last reason that is found wins.
"""

from __future__ import annotations

from typing import Any

from understudy.kinds.common.printers import NONE, age, name, since
from understudy.machinery.releases.version import V1_31, V1_35, ByRelease, Version
from understudy.machinery.types import Obj, dataclass, nested_field
from understudy.machinery.util.clock import parse_timestamp


@dataclass(slots=True)
class _Restarts:
    """The restarts of containers, and the time of the last one (RFC 3339, "" for none)."""

    count: int = 0
    last: str = ""

    def add(self, container: Obj) -> None:
        """Add the restarts of a container's status."""
        self.count += container.get("restartCount", 0)
        finished = nested_field(container, "lastState", "terminated", "finishedAt", default="")
        if finished and (not self.last or parse_timestamp(self.last) < parse_timestamp(finished)):
            self.last = finished

    def text(self, now: float) -> str:
        """Return the cell: `3 (5m ago)`."""
        return f"{self.count} ({since(self.last, now)} ago)" if self.count and self.last else str(self.count)


# Whether the status of a container that has failed is shown though another one has completed.
_SHOWS_FAILURE = ByRelease({V1_35: True, V1_31: False})


def row(pod: Obj, now: float, version: Version) -> list[Any]:
    """Return the cells of a pod."""
    ready, total, reason, restarts = _state(pod, version)
    spec, status = pod.get("spec", {}), pod.get("status", {})
    ips = status.get("podIPs") or [{}]
    return [
        name(pod),
        f"{ready}/{total}",
        reason,
        restarts.text(now),
        age(pod, now),
        ips[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def row_conditions(pod: Obj) -> list[Obj]:
    """Return the `conditions` of a TableRow: `Completed` for a finished pod."""
    done = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    phase = nested_field(pod, "status", "phase", default="")
    return [{"type": "Completed", "status": "True", "reason": phase, "message": done[phase]}] if phase in done else []


def _state(pod: Obj, version: Version) -> tuple[int, int, str, _Restarts]:
    """Return (ready containers, containers, status, restarts) of a pod."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {c["name"] for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or []) + len(sidecars)
    reason = _first_reason(status)
    ready, restarts, of_sidecars, waiting = _init_state(spec, status, sidecars)
    if waiting:
        reason = waiting
    if not waiting or _is_true(status, "Initialized"):
        restarts = of_sidecars
        more, reason = _container_state(status, reason, restarts, version)
        ready += more
    return ready, total, _deletion_reason(pod, reason), restarts


def _first_reason(status: Obj) -> str:
    """Return the status before the containers are looked at."""
    gated = any(
        c["type"] == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or []
    )
    return "SchedulingGated" if gated else str(status.get("reason") or status.get("phase") or "")


def _init_state(spec: Obj, status: Obj, sidecars: set[str]) -> tuple[int, _Restarts, _Restarts, str]:
    """Return (ready sidecars, restarts, restarts of sidecars, status of the first unfinished init container or "")."""
    ready, restarts, of_sidecars = 0, _Restarts(), _Restarts()
    for i, container in enumerate(status.get("initContainerStatuses") or []):
        sidecar = container.get("name") in sidecars
        restarts.add(container)
        if sidecar:
            of_sidecars.add(container)
        terminated, waiting = (
            nested_field(container, "state", "terminated"),
            nested_field(container, "state", "waiting", "reason"),
        )
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            return ready, restarts, of_sidecars, f"Init:{_termination_reason(terminated)}"
        if waiting and waiting != "PodInitializing":
            return ready, restarts, of_sidecars, f"Init:{waiting}"
        return ready, restarts, of_sidecars, f"Init:{i}/{len(spec.get('initContainers') or [])}"
    return ready, restarts, of_sidecars, ""


def _container_state(status: Obj, reason: str, restarts: _Restarts, version: Version) -> tuple[int, str]:
    """Return (ready containers, status) of the main containers, and add their restarts to `restarts`."""
    ready, failure = 0, ""
    for container in reversed(status.get("containerStatuses") or []):
        restarts.add(container)
        state = container.get("state") or {}
        waiting, terminated = nested_field(state, "waiting", "reason"), state.get("terminated")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _termination_reason(terminated)
            failure = reason if terminated.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if reason == "Completed":
        if ready and _is_true(status, "Ready"):
            reason = "Running"
        elif failure and _SHOWS_FAILURE[version]:
            reason = failure
        elif ready:
            reason = "NotReady"
    return ready, reason


def _termination_reason(terminated: Obj) -> str:
    """Return the reason of a container's end."""
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"


def _deletion_reason(pod: Obj, reason: str) -> str:
    """Return the status of a pod that may be being deleted."""
    if not pod["metadata"].get("deletionTimestamp"):
        return reason
    if nested_field(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return reason if nested_field(pod, "status", "phase") in ("Succeeded", "Failed") else "Terminating"


def _is_true(status: Obj, condition: str) -> bool:
    """Report whether a condition of the pod has status True."""
    matching = [c for c in status.get("conditions") or [] if c["type"] == condition]
    return bool(matching) and matching[0].get("status") == "True"


def _readiness_gates(spec: Obj, status: Obj) -> str:
    """Return the numbers of readiness gates that are passed and that there are: `1/2`."""
    gates = spec.get("readinessGates") or []
    passed = sum(_is_true(status, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE
