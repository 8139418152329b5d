"""The health of devices: what drivers report, for how long it counts, and where it stands in the status of a pod."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.clock import FixedClock
from tests.controlplane.kubelet.conftest import DRIVER, Cluster
from tests.waiting import until
from understudy.controlplane.kubelet.dra import health_info
from understudy.controlplane.kubelet.dra.api import (
    Device,
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    WatchResourcesResponse,
)
from understudy.controlplane.kubelet.dra.claim_info import ClaimInfo, ClaimInfoCache
from understudy.controlplane.kubelet.dra.health_info import DeviceHealthCache
from understudy.machinery.releases.features import Gates
from understudy.machinery.releases.version import V1_31, V1_34, V1_35, V1_36, V1_37, ByRelease, Version
from understudy.machinery.types import Obj
from understudy.testing import FakeDriver

DEVICES = [Device(("a",), "p", "1", ("x/y=1",)), Device(("b",), "p", "2"), Device(("b",), "p", "3", ("x/y=1",))]


def report(name: str, health: HealthStatus, message: str = "", timeout: int = 0) -> DeviceHealth:
    return DeviceHealth(DeviceIdentifier("p", name), health, 0, timeout, message)


class Node:
    """The health of the devices of one claim, `c`, which pod `u` uses by the entry `c`."""

    def __init__(self, root: Path, release: Version, **gates: bool) -> None:
        self.clock = FixedClock(1000.0)
        self.woken: list[set[str]] = []
        claims = ClaimInfoCache(root, release)
        claims.add(ClaimInfo("cu", "c", "default", {"u"}, {"d": list(DEVICES)}))
        self._claims, self._root, self._release, self._gates = claims, root, release, Gates.of(release, gates)
        self.restart()
        self.now: list[Any] = []

    def restart(self) -> None:
        """Begin with what the file has."""
        self.cache = DeviceHealthCache(
            self._root, self._claims, self._release, self._gates, self.clock, self.woken.append
        )

    async def hears(self, *reports: Sequence[DeviceHealth], request: str = "") -> None:
        """Take reports in; `now` is the status of the container while the stream is open, `woken` the pods."""

        async def stream() -> AsyncIterator[WatchResourcesResponse]:
            for devices in reports:
                yield WatchResourcesResponse(tuple(devices))
            self.now = self.status(request)

        await self.cache.follow("d", stream())

    def status(self, request: str = "", entry: str = "c", generated: bool = False) -> list[Obj]:
        """Return the status of a container that uses the claim."""
        used = {"name": entry, **({"request": request} if request else {})}
        pod: Obj = {"metadata": {"namespace": "default", "name": "p", "uid": "u"}, "spec": {}}
        if generated:
            pod["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimTemplateName": "t"}]
            pod["status"] = {"resourceClaimStatuses": [{"name": entry, "resourceClaimName": "c"}]}
        else:
            pod["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimName": "c"}]
        return self.cache.allocated_resources_status(pod, {"name": "c", "resources": {"claims": [used]}})


def healths(status: list[Obj]) -> list[tuple[str, str]]:
    return [(resource["resourceID"], resource["health"]) for entry in status for resource in entry["resources"]]


async def test_reports(root: Path) -> None:
    """Devices are named by their first CDI id, or by driver, pool and device; without a report they are unknown."""
    node = Node(root, V1_36)
    assert healths(node.status()) == [("x/y=1", "Unknown"), ("d/p/2", "Unknown")]
    await node.hears([report("1", HealthStatus.HEALTHY), report("2", HealthStatus.UNHEALTHY, "hot")])
    (entry,) = node.now
    assert entry == {
        "name": "claim:c",
        "resources": [
            {"resourceID": "x/y=1", "health": "Healthy"},
            {"resourceID": "d/p/2", "health": "Unhealthy", "message": "hot"},
        ],
    }
    assert node.woken == [{"u"}]
    assert healths(node.status()) == [("x/y=1", "Unknown"), ("d/p/2", "Unknown")]  # the stream has ended


@pytest.mark.parametrize(
    ("release", "more"),
    [
        (V1_34, {}),
        (V1_35, {"HealthCheckTimeout": 60_000_000_000}),
        (V1_36, {"HealthCheckTimeout": 60_000_000_000, "Message": "hot"}),
    ],
    ids=str,
)
async def test_file(root: Path, release: Version, more: Obj) -> None:
    """The file has the real kubelet's format: what a driver reported, until its stream ends."""
    node, states = Node(root, release), []
    node.clock.seconds = 1763829217.5

    async def stream() -> AsyncIterator[WatchResourcesResponse]:
        yield WatchResourcesResponse((report("1", HealthStatus.UNHEALTHY, "hot", timeout=60),))
        states.append(orjson.loads((root / "dra_health_state").read_bytes()))

    await node.cache.follow("d", stream())
    device = {"PoolName": "p", "DeviceName": "1", "Health": "Unhealthy", "LastUpdated": "2025-11-22T16:33:37.5Z"}
    assert states == [{"d": {"Devices": {"p/1": device | more}}}]
    assert (root / "dra_health_state").read_bytes() == b"{}"


