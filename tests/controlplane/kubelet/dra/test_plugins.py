"""Endpoints of drivers: which service of them is called, which endpoint, and what becomes of their slices."""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.kubelet.conftest import NODE, Cluster
from tests.waiting import PATIENCE, until
from understudy.apiserver.client.connection import Connection
from understudy.controlplane.client.api_client import APIClient
from understudy.controlplane.client.resources import NODES, resource_slices
from understudy.controlplane.kubelet.dra.api import HEALTH_V1, HEALTH_V1ALPHA1, V1, V1ALPHA4, V1BETA1
from understudy.controlplane.kubelet.dra.plugins import DRAPluginManager
from understudy.controlplane.kubelet.pluginmanager import RegistrationError
from understudy.machinery.releases.version import V1_31, V1_32, V1_33, V1_34, V1_36, V1_37, Version
from understudy.testing import FakeDriver

NOT_PARSED = (
    "could not find a highest supported version from versions ([v1.DRAPlugin]) reported:"
    ' could not parse "v1.DRAPlugin" as version'
)
INVALID = "invalid supported gRPC versions of DRA driver plugin gpu at endpoint /s: "


def manager(release: Version) -> DRAPluginManager:
    return DRAPluginManager(APIClient(Connection(url=""), "test"), NODE, release)


@pytest.mark.parametrize(
    ("release", "versions", "service"),
    [
        (V1_31, ["1.0.0"], V1ALPHA4),
        (V1_32, [V1ALPHA4, V1BETA1], V1BETA1),  # the kubelet's favourite
        (V1_33, [V1ALPHA4], V1ALPHA4),
        (V1_33, ["1.0.0"], V1ALPHA4),  # drivers of that time named no services
        (V1_34, [V1BETA1, V1], V1BETA1),  # the driver's favourite
        (V1_36, ["v2.DRAPlugin", V1], V1),
    ],
)
def test_service_of_a_driver(release: Version, versions: list[str], service: str) -> None:
    """The service of a driver that is called depends on the release."""
    assert manager(release)._choose_service("gpu", tuple(versions)) == service


@pytest.mark.parametrize(
    ("release", "versions", "service"),
    [
        (V1_33, [V1BETA1, HEALTH_V1ALPHA1], ""),
        (V1_34, [V1], HEALTH_V1ALPHA1),  # whether the driver has it or not
        (V1_36, [V1, HEALTH_V1], HEALTH_V1ALPHA1),
        (V1_37, [V1], ""),
        (V1_37, [V1, HEALTH_V1ALPHA1], HEALTH_V1ALPHA1),
        (V1_37, [HEALTH_V1ALPHA1, V1, HEALTH_V1], HEALTH_V1),
    ],
)
def test_health_service_of_a_driver(release: Version, versions: list[str], service: str) -> None:
    """From 1.37 the newest service that tells the health of devices is called, if a driver names one."""
    assert manager(release)._choose_health_service(tuple(versions)) == service


@pytest.mark.parametrize(
    ("release", "versions", "error"),
    [
        (V1_31, [], "invalid versions of plugin gpu: empty list for supported versions"),
        (V1_31, [V1], f"invalid versions of plugin gpu: none of the versions are supported: {NOT_PARSED}"),
        (V1_33, [], "invalid versions of plugin gpu: empty list of supported gRPC services (aka supported versions)"),
        (V1_34, [], f"{INVALID}empty list of supported gRPC services (aka supported versions)"),
        (
            V1_36,
            [V1ALPHA4, "2"],
            f'{INVALID}none of services supported by the plugin (["v1alpha3.NodeService" "2"]) are supported by the'
            ' kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])',
        ),
    ],
)
def test_drivers_without_a_known_service(release: Version, versions: list[str], error: str) -> None:
    """A driver that does not fit the release is refused in its words."""
    with pytest.raises(RegistrationError) as refused:
        manager(release).validate("gpu", "/s", tuple(versions))
    assert str(refused.value) == error


async def test_rolling_update(cluster: Cluster) -> None:
    """The endpoint of a driver that came last is called, until it goes."""
    async with cluster.kubelet(), FakeDriver(cluster.root, instance="-1") as old:
        await old.registered()
        async with FakeDriver(cluster.root, instance="-2") as new:
            await new.registered()
            await cluster.create_pod("a", "a")
            await cluster.claim("a", "a")
            await cluster.reaches("Running", "a")
        await cluster.create_pod("b", "b")
        await cluster.claim("b", "b")
        await cluster.reaches("Running", "b")
        assert [old.calls, new.calls] == [["prepare b"], ["prepare a"]]


