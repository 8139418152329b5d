"""Claims that cannot be prepared: the events of each release, and what becomes of the pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.controlplane.kubelet.conftest import Cluster
from tests.waiting import until
from understudy.controlplane.client.resources import PODS, resource_claims
from understudy.controlplane.kubelet.dra.api import (
    V1BETA1,
    ClaimsRequest,
    PreparedClaim,
    PrepareResponse,
    UnpreparedClaim,
    UnprepareResponse,
)
from understudy.machinery.releases.version import V1_33, V1_34, V1_36, V1_37, Version
from understudy.testing import FakeDriver

PREFIX = "Failed to prepare dynamic resources: "
FROM_1_34 = f"{PREFIX}prepare dynamic resources: "
Answer = Callable[[ClaimsRequest], PrepareResponse]


def refuses(request: ClaimsRequest) -> PrepareResponse:
    return PrepareResponse({claim.uid: PreparedClaim((), "no way") for claim in request.claims})


def skips(request: ClaimsRequest) -> PrepareResponse:
    return PrepareResponse({})


def invents(request: ClaimsRequest) -> PrepareResponse:
    return PrepareResponse({"u": PreparedClaim()})


def fails(request: ClaimsRequest) -> PrepareResponse:
    raise RuntimeError("broken")


RPC_ERROR = "rpc error: code = Unknown desc = Unexpected <class 'RuntimeError'>: broken"


@pytest.mark.parametrize(
    ("release", "answer", "message"),
    [
        (V1_33, refuses, "NodePrepareResources failed for claim default/c: no way"),
        (V1_34, refuses, "NodePrepareResources failed for ResourceClaim c: no way"),
        (V1_33, skips, "NodePrepareResources left out 1 claims"),
        (V1_36, skips, "NodePrepareResources skipped 1 ResourceClaims"),
        (V1_33, invents, "NodePrepareResources returned result for unknown claim UID u"),
        (V1_36, invents, "NodePrepareResources returned result for unknown claim UID u"),
        (V1_33, fails, f"NodePrepareResources failed: {RPC_ERROR}"),
        (V1_36, fails, f"NodePrepareResources: {RPC_ERROR}"),
    ],
)
async def test_answers_of_drivers(cluster: Cluster, release: Version, answer: Answer, message: str) -> None:
    """An answer that is not as it should be leaves the pod pending, with an event; then it is tried again."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with FakeDriver(cluster.root, versions=(V1BETA1,), prepare=answer) as driver, cluster.kubelet():
        event = await cluster.event("p", (FROM_1_34 if release >= V1_34 else PREFIX) + message)
        facts = (event["type"], event["reason"], event["source"], event["reportingInstance"])
        source = {"component": "kubelet", "host": "node-1"}
        assert facts == ("Warning", "FailedPrepareDynamicResources", source, "node-1")
        assert await cluster.phase("p") == "Pending"
        driver.prepare = None
        await cluster.reaches("Running", "p")


NOT_FOUND = 'resourceclaims.resource.k8s.io "c" not found'
UNKNOWN_BEFORE_1_34 = (
    "failed to get gRPC client for driver gpu.example.com: plugin name gpu.example.com not found in the list of"
    " registered DRA plugins"
)
BEFORE_A_DRIVER_IS_ASKED = [
    (V1_33, "missing", f"failed to fetch ResourceClaim c referenced by pod p: {NOT_FOUND}"),
    (V1_36, "missing", f"fetch ResourceClaim c: {NOT_FOUND}"),
    (V1_33, "not reserved", "pod p(POD) is not allowed to use resource claim c(CLAIM)"),
    (V1_36, "not reserved", "pod p (POD) is not allowed to use ResourceClaim c (CLAIM)"),
    (V1_33, "no driver", UNKNOWN_BEFORE_1_34),
    (V1_36, "no driver", "DRA driver gpu.example.com is not registered"),
]


@pytest.mark.parametrize(("release", "case", "message"), BEFORE_A_DRIVER_IS_ASKED)
async def test_checks(cluster: Cluster, release: Version, case: str, message: str) -> None:
    """A claim that the pod cannot use is refused before any driver is asked."""
    pod = await cluster.create_pod("p", "c")
    uid = ""
    if case != "missing":
        reserved_for = ["p"] if case == "no driver" else []
        uid = (await cluster.claim("c", *reserved_for, allocated=case == "no driver"))["metadata"]["uid"]
    async with cluster.kubelet():
        expected = message.replace("POD", pod["metadata"]["uid"]).replace("CLAIM", uid)
        await cluster.event("p", (FROM_1_34 if release >= V1_34 else PREFIX) + expected)


@pytest.mark.parametrize(("release", "who"), [(V1_33, "pod"), (V1_36, "Pod")], ids=str)
async def test_generated_claims(cluster: Cluster, release: Version, who: str) -> None:
    """A claim from a template has to be made first, and to belong to the pod."""
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "entry"}]}}
    entry = {"name": "entry", "resourceClaimTemplateName": "t"}
    await cluster.create_pod("p", containers=[container], resourceClaims=[entry])
    await cluster.claim("generated", "p")
    prefix = FROM_1_34 if release >= V1_34 else PREFIX
    async with cluster.kubelet():
        named = "" if release >= V1_34 else "prepare resource claim: "
        await cluster.event("p", f'{prefix}{named}pod "default/p": ResourceClaim not created yet')
        status = {"resourceClaimStatuses": [{"name": "entry", "resourceClaimName": "generated"}]}
        await cluster.client.patch(PODS, "p", {"status": status}, "default", subresource="status")
        text = f"ResourceClaim default/generated was not created for {who} default/p ({who} is not owner)"
        await cluster.event("p", prefix + text)


