"""The worlds that understudy brings along, with its own controllers: pods get nodes, claims get devices."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.program import PROGRAM
from tests.releases import RELEASES
from tests.waiting import PATIENCE, wait_until
from understudy import Server


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_pods_of_the_gpu_cluster_are_scheduled(release: object) -> None:
    """Loaded nodes are usable as soon as a scheduler is asked for: all pods have a node, all claims are allocated."""
    options: dict[str, Any] = {
        "emulated_version": str(release),
        "load": "gpu-cluster",
        "controllers": ["scheduler", "resourceclaim"],
    }
    with Server(**options) as server:
        pods = wait_until(
            lambda: {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in server.list("pods")},
            lambda nodes: len(nodes) == 3 and all(nodes.values()),
        )
        assert pods["infer-1"] == pods["infer-2"]  # which share a claim
        claims = server.list("resourceclaims")
        assert [bool(claim["status"].get("allocation")) for claim in claims] == [True, True]


def test_scheduler_says_which_nodes_get_no_pods() -> None:
    """A scheduler beside a server without node-lifecycle says at its start which nodes are tainted, and who helps."""
    for controllers, expected in (([], "from node-1, node-2: "), (["node-lifecycle"], "")):
        with Server(load="gpu-cluster", controllers=controllers) as server:
            if controllers:
                wait_until(lambda: server.list("nodes"), lambda nodes: not any(node["spec"] for node in nodes))
            command = [*PROGRAM, "controllers", "--server", server.url, "--controllers", "scheduler"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                assert process.stdout is not None
                assert "scheduler" in process.stdout.readline()
            finally:
                process.terminate()
                _, said = process.communicate(timeout=PATIENCE)
        assert expected in said
        assert ("--controllers=node-lifecycle" in said) == bool(expected)
