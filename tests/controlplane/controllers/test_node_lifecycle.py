"""Taints and labels of nodes: as kube-controller-manager 1.32 and 1.36 made them of the same nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http import send
from tests.waiting import wait_until
from understudy import Server
from understudy.machinery.types import Obj

NODES = "/api/v1/nodes"
PREFIX = "node.kubernetes.io/"
OLD = {"key": "old", "effect": "NoSchedule"}
MERGE = {"Content-Type": "application/merge-patch+json"}
pytestmark = pytest.mark.apiserver(controllers=["node-lifecycle-controller"])


def conditions(**statuses: str) -> Obj:
    return {"conditions": [{"type": type_, "status": status} for type_, status in statuses.items()]}


def create(server: Server, spec: Obj | None = None, status: Obj | None = None, **metadata: Any) -> None:
    node = {"metadata": {"name": "n", **metadata}, "spec": spec or {}, "status": status or {}}
    assert send(server, "POST", NODES, node).status == 201


def taints(server: Server) -> list[tuple[str, str]]:
    """Return the keys of the node's taints, without their common prefix, and their effects."""
    found = server.get("Node", "n")["spec"].get("taints") or ()
    return [(taint["key"].removeprefix(PREFIX), taint["effect"]) for taint in found]


def settled(server: Server, *keys: str) -> None:
    """Wait until the node has these taints, all with the effect NoSchedule."""
    wait_until(lambda: taints(server), lambda found: found == [(key, "NoSchedule") for key in keys])


@pytest.mark.parametrize(
    ("spec", "status", "keys"),
    [
        ({}, {}, []),
        ({}, conditions(Ready="True"), []),
        ({}, conditions(Ready="False"), ["not-ready"]),
        ({"taints": [OLD]}, conditions(Ready="Unknown"), ["old", "unreachable"]),
        (
            {},
            conditions(Ready="True", MemoryPressure="True", DiskPressure="True", PIDPressure="True"),
            ["memory-pressure", "disk-pressure", "pid-pressure"],
        ),
        ({}, conditions(NetworkUnavailable="True", DiskPressure="False"), ["network-unavailable"]),
        ({"unschedulable": True}, {}, ["unschedulable"]),
        ({"taints": [{"key": f"{PREFIX}memory-pressure", "effect": "NoSchedule"}, OLD]}, {}, ["old"]),
    ],
)
def test_conditions_make_the_taints(apiserver: Server, spec: Obj, status: Obj, keys: list[str]) -> None:
    """A new node loses the taint that admission gave it, unless its conditions ask for it; others come with them."""
    create(apiserver, spec, status)
    settled(apiserver, *keys)


def test_taints_follow_the_node(apiserver: Server) -> None:
    """A cordon and a condition that changes come with a taint, which has the time, and go with it."""
    create(apiserver, {}, conditions(Ready="True"))
    settled(apiserver)
    send(apiserver, "PATCH", f"{NODES}/n", {"spec": {"unschedulable": True}}, headers=MERGE)
    settled(apiserver, "unschedulable")
    send(apiserver, "PATCH", f"{NODES}/n/status", {"status": conditions(Ready="False")}, headers=MERGE)
    settled(apiserver, "unschedulable", "not-ready")
    node = apiserver.get("Node", "n")
    assert all(taint["timeAdded"] >= node["metadata"]["creationTimestamp"] for taint in node["spec"]["taints"])
    send(apiserver, "PATCH", f"{NODES}/n", {"spec": {"unschedulable": None}}, headers=MERGE)
    settled(apiserver, "not-ready")
    send(apiserver, "PATCH", f"{NODES}/n/status", {"status": conditions(Ready="True")}, headers=MERGE)
    settled(apiserver)


def test_other_effects_and_keys_stay(apiserver: Server) -> None:
    """Only taints of its keys with the effect NoSchedule are its own."""
    others = [
        {"key": f"{PREFIX}disk-pressure", "effect": "NoExecute"},
        {"key": f"{PREFIX}unschedulable", "effect": "PreferNoSchedule", "value": "v"},
        OLD,
    ]
    create(apiserver, {"taints": others})
    wait_until(lambda: apiserver.get("Node", "n")["spec"]["taints"], lambda found: found == others)


def test_older_labels_and_the_manager(apiserver: Server) -> None:
    """The beta labels of system and architecture have the values of the others; the manager is upstream's."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "wrong"}
    create(apiserver, {"unschedulable": True}, labels=labels)
    settled(apiserver, "unschedulable")
    older = {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}
    wait_until(lambda: apiserver.get("Node", "n")["metadata"]["labels"], lambda found: found == {**labels, **older})
    fields = apiserver.get("Node", "n")["metadata"]["managedFields"]
    [manager] = [entry for entry in fields if entry["manager"] == "kube-controller-manager"]
    assert manager["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:beta.kubernetes.io/arch": {}, "f:beta.kubernetes.io/os": {}}},
        "f:spec": {"f:taints": {}},
    }


def test_node_that_changes_meanwhile(apiserver: Server) -> None:
    """A node that others write at the same time is looked at again, and loses nothing."""
    create(apiserver)
    for i in range(20):
        labels = {"metadata": {"labels": {f"l{i}": "x"}}, "spec": {"unschedulable": i % 2 == 0}}
        assert send(apiserver, "PATCH", f"{NODES}/n", labels, headers=MERGE).status == 200
    settled(apiserver)
    assert len(apiserver.get("Node", "n")["metadata"]["labels"]) == 20