async def test_claim_that_was_replaced(cluster: Cluster) -> None:
    """From 1.34 a claim is not prepared while a deleted claim of the same name still is."""
    await cluster.create_pod("p", "c")
    old = await cluster.claim("c", "p")
    async with FakeDriver(cluster.root) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        claims = resource_claims(cluster.release)
        await cluster.client.delete(claims, "c", "default")
        await cluster.create_pod("q", "c")
        await cluster.claim("c", "q")
        message = (
            f"{FROM_1_34}old ResourceClaim with same name c and different UID {old['metadata']['uid']} still exists"
            " (previous pod force-deleted?!)"
        )
        await cluster.event("q", message)
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("Running", "q")
        assert driver.calls == ["prepare c", "unprepare c", "prepare c"]


@pytest.mark.parametrize("release", [V1_37], ids=str)
async def test_claim_that_is_being_unprepared(cluster: Cluster, release: Version) -> None:
    """From 1.37 a pod is refused, and tried again, while its claim is unprepared for the last pod before it."""
    await cluster.create_pod("p", "c")
    claim = await cluster.claim("c", "p")
    async with FakeDriver(cluster.root, hold=asyncio.Event()) as driver, cluster.kubelet():
        hold = driver.hold
        driver.hold = None
        await cluster.reaches("Running", "p")
        driver.hold = hold
        await cluster.client.delete(PODS, "p", "default")
        await until(lambda: "unprepare c" in driver.calls)
        claim = await cluster.client.get(resource_claims(release), claim["metadata"]["name"], "default")
        await cluster.create_pod("r", "c")
        await cluster.reserve(claim, "p", "r")
        await cluster.event("r", f"{FROM_1_34}ResourceClaim c is being unprepared")
        assert hold is not None
        hold.set()
        await cluster.reaches("Running", "r")
    assert driver.calls == ["prepare c", "unprepare c", "prepare c"]


@pytest.mark.parametrize(("release", "unprepared"), [(V1_36, True), (V1_37, False)], ids=str)
async def test_claim_of_another_pod(cluster: Cluster, release: Version, unprepared: bool) -> None:
    """Up to 1.36 a pod that was refused takes the claim of another one with it, since nobody asks whose it is."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with FakeDriver(cluster.root) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        pod = await cluster.create_pod("q", "c")
        claim = await cluster.client.get(resource_claims(release), "c", "default")
        who = f"pod q ({pod['metadata']['uid']}) is not allowed to use ResourceClaim c ({claim['metadata']['uid']})"
        await cluster.event("q", FROM_1_34 + who)
        await cluster.client.delete(PODS, "q", "default")
        await cluster.reaches("", "q")
    assert ("unprepare c" in driver.calls) == unprepared


async def test_pod_whose_driver_never_came(cluster: Cluster) -> None:
    """From 1.34 a pod whose driver never registered can be deleted, since its claims were never noted as prepared."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with cluster.kubelet():
        await cluster.event("p", f"{FROM_1_34}DRA driver gpu.example.com is not registered")
        await cluster.client.delete(PODS, "p", "default")
        await cluster.reaches("", "p")


@pytest.mark.parametrize("release", [V1_33], ids=str)
async def test_pod_whose_driver_never_came_before(cluster: Cluster, release: Version) -> None:
    """Up to 1.33 such a pod stays until the driver is there, which is then asked to unprepare."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with cluster.kubelet():
        await cluster.event("p", f"{PREFIX}{UNKNOWN_BEFORE_1_34}")
        await cluster.client.delete(PODS, "p", "default")
        await asyncio.sleep(0.2)
        assert await cluster.phase("p") == "Pending"
        async with FakeDriver(cluster.root, versions=(V1BETA1,)) as driver:
            await cluster.reaches("", "p")
            assert driver.calls == ["unprepare c"]


async def test_unprepare_is_tried_again(cluster: Cluster) -> None:
    """A pod stays until its claims are unprepared."""
    await cluster.create_pod("p", "c")
    await cluster.claim("c", "p")
    async with FakeDriver(cluster.root) as driver, cluster.kubelet():
        await cluster.reaches("Running", "p")
        driver.unprepare = lambda request: UnprepareResponse({c.uid: UnpreparedClaim("busy") for c in request.claims})
        await cluster.client.delete(PODS, "p", "default")
        await until(lambda: len(driver.calls) > 2)
        assert await cluster.phase("p") == "Running"
        driver.unprepare = None
        await cluster.reaches("", "p")


async def test_many_pods_at_once(cluster: Cluster) -> None:
    """Pods do not wait for each other; each claim is prepared once and unprepared once."""
    names = [f"p{number}" for number in range(30)]
    for name in names:
        await cluster.create_pod(name, name)
        await cluster.claim(name, name)
    async with FakeDriver(cluster.root, hold=asyncio.Event()) as driver, cluster.kubelet():
        await until(lambda: len(driver.calls) == len(names))
        driver.hold.set()  # type: ignore[union-attr]
        await cluster.reaches("Running", *names)
        for name in names:
            await cluster.client.delete(PODS, name, "default")
        await cluster.reaches("", *names)
    expected = [f"{verb} {name}" for verb in ("prepare", "unprepare") for name in names]
    assert sorted(driver.calls) == sorted(expected)
