"""The driver that `understudy.testing` offers to tests: it publishes, prepares, fails and waits as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.kubelet.conftest import NODE, Cluster
from tests.releases import every_release
from tests.waiting import until
from understudy import StatusError
from understudy.controlplane.client.resources import PODS, resource_slices
from understudy.machinery.releases.version import V1_34, Version
from understudy.machinery.types import Obj
from understudy.testing import Device, FakeDriver, HealthStatus

TAINT = {"key": "broken", "effect": "NoExecute"}


def driver_for(cluster: Cluster, **options: Any) -> FakeDriver:
    return FakeDriver(cluster.root, server=cluster.client.connection, node=NODE, **options)


async def slices(cluster: Cluster) -> list[Obj]:
    """Return the specs of the slices that the server has."""
    listed = await cluster.client.list(resource_slices(cluster.release))
    return [item["spec"] for item in listed["items"]]


@every_release
async def test_driver_of_each_release(cluster: Cluster, release: Version) -> None:
    """A driver registers with the kubelet of the server's release, publishes devices, and prepares those of claims."""
    async with driver_for(cluster, devices=["gpu-0", {"name": "gpu-1"}]) as driver, cluster.kubelet():
        assert (await driver.registered()).plugin_registered
        [spec] = await until(lambda: slices(cluster))
        assert (spec["driver"], spec["nodeName"], spec["pool"]["name"]) == ("gpu.example.com", NODE, NODE)
        assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1"]
        assert all(("basic" in device) == (release < V1_34) for device in spec["devices"])
        async with driver_for(cluster, name="net.example.com") as other:
            await other.registered()
            await cluster.create_pod("q", "d")
            await cluster.claim("d", "q", drivers=(driver.name, other.name))
            await cluster.reaches("Running", "q")
            for each in (driver, other):
                given = Device(("r",), "pool", "gpu-d", (f"{each.name}/device=gpu-d",))
                assert each.prepared == {"default/d": (given,)}
            await cluster.client.delete(PODS, "q", "default")
            assert await driver.called("unprepare") == "unprepare d"
            await cluster.reaches("", "q")
        assert driver.prepared == {}


async def test_devices_are_published_again(cluster: Cluster) -> None:
    """Other devices are the next generation of the pool; a slice that somebody deletes comes back."""
    async with driver_for(cluster, devices=["gpu-0"]) as driver, cluster.kubelet():
        await until(lambda: slices(cluster))
        stored = await driver.publish([{"name": "gpu-0", "taints": [TAINT]}])
        generation = stored["spec"]["pool"]["generation"]
        assert generation >= 2  # 3 if the kubelet has deleted the slices that were there when it began
        assert stored["spec"]["devices"][0]["taints"][0]["key"] == "broken"
        await cluster.client.delete(resource_slices(cluster.release), stored["metadata"]["name"])
        [spec] = await until(lambda: slices(cluster))
        assert (spec["pool"]["generation"], len(spec["devices"])) == (generation + 1, 1)
    assert await slices(cluster)  # a driver that stops leaves its slice to the kubelet


async def test_slice_that_was_there_before(cluster: Cluster) -> None:
    """A driver that comes back goes on with the generations of its pool."""
    async with driver_for(cluster) as driver:
        await driver.publish(["gpu-0"])
    async with driver_for(cluster) as driver:
        assert (await driver.publish(["gpu-0"]))["spec"]["pool"]["generation"] == 2


async def test_errors_that_a_test_wants(cluster: Cluster) -> None:
    """A driver fails for one claim or for all, and recovers; the kubelet says so in an event."""
    await cluster.create_pod("p", "c")
    await cluster.create_pod("q", "d")
    driver = driver_for(cluster)
    driver.fail("no power", claim="c")
    async with driver, cluster.kubelet():
        await cluster.claim("c", "p")
        await cluster.claim("d", "q")
        await cluster.reaches("Running", "q")
        text = "prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: no power"
        await cluster.event("p", f"Failed to prepare dynamic resources: {text}")
        assert driver.prepared.keys() == {"default/d"}
        driver.fail("", claim="c")
        await cluster.reaches("Running", "p")
        driver.fail("stuck", method="unprepare")
        await cluster.client.delete(PODS, "p", "default")
        await driver.called("unprepare", "c")
        assert await cluster.phase("p") == "Running"
        driver.fail("", method="unprepare")
        await cluster.reaches("", "p")


async def test_health_is_that_of_all_devices(root: Path) -> None:
    """Each change of a device's health sends the health of all, as the kubelet expects it."""
    driver = FakeDriver(root, node="n")
    driver.set_health("gpu-0", HealthStatus.HEALTHY)
    driver.set_health("gpu-1", HealthStatus.UNHEALTHY, "too hot")
    first, second = driver.health.get_nowait(), driver.health.get_nowait()
    assert [(each.device.pool_name, each.device.device_name) for each in first.devices] == [("n", "gpu-0")]
    assert [(each.health, each.message) for each in second.devices] == [(1, ""), (2, "too hot")]


async def test_waiting_in_vain(root: Path) -> None:
    """Waiting for a call that does not come raises TimeoutError, which lists the calls that came instead."""
    async with FakeDriver(root) as driver:
        with pytest.raises(TimeoutError, match=r"^no kubelet has registered the driver within 0\.01 s"):
            await driver.registered(timeout=0.01)
        driver.calls.append("prepare a b")
        assert await driver.called("prepare", "b") == "prepare a b"
        with pytest.raises(TimeoutError, match=r"no call to unprepare b within 0\.01 s; calls .*: \['prepare a b'\]"):
            await driver.called("unprepare", "b", timeout=0.01)


async def test_refused_devices(cluster: Cluster) -> None:
    """Devices that the API server refuses are its error, where the test waits for the driver."""
    async with driver_for(cluster, devices=["No Name"]) as driver, cluster.kubelet():
        with pytest.raises(StatusError, match=r"spec\.devices\[0\]\.name: Invalid value"):
            await driver.called("prepare")


async def test_wrong_options(root: Path) -> None:
    """Devices need a server and a node; a path that no socket can have is refused with the reason."""
    with pytest.raises(ValueError, match="the options server and node"):
        FakeDriver(root, devices=["gpu-0"])
    async with FakeDriver(root) as driver:
        with pytest.raises(RuntimeError, match="the options server and node"):
            await driver.publish(["gpu-0"])
    with pytest.raises(ValueError, match="more than 103 bytes, take a shorter folder"):
        async with FakeDriver(root / ("x" * 100)):
            pass
