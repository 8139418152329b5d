"""The status of a pod on its way from pending to its end."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.controlplane.kubelet.pod_status import PodState, PodStatusWriter
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_32, V1_36, Version
from understudy.machinery.types import Obj
from understudy.machinery.util.clock import parse_timestamp

NOW = parse_timestamp("2026-01-01T00:00:10Z")
EARLIER = parse_timestamp("2026-01-01T00:00:00Z")
PENDING = PodState("192.0.2.1")
RUNNING = PodState("192.0.2.1", "10.0.0.7", EARLIER, cdi_devices={"c": ["a/b=c"]})
STOPPED = PodState("192.0.2.1", "10.0.0.7", EARLIER, stopped=True)
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def pod(spec: Obj | None = None, status: Obj | None = None) -> Obj:
    metadata = {"name": "p", "namespace": "default", "uid": "u", "generation": 2}
    return {"metadata": metadata, "spec": {"containers": [CONTAINER], **(spec or {})}, "status": status or {}}


def writer(release: Version = V1_36) -> PodStatusWriter:
    return PodStatusWriter(Gates.of(release), lambda pod, container: [])


def conditions(status: Obj) -> dict[str, tuple[str, ...]]:
    """Return status, reason and message of each condition."""
    return {
        c["type"]: tuple(filter(None, (c["status"], c.get("reason"), c.get("message")))) for c in status["conditions"]
    }


def test_pending() -> None:
    """Before its claims are prepared, a pod's containers are being created."""
    status = writer().status(pod(), PENDING, NOW)
    assert {key: value for key, value in status.items() if key not in ("containerStatuses", "conditions")} == {
        "phase": "Pending",
        "hostIP": "192.0.2.1",
        "hostIPs": [{"ip": "192.0.2.1"}],
        "startTime": "2026-01-01T00:00:10Z",
        "observedGeneration": 2,
    }
    assert status["containerStatuses"] == [
        {
            "name": "c",
            "state": {"waiting": {"reason": "ContainerCreating"}},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "i",
            "imageID": "",
            "started": False,
        }
    ]
    not_ready = ("False", "ContainersNotReady", "containers with unready status: [c]")
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False",),
        "Initialized": ("True",),
        "Ready": not_ready,
        "ContainersReady": not_ready,
        "PodScheduled": ("True",),
    }


def test_running() -> None:
    """A pod whose claims are prepared runs at once; all its conditions are true."""
    status = writer().status(pod(), RUNNING, NOW)
    (container,) = status["containerStatuses"]
    assert (status["phase"], status["podIP"], status["podIPs"]) == ("Running", "10.0.0.7", [{"ip": "10.0.0.7"}])
    assert container["state"] == {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    assert container["allocatedResources"] == {"cpu": "1"}
    assert set(conditions(status).values()) == {("True",)}


@pytest.mark.parametrize(
    ("state", "old", "phase"),
    [
        (STOPPED, {}, "Succeeded"),
        (PodState("192.0.2.1", stopped=True), {}, "Failed"),
        (STOPPED, {"phase": "Failed"}, "Failed"),
    ],
    ids=["ran", "never ran", "set by somebody"],
)
def test_ended(state: PodState, old: Obj, phase: str) -> None:
    """A pod that ran has succeeded, one that never did has failed, and a phase that somebody set stays."""
    status = writer().status(pod(status=old), state, NOW)
    assert status["phase"] == phase
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    assert conditions(status)["Ready"] == ("False", reason)
    assert conditions(status)["PodReadyToStartContainers"] == ("False",)


def test_init_containers() -> None:
    """Init containers have ended when a pod runs, sidecars run with it; before, the others wait for them."""
    init = [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}]
    pending = writer().status(pod({"initContainers": init}), PENDING, NOW)
    assert conditions(pending)["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [i s]",
    )
    assert pending["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    running = writer().status(pod({"initContainers": init}), RUNNING, NOW)
    first, sidecar = running["initContainerStatuses"]
    assert [first["state"]["terminated"]["exitCode"], list(sidecar["state"])] == [0, ["running"]]


def test_host_network() -> None:
    """A pod in the network of its node has that address."""
    assert writer().status(pod({"hostNetwork": True}), RUNNING, NOW)["podIP"] == "192.0.2.1"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, 'corresponding condition of pod readiness gate "g" does not exist.'),
        ("False", 'the status of pod readiness gate "g" is not "True", but False'),
        ("True", ""),
    ],
)
def test_readiness_gates(status: str | None, expected: str) -> None:
    """A pod is ready once the conditions of its readiness gates are true; others write them."""
    old: Obj = {"conditions": [{"type": "g", "status": status}] if status else []}
    made = writer().status(pod({"readinessGates": [{"conditionType": "g"}]}, old), RUNNING, NOW)
    ready = ("False", "ReadinessGatesNotReady", expected) if expected else ("True",)
    assert conditions(made)["Ready"] == ready
    assert conditions(made)["ContainersReady"] == ("True",)


@pytest.mark.parametrize(("release", "has"), [(V1_32, False), (V1_36, True)], ids=str)
def test_fields_of_gates(release: Version, has: bool) -> None:
    """Generations and resources are in the status where the release has their gates on."""
    status = writer(release).status(pod(), RUNNING, NOW)
    assert ("observedGeneration" in status) == has
    assert ("observedGeneration" in status["conditions"][0]) == has
    assert ("resources" in status["containerStatuses"][0]) == has


def test_patch_has_what_changes() -> None:
    """The patch holds the fields and conditions that change and the uid; no patch is made if nothing does."""
    pending = writer().status(pod(), PENDING, EARLIER)
    patch: Any = writer().patch(pod(status=pending), RUNNING, NOW)
    assert sorted(patch["status"]) == ["conditions", "containerStatuses", "phase", "podIP", "podIPs"]
    assert [c["type"] for c in patch["status"]["conditions"]] == [
        "PodReadyToStartContainers",
        "Ready",
        "ContainersReady",
    ]
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:10Z"
    assert patch["metadata"] == {"uid": "u", "annotations": {"understudy.dev/cdi-devices": '{"c":["a/b=c"]}'}}
    running = pod(status=writer().status(pod(status=pending), RUNNING, NOW))
    running["metadata"]["annotations"] = patch["metadata"]["annotations"]
    assert writer().patch(running, RUNNING, NOW + 60) is None


def test_addresses_are_replaced() -> None:
    """A pod that gets another address, after a reboot, has the old one no more."""
    old = writer().status(pod(), RUNNING, NOW)
    patch: Any = writer().patch(pod(status=old), PodState("192.0.2.1", "10.0.0.8", NOW), NOW)
    assert patch["status"]["podIPs"] == [{"ip": "10.0.0.7", "$patch": "delete"}, {"ip": "10.0.0.8"}]