async def test_connected_endpoints_come_first(cluster: Cluster) -> None:
    """From 1.34 an endpoint that has stopped to listen is passed over for an older one."""
    await cluster.create_pod("p", "c")
    async with cluster.kubelet(), FakeDriver(cluster.root, instance="-1") as old:
        await old.registered()
        async with FakeDriver(cluster.root, instance="-2") as new:
            await new.registered()
            await new.stop_listening()
            await cluster.claim("c", "p")
            await cluster.reaches("Running", "p")
            assert [old.calls, new.calls] == [["prepare c"], []]


async def test_endpoint_of_another_instance() -> None:
    """No endpoint is registered twice from 1.33 on."""
    plugins = manager(V1_36)
    await plugins.register("gpu", "/nowhere", (V1,))
    with pytest.raises(RegistrationError, match=r"^endpoint /nowhere already registered for DRA driver plugin gpu$"):
        await plugins.register("gpu", "/nowhere", (V1,))
    await plugins.stop()


async def slice_of(cluster: Cluster, driver: str, node: str = NODE) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool}
    metadata = {"name": f"{driver}-{node}"}
    await cluster.client.create(resource_slices(cluster.release), {"metadata": metadata, "spec": spec})


async def slices_left(cluster: Cluster, *expected: str) -> None:
    """Wait until exactly these slices are left."""

    async def names() -> list[str]:
        listed = await cluster.client.list(resource_slices(cluster.release))
        return [item["metadata"]["name"] for item in listed["items"]]

    await until(names, lambda left: left == [*expected])


async def test_slices_at_the_start(cluster: Cluster) -> None:
    """A kubelet deletes all slices of its node when it starts, and no others."""
    await slice_of(cluster, "a.example.com")
    await slice_of(cluster, "b.example.com", "other")
    async with cluster.kubelet():
        await slices_left(cluster, "b.example.com-other")


@pytest.mark.parametrize("release", [V1_31, V1_33, V1_36], ids=str)
async def test_slices_of_a_driver_that_goes(cluster: Cluster, release: Version) -> None:
    """The slices of a driver that stays away are deleted: at once up to 1.32, after a while from 1.33 on."""
    versions = ("1.0.0",) if release < V1_32 else (V1BETA1,)
    delay = None if release < V1_33 else 0.2
    async with cluster.kubelet(wiping_delay=delay, wipe_at_start=False):
        async with FakeDriver(cluster.root, versions=versions) as driver:
            await driver.registered()
            await slice_of(cluster, "gpu.example.com")
            await slice_of(cluster, "other.example.com")
        await slices_left(cluster, f"other.example.com-{NODE}")


def wipe_is_due() -> bool:
    """Report whether the driver is away, so that its slices will be deleted."""
    return "wipe slices of gpu.example.com" in [task.get_name() for task in asyncio.all_tasks()]


async def test_driver_that_comes_back(cluster: Cluster) -> None:
    """The slices of a driver that is back in time stay."""
    async with cluster.kubelet(wiping_delay=2 * PATIENCE, wipe_at_start=False):
        async with FakeDriver(cluster.root) as driver:
            await driver.registered()
            await slice_of(cluster, "gpu.example.com")
            await until(lambda: not wipe_is_due())
        await until(wipe_is_due)
        async with FakeDriver(cluster.root) as again:
            await again.registered()
            await until(lambda: not wipe_is_due())
            await slices_left(cluster, f"gpu.example.com-{NODE}")


async def test_driver_that_stops_to_listen(cluster: Cluster) -> None:
    """From 1.34 a driver that is registered but not connected counts as away."""
    async with cluster.kubelet(wiping_delay=0.1, wipe_at_start=False), FakeDriver(cluster.root) as driver:
        await driver.registered()
        await until(lambda: not wipe_is_due())
        await slice_of(cluster, "gpu.example.com")
        await driver.stop_listening()
        await slices_left(cluster)


async def test_node_that_comes_later(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices are deleted once the Node exists."""
    monkeypatch.setattr("understudy.controlplane.kubelet.dra.plugins.FIRST_RETRY", 0.05)
    await cluster.client.delete(NODES, NODE)
    await slice_of(cluster, "a.example.com")
    async with cluster.kubelet():
        await asyncio.sleep(0.1)
        await slices_left(cluster, f"a.example.com-{NODE}")
        await cluster.client.create(NODES, {"metadata": {"name": NODE}})
        await slices_left(cluster)
