"""Cells of tables that depend on a status or on the time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.releases import NEWEST
from understudy.apiserver.serving.release import Release
from understudy.kinds.batch.strategy import behaviors as batch
from understudy.kinds.common.printers import human_duration
from understudy.kinds.core.nodes.strategy import behaviors as nodes
from understudy.kinds.core.pods import pod_table
from understudy.kinds.core.pods.strategies.pods import delete_grace
from understudy.machinery.releases.version import V1_33, V1_34, V1_35, V1_36, Version
from understudy.machinery.util.clock import parse_timestamp

CREATED = {"creationTimestamp": "2020-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400, "2y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_duration_has_two_units_when_short(seconds: int, text: str) -> None:
    """A short duration has two units, a long one only the largest."""
    assert human_duration(seconds) == text


def container(name: str, ready: bool = True, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


def pod(
    *containers: dict[str, Any], init: Any = (), spec: Any = None, meta: Any = None, **status: Any
) -> dict[str, Any]:
    names = [{"name": c["name"]} for c in containers]
    return {
        "metadata": {"name": "p", **CREATED, **(meta or {})},
        "spec": {"containers": names, "initContainers": [{"name": c["name"]} for c in init], **(spec or {})},
        "status": {"containerStatuses": list(containers), "initContainerStatuses": list(init), **status},
    }


RUNNING: dict[str, Any] = {"running": {"startedAt": "2020-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        (pod(phase="Pending"), "0/0", "Pending"),
        (pod(phase="Failed", reason="Evicted"), "0/0", "Evicted"),
        (pod(container("a", **RUNNING), phase="Running"), "1/1", "Running"),
        (
            pod(container("a", False, waiting={"reason": "CrashLoopBackOff"}), phase="Running"),
            "0/1",
            "CrashLoopBackOff",
        ),
        (pod(container("a", False, terminated={"reason": "Error", "exitCode": 1}), phase="Failed"), "0/1", "Error"),
        (pod(container("a", False, terminated={"exitCode": 3}), phase="Failed"), "0/1", "ExitCode:3"),
        (pod(container("a", False, terminated={"exitCode": 3, "signal": 9}), phase="Failed"), "0/1", "Signal:9"),
        (
            pod(container("a", False, waiting={}), init=[container("i", False, **RUNNING)], phase="Pending"),
            "0/1",
            "Init:0/1",
        ),
        (pod(container("a", **RUNNING), meta={"deletionTimestamp": "2020-01-01T00:00:00Z"}), "1/1", "Terminating"),
    ],
)
def test_pod_status_prefers_its_containers(pod: dict[str, Any], ready: str, status: str) -> None:
    """READY and STATUS of a pod come from its containers before they come from its phase."""
    cells = pod_table.row(pod, 0, NEWEST)
    assert (cells[1], cells[2]) == (ready, status)


def test_node_roles_and_status() -> None:
    """Roles of a node come from labels, its status from the Ready condition and from `unschedulable`."""
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "old"}
    node = {
        "metadata": {"name": "n", **CREATED, "labels": labels},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.32.0"}},
    }
    row = nodes(NEWEST)["", "Node"].table_row
    assert row is not None
    assert row(node, 0)[:3] == ["n", "Ready,SchedulingDisabled", "old,worker"]


def test_finished_job_has_a_fixed_duration() -> None:
    """The duration of a finished job does not grow."""
    job = {
        "metadata": {"name": "j", **CREATED},
        "spec": {"completions": 1, "template": {"spec": {}}},
        "status": {
            "succeeded": 1,
            "startTime": "2020-01-01T00:00:00Z",
            "completionTime": "2020-01-01T00:01:30Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        },
    }
    row = batch(NEWEST)["batch", "Job"].table_row
    assert row is not None
    assert row(job, 0)[1:4] == ["Complete", "1/1", "90s"]


COMPLETED: dict[str, Any] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED: dict[str, Any] = {"terminated": {"exitCode": 1, "reason": "Error"}}
DEFAULT = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
ALPHA_DEFAULT = {"annotations": {"volumeattributesclass.alpha.kubernetes.io/is-default-class": "true"}}
QUOTA = {"hard": {"limits.cpu": "2", "pods": "3"}, "used": {"pods": "1"}}
MET = {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}
NODE_INFO = {"nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64"}}


@pytest.mark.parametrize(
    ("since", "kind", "obj", "column", "cell", "earlier"),
    [
        (V1_33, "/ResourceQuota", {"status": QUOTA}, 1, "pods: 1/3", "2s"),
        (V1_33, "/ResourceQuota", {"status": QUOTA}, 3, "2s", "limits.cpu: 0/2"),
        (V1_34, "batch/Job", {"status": MET}, 1, "SuccessCriteriaMet", "Running"),
        (V1_34, "storage.k8s.io/VolumeAttributesClass", {"metadata": ALPHA_DEFAULT}, 0, "n", "n (default)"),
        (V1_35, "/Pod", pod(container("a", **COMPLETED), container("b", **FAILED)), 2, "Error", "Completed"),
        (V1_36, "networking.k8s.io/IngressClass", {"metadata": DEFAULT}, 0, "n (default)", "n"),
        (V1_36, "/Node", {"status": NODE_INFO}, 8, "6.1 (amd64)", "6.1"),
    ],
)
def test_cells_that_changed_with_a_release(
    since: Version, kind: str, obj: dict[str, Any], column: int, cell: str, earlier: str
) -> None:
    """The cells of some kinds have other values, or another order, since a release."""
    group, _, name = kind.partition("/")
    named = {**obj, "metadata": {**CREATED, **obj.get("metadata", {}), "name": "n"}}
    for release, expected in ((since, cell), (since.previous, earlier)):
        served = Release.of(release).kind(group, name)
        assert served is not None
        row = served.behavior.table_row
        assert row is not None
        assert row(named, parse_timestamp(CREATED["creationTimestamp"]) + 2)[column] == expected


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        ({}, "Running", None, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, "Running", None, 30),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, "Running", 5, 5),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, "Succeeded", 5, 0),
        ({"nodeName": "n", "terminationGracePeriodSeconds": -1}, "Running", None, 1),
    ],
)
def test_grace_period_of_a_deleted_pod(spec: dict[str, Any], phase: str, asked: int | None, seconds: int) -> None:
    """Only pods that a kubelet still has to stop get a grace period."""
    assert delete_grace({"spec": spec, "status": {"phase": phase}}, asked) == seconds