async def test_restart_of_the_kubelet(root: Path) -> None:
    """A kubelet that is started again knows what drivers reported, for as long as that counts."""
    node = Node(root, V1_36)

    async def stream() -> AsyncIterator[WatchResourcesResponse]:
        yield WatchResourcesResponse((report("1", HealthStatus.UNHEALTHY),))
        node.cache.close()

    await node.cache.follow("d", stream())
    node.restart()
    assert healths(node.status())[0] == ("x/y=1", "Unhealthy")
    node.clock.seconds += 31
    assert healths(node.status())[0] == ("x/y=1", "Unknown")


@pytest.mark.parametrize("text", ["", "[]", '{"d": {}}', '{"d": {"Devices": {"p/1": {"PoolName": "p"}}}}'])
def test_broken_file(root: Path, text: str) -> None:
    """A kubelet whose file of health is broken starts, and knows the health of no device."""
    (root / "dra_health_state").write_text(text)
    assert healths(Node(root, V1_36).status())[0] == ("x/y=1", "Unknown")


async def test_only_changes_wake_pods(root: Path) -> None:
    """A report that says the same again, or is about a device that no pod has, writes no status."""
    node = Node(root, V1_36)
    same = [report("1", HealthStatus.HEALTHY)]
    await node.hears(same, same, [*same, report("9", HealthStatus.HEALTHY)], [report("1", HealthStatus.HEALTHY, "x")])
    assert len(node.woken) == 2


@pytest.mark.parametrize(
    ("release", "timeout", "after", "health"),
    [
        (V1_36, 0, 30, "Healthy"),
        (V1_36, 0, 31, "Unknown"),
        (V1_36, -1, 31, "Unknown"),
        (V1_36, 60, 59, "Healthy"),
        (V1_35, 60, 61, "Unknown"),
        (V1_34, 60, 31, "Unknown"),  # drivers could not say how long, then
    ],
)
async def test_old_reports(root: Path, release: Version, timeout: int, after: int, health: str) -> None:
    """A report counts for as long as the driver says, 30 seconds if it does not say."""
    node = Node(root, release)

    async def stream() -> AsyncIterator[WatchResourcesResponse]:
        yield WatchResourcesResponse((report("1", HealthStatus.HEALTHY, timeout=timeout),))
        node.clock.seconds += after
        assert healths(node.status(generated=True) or node.status())[0] == ("x/y=1", health)

    await node.cache.follow("d", stream())


