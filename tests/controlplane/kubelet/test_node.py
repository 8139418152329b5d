"""The Node of a kubelet and its lease."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.kubelet.conftest import NODE, Cluster
from tests.waiting import until
from understudy.controlplane.client.resources import NODES
from understudy.controlplane.kubelet.node import LEASE_NAMESPACE, LEASES, declared_features
from understudy.controlplane.kubelet.pods import PodIPs
from understudy.controlplane.kubelet.sandboxes import Sandbox, Sandboxes
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_35, V1_36, V1_37, Version
from understudy.machinery.types import Obj

DECLARED = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
]


async def test_node_is_registered(cluster: Cluster) -> None:
    """`register_node` creates the Node: ready, with labels, capacity and addresses, and open for pods."""
    await cluster.client.delete(NODES, NODE)
    async with cluster.kubelet(register_node=True):
        node = await cluster.client.get(NODES, NODE)
    assert node["spec"] == {}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
    conditions = {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}
    assert conditions == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    assert node["status"]["allocatable"]["pods"] == "110"
    assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{cluster.release}.0"
    gates = Gates.of(cluster.release)
    assert node["status"].get("declaredFeatures") == declared_features(cluster.release, gates).get("declaredFeatures")
    assert [entry["type"] for entry in node["status"]["addresses"]] == ["InternalIP", "Hostname"]


@pytest.mark.parametrize(
    ("version", "on", "declared"),
    [
        (
            V1_37,
            [],
            DECLARED,
        ),
        (
            V1_37,
            ["DRANodeAllocatableResources", "DRAOptionalNodeOperations", "VolumeBindMountOptions"],
            ["DRANodeAllocatableResources", "DRAOptionalNodeOperations", *DECLARED],
        ),
        (V1_36, ["DRANodeAllocatableResources"], DECLARED),
        (V1_35, ["NodeDeclaredFeatures"], ["GuaranteedQoSPodCPUResize"]),
        (V1_35, [], None),
    ],
)
def test_node_declares_features(version: Version, on: list[str], declared: list[str] | None) -> None:
    """The kubelet declares those features that its gates decide, as upstream's does; 1.35 does so with a gate."""
    gates = Gates.of(version, dict.fromkeys(on, True))
    assert declared_features(version, gates).get("declaredFeatures") == declared


async def test_node_that_exists_keeps_its_capacity(cluster: Cluster) -> None:
    """A Node that is there becomes ready, with the capacity and the taints that somebody gave it."""
    taint = {"key": "example.com/mine", "effect": "NoSchedule"}
    tainted = await cluster.client.get(NODES, NODE)
    assert [taint["key"] for taint in tainted["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
    await cluster.client.patch(NODES, NODE, {"spec": {"taints": [*tainted["spec"]["taints"], taint]}})
    status = {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "63"}}
    await cluster.client.patch(NODES, NODE, {"status": status}, subresource="status")
    async with cluster.kubelet(register_node=True):
        node = await cluster.client.get(NODES, NODE)
    assert (node["status"]["capacity"], node["status"]["allocatable"]) == ({"cpu": "64"}, {"cpu": "63"})
    assert node["spec"]["taints"] == [taint]
    assert "Ready" in [condition["type"] for condition in node["status"]["conditions"]]


async def test_kubelet_says_why_no_pods_come(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """A kubelet that does not register its node says if that is missing, or tainted as not ready."""
    async with cluster.kubelet():
        assert "node node-1 has the taint node.kubernetes.io/not-ready" in caplog.text
    await cluster.client.delete(NODES, NODE)
    async with cluster.kubelet():
        assert "there is no node node-1" in caplog.text


async def test_lease_is_renewed(cluster: Cluster) -> None:
    """The lease of the node is held by it and renewed, by the next kubelet too; its owner is the Node."""

    async def renewed(since: str) -> str:
        async def leases() -> list[Obj]:
            listed = await cluster.client.list(LEASES, LEASE_NAMESPACE)
            return [lease for lease in listed["items"] if lease["spec"]["renewTime"] > since]

        (lease,) = await until(leases)
        assert lease["spec"]["holderIdentity"] == NODE
        assert lease["metadata"]["ownerReferences"][0]["name"] == NODE
        return str(lease["spec"]["renewTime"])

    async with cluster.kubelet():
        first = await renewed("")
    async with cluster.kubelet():
        await renewed(first)


def test_addresses_of_pods() -> None:
    """Addresses are given out in order, those in use left out, and again when their pods are gone."""
    addresses = PodIPs("10.0.0.0/29")
    assert [addresses.take({"10.0.0.2"}) for _ in range(2)] == ["10.0.0.1", "10.0.0.3"]
    assert [addresses.take(set()) for _ in range(4)] == ["10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.1"]


def test_running_pods_survive_a_restart_but_no_reboot(root: Path) -> None:
    """Running pods are kept in folders, with the boot id of the machine; the folder of one that ends is removed."""
    sandboxes = Sandboxes(root, "1")
    for uid in ("a", "b"):
        sandboxes.start(uid, Sandbox("10.0.0.1", 1.5))
    sandboxes.stop("b")
    assert [Sandboxes(root, "1").get(uid) for uid in ("a", "b")] == [Sandbox("10.0.0.1", 1.5), None]
    assert Sandboxes(root, "2").get("a") is None
    assert [folder.name for folder in (root / "pods").iterdir()] == ["a"]
