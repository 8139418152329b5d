"""A kubelet and drivers: the claims of pods are prepared and unprepared, through restarts of both."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from tests.controlplane.kubelet.conftest import NODE, Cluster
from tests.releases import every_release
from tests.waiting import until
from understudy.controlplane.client.resources import PODS
from understudy.controlplane.kubelet.dra.api import V1, V1ALPHA4, V1BETA1
from understudy.controlplane.kubelet.dra.claim_info import CheckpointError
from understudy.machinery.releases.version import V1_32, V1_34, Version
from understudy.testing import FakeDriver


def versions_of(release: Version) -> tuple[str, ...]:
    """Return the services that a driver for a release says it supports."""
    return ("1.0.0",) if release < V1_32 else (V1BETA1, V1ALPHA4) if release < V1_34 else (V1, V1BETA1)


def driver_for(cluster: Cluster, **options: object) -> FakeDriver:
    return FakeDriver(cluster.root, versions=versions_of(cluster.release), **options)  # type: ignore[arg-type]


@every_release
async def test_story_of_a_pod(cluster: Cluster, release: Version) -> None:
    """A pod runs when its claim is prepared, and is gone when it is unprepared."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with driver_for(cluster) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        annotations = (await cluster.pod("p"))["metadata"]["annotations"]
        assert orjson.loads(annotations["understudy.dev/cdi-devices"]) == {"c": ["gpu.example.com/gpu=c"]}
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("", "p")
        assert driver.calls == ["prepare c", "unprepare c"]


async def test_changes_are_looked_at_when_they_come(cluster: Cluster) -> None:
    """A pod that is bound or deleted does not wait for the next regular look at it."""
    await cluster.create_pod("p", "c", nodeName="")
    await cluster.claim("c", "p")
    async with driver_for(cluster) as driver, cluster.kubelet(resync_period=60.0):
        await driver.registered()
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": NODE}}
        await cluster.client.create(PODS, target, "default", "p", "binding")
        await cluster.reaches("Running", "p")
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("", "p")


async def test_claims_of_a_pod_are_one_call_for_each_driver(cluster: Cluster) -> None:
    """All claims of a pod are in one call of each driver that has devices in them."""
    await cluster.create_pod("p", "a", "b")
    await cluster.claim("a", "p", drivers=("gpu.example.com", "net.example.com"))
    await cluster.claim("b", "p")
    async with driver_for(cluster) as gpu, driver_for(cluster, name="net.example.com") as net, cluster.kubelet():
        await cluster.reaches("Running", "p")
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("", "p")
    assert [gpu.calls, net.calls] == [["prepare a b", "unprepare a b"], ["prepare a", "unprepare a"]]


async def test_shared_claim_is_prepared_once(cluster: Cluster) -> None:
    """Pods that share a claim and start together have it prepared once; the last one that goes has it unprepared."""
    for name in "abc":
        await cluster.create_pod(name, "shared")
    await cluster.claim("shared", *"abc")
    async with driver_for(cluster, hold=asyncio.Event()) as driver, cluster.kubelet():
        await until(lambda: driver.calls)
        driver.hold.set()  # type: ignore[union-attr]
        await cluster.reaches("Running", *"abc")
        for name in "ab":
            await cluster.client.delete(PODS, name, "default")
        await cluster.reaches("", *"ab")
        assert driver.calls == ["prepare shared"]
        await cluster.client.delete(PODS, "c", "default")
        await cluster.reaches("", "c")
        assert driver.calls == ["prepare shared", "unprepare shared"]


async def test_restarts(cluster: Cluster) -> None:
    """A restart of the kubelet leaves pods running; it is a reboot after which claims are prepared again."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with driver_for(cluster) as driver:
        async with cluster.kubelet():
            await cluster.reaches("Running", "p")
        running = await cluster.pod("p")
        async with cluster.kubelet():
            await until(lambda: len(driver.statuses) == 2)
        assert driver.calls == ["prepare c"]
        assert (await cluster.pod("p"))["status"] == running["status"]
        async with cluster.kubelet(boot_id="2"):
            await until(lambda: driver.calls == ["prepare c"] * 2)
            await cluster.reaches("Running", "p")


async def test_pods_that_vanish_while_the_kubelet_is_away(cluster: Cluster) -> None:
    """The file of claims tells the next kubelet what to unprepare, even if pod and claim are gone."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with driver_for(cluster) as driver:
        async with cluster.kubelet():
            await cluster.reaches("Running", "p")
        await cluster.client.delete(PODS, "p", "default", grace_period=0)
        async with cluster.kubelet():
            await until(lambda: driver.calls == ["prepare c", "unprepare c"])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_terminal_pods(cluster: Cluster, phase: str) -> None:
    """A pod whose phase somebody sets to Succeeded or Failed ends: its claims are unprepared, and it stays."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with driver_for(cluster) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        await cluster.client.patch(PODS, "p", {"status": {"phase": phase}}, "default", subresource="status")
        await until(lambda: driver.calls == ["prepare c", "unprepare c"])
        assert await cluster.phase("p") == phase
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("", "p")


async def test_broken_file_stops_the_start(cluster: Cluster) -> None:
    """A file of claims with a wrong checksum is not taken for an empty one."""
    (cluster.root / "dra_manager_state").write_text('{"Data": "{}", "Checksum": 1}')
    text = "failed to get checkpoint dra_manager_state: checkpoint is corrupted"
    with pytest.raises(CheckpointError, match=text):
        async with cluster.kubelet():
            pass