@pytest.mark.parametrize(("release", "kept"), [(V1_36, ["1", "2"]), (V1_37, ["2"])], ids=str)
async def test_devices_that_are_no_longer_reported(root: Path, release: Version, kept: list[str]) -> None:
    """From 1.37 a device that a driver reports on no more is forgotten when its health has timed out."""
    node, devices = Node(root, release), [report("1", HealthStatus.HEALTHY), report("2", HealthStatus.HEALTHY)]
    files = []

    async def stream() -> AsyncIterator[WatchResourcesResponse]:
        for seconds, reports in ((0, devices), (31, devices[1:])):
            node.clock.seconds += seconds
            yield WatchResourcesResponse(tuple(reports))
            files.append(orjson.loads((root / "dra_health_state").read_bytes())["d"]["Devices"])

    await node.cache.follow("d", stream())
    assert [device["DeviceName"] for device in files[-1].values()] == kept
    assert node.woken == [{"u"}, {"u"}]


@pytest.mark.parametrize(("release", "count"), [(V1_36, 4), (V1_37, 2)], ids=str)
async def test_too_many_devices(
    root: Path, release: Version, count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From 1.37 the health of so many devices of a driver is kept, and the log says what is ignored."""
    monkeypatch.setattr(health_info, "MOST_DEVICES", ByRelease({V1_31: 4, V1_37: 2}))
    node = Node(root, release)
    with caplog.at_level(logging.WARNING):
        await node.hears([report(str(number), HealthStatus.HEALTHY) for number in range(4)])
    assert len(node.woken) == 1
    assert ("2 devices beyond" in caplog.text) == (count == 2)


@pytest.mark.parametrize(
    ("release", "entry", "generated", "named"),
    [
        (V1_34, "c", False, True),
        (V1_34, "other", True, False),
        (V1_35, "c", False, False),
        (V1_35, "other", True, True),
        (V1_36, "other", False, True),
        (V1_36, "other", True, True),
    ],
)
def test_claims_that_are_found(root: Path, release: Version, entry: str, generated: bool, named: bool) -> None:
    """1.34 finds the claims that are named as the pod's entries, 1.35 only generated ones, 1.36 all."""
    assert bool(Node(root, release).status(entry=entry, generated=generated)) == named


@pytest.mark.parametrize(
    ("release", "expected"),
    [(V1_35, ["x/y=1", "d/p/2", "x/y=1"]), (V1_36, ["d/p/2", "x/y=1"])],
    ids=str,
)
def test_devices_of_a_request(root: Path, release: Version, expected: list[str]) -> None:
    """From 1.36 a container shows the devices of its request only."""
    status = Node(root, release).status("b/sub", generated=True)
    assert [identifier for identifier, _ in healths(status)] == expected
    assert status[0]["name"] == "claim:c/b/sub"


async def test_long_messages(root: Path) -> None:
    """A message has at most 1024 bytes; with the gate off there is none."""
    node = Node(root, V1_36)
    await node.hears([report("1", HealthStatus.HEALTHY, "m" * 1025)])
    assert node.now[0]["resources"][0]["message"] == "m" * 1021 + "..."
    silent = Node(root, V1_36, ResourceHealthStatusMessage=False)
    await silent.hears([report("1", HealthStatus.HEALTHY, "m")])
    assert silent.now[0]["resources"][0] == {"resourceID": "x/y=1", "health": "Healthy"}


async def test_status_of_a_pod(cluster: Cluster) -> None:
    """The health that a driver reports of the device of a running pod comes into the status of its container."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with FakeDriver(cluster.root) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        device = DeviceIdentifier("pool", "gpu-0")
        await driver.health.put(WatchResourcesResponse((DeviceHealth(device, HealthStatus.UNHEALTHY),)))
        resource = {"resourceID": f"{DRIVER}/gpu=c", "health": "Unhealthy"}
        expected = [{"name": "claim:c", "resources": [resource]}]
        await until(
            lambda: cluster.pod("p"),
            lambda pod: pod["status"]["containerStatuses"][0].get("allocatedResourcesStatus") == expected,
        )
