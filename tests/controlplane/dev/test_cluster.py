"""`understudy dev`, from a template to a prepared device and back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="kubelets need the extra `kubelet`")

from tests.controlplane.kubelet.driver import Driver
from tests.releases import NEWEST
from understudy import Server
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.dev.cluster import CONTROLLERS, Cluster

Obj = dict[str, Any]
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
    "pod default/p: created",
    "created from a template for pod p",
    "allocated gpu-0 of pool pool (gpu.example.com)",
    "reserved for pod p",
    "pod default/p: bound to node n1",
    "prepared by gpu.example.com",
    "pod default/p: running",
    "pod default/p: is being deleted",
    "unprepared by gpu.example.com",
    "pod default/p: deleted",
    "no longer reserved for pod p",
    "deallocated, gpu-0 of pool pool (gpu.example.com) given back",
    ": deleted",
]


async def test_account_of_a_claim() -> None:
    """A pod with a template runs on a device that its driver has prepared; when it goes, all is undone."""
    lines: list[str] = []

    async def told(text: str) -> None:
        async with asyncio.timeout(20):
            while not any(text in line for line in lines):
                await asyncio.sleep(0.02)

    with tempfile.TemporaryDirectory(prefix="dev-") as folder:
        root = Path(folder)
        async with Server(emulated_version=str(NEWEST), controllers=CONTROLLERS, load=WORLD) as server:
            running = asyncio.create_task(Cluster(server, root, lines.append).run())
            await told("kubelet looks for drivers in")
            async with Driver(root / "n1") as driver, APIClient(Connection(url=server.url), "test") as client:
                await driver.registered()
                await client.create(PODS, POD, "default")
                await told("pod default/p: running")
                await client.delete(PODS, "p", "default", grace_period=0)
                await told("given back")
                await told(": deleted")
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    for step in STEPS:
        assert any(step in line for line in lines), step
    assert [call.split()[0] for call in driver.calls] == ["prepare", "unprepare"]
