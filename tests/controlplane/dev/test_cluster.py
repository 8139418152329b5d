"""`understudy dev`, from a template to a prepared device and back."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="kubelets need the extra `kubelet`")

from tests.releases import NEWEST
from tests.waiting import running, until
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import PODS, resource_slices
from understudy.controlplane.dev.cluster import Cluster
from understudy.controlplane.dev.controllers import controllers_of
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_34
from understudy.machinery.types import Obj
from understudy.testing import FakeDriver

API = "resource.k8s.io/v1"
EXACTLY = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
POOL = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
SLICE = {"nodeName": "n1", "driver": "gpu.example.com", "pool": POOL, "devices": [{"name": "gpu-0"}]}
CONTAINER = {"name": "c", "image": "i", "resources": {"claims": [{"name": "x"}]}}
WORLD: list[Obj] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
    {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": SLICE},
    {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": EXACTLY}]}}},
    },
]
POD = {
    "metadata": {"name": "p"},
    "spec": {"containers": [CONTAINER], "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "one"}]},
}
STEPS = [
    ("pod default/p: created",),
    ("claim default/p-x-", "created from a template for pod p"),
    ("claim default/p-x-", "allocated gpu-0 of pool pool (gpu.example.com)"),
    ("claim default/p-x-", "reserved for pod p"),
    ("pod default/p: bound to node n1",),
    ("claim default/p-x-", "prepared by gpu.example.com"),
    ("pod default/p: running",),
    ("pod default/p: is being deleted",),
    ("claim default/p-x-", "unprepared by gpu.example.com"),
    ("pod default/p: deleted",),
    ("claim default/p-x-", "no longer reserved for pod p"),
    ("claim default/p-x-", "deallocated, gpu-0 of pool pool (gpu.example.com) given back"),
    ("claim default/p-x-", ": deleted"),
]


@dataclass
class Development:
    """A running cluster: the lines of its account, a client, and the driver of node n1, which is registered."""

    lines: list[str]
    client: APIClient
    driver: FakeDriver

    async def told(self, *texts: str) -> None:
        """Wait for a line that holds all these texts."""
        await until(lambda: self.lines, lambda lines: any(all(text in line for text in texts) for line in lines))


@asynccontextmanager
async def development() -> AsyncIterator[Development]:
    """Run a server, its controllers and the kubelet of node n1."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dev-") as folder:
        root = Path(folder)
        controllers = controllers_of(Gates.of(NEWEST), [])
        async with (
            Server(emulated_version=str(NEWEST), controllers=controllers, load=WORLD) as server,
            running(Cluster(server, root, lines.append).run()),
            FakeDriver(root / "n1") as driver,
            APIClient(Connection(url=server.url), "test") as client,
        ):
            await driver.registered()
            yield Development(lines, client, driver)


async def test_account_of_a_claim() -> None:
    """A pod with a template runs on a device that its driver has prepared; when it goes, all is undone."""
    async with development() as dev:
        await dev.client.create(PODS, POD, "default")
        await dev.told("pod default/p: running")
        await dev.client.delete(PODS, "p", "default", grace_period=0)
        for texts in STEPS:
            await dev.told(*texts)
    assert [call.split()[0] for call in dev.driver.calls] == ["prepare", "unprepare"]


async def test_pod_leaves_a_tainted_device() -> None:
    """A driver taints a device that is in use: its pod is evicted, and the claim is unprepared and gives it back.

    A pod that comes afterwards waits, and is told which device has the taint, until the taint is gone.
    """
    slices = resource_slices(NEWEST)
    taint = {"key": "gpu.example.com/broken", "effect": "NoExecute"}
    async with development() as dev:
        await dev.client.create(PODS, POD, "default")
        await dev.told("pod default/p: running")
        await dev.client.patch(slices, "s", {"spec": {"devices": [{"name": "gpu-0", "taints": [taint]}]}})
        await dev.told("unprepared by gpu.example.com")
        await dev.told("gpu-0 of pool pool (gpu.example.com) given back")
        await dev.client.create(PODS, {**POD, "metadata": {"name": "late"}}, "default")
        await dev.told("pod default/late: waits: 0/1 nodes are available: 1 cannot allocate all claims")
        await dev.told("gpu.example.com/broken")
        await dev.client.patch(slices, "s", {"spec": {"devices": [{"name": "gpu-0"}]}})
        await dev.told("pod default/late: running")
    assert [call.split()[0] for call in dev.driver.calls] == ["prepare", "unprepare", "prepare"]


def test_controllers_of_a_release() -> None:
    """Device taint eviction runs where its feature gate is on; controllers of the command line run as well, once."""
    assert "device-taint-eviction" in controllers_of(Gates.of(NEWEST), [])
    assert "device-taint-eviction" not in controllers_of(Gates.of(V1_34), [])
    assert "device-taint-eviction" in controllers_of(Gates.of(V1_34, {"DRADeviceTaints": True}), [])
    names = controllers_of(Gates.of(NEWEST), ["clusterrole-aggregation", "namespace-controller"])
    assert "clusterrole-aggregation" in names
    assert names.count("namespace") == 1


def test_cluster_has_what_people_expect() -> None:
    """Namespaces are emptied, get their service account and the root authority, and dependents follow their owners."""
    expected = {"namespace", "garbage-collector", "serviceaccount", "root-ca-certificate-publisher"}
    assert expected <= set(controllers_of(Gates.of(V1_34), []))
