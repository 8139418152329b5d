"""The cases of `understudy drivers test`: a good driver passes all of them, and each fault fails its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.controlplane.drivers.faulty import NEWER, TELLS_NO_DEVICES, Starter
from tests.releases import NEWEST, every_release
from understudy.controlplane.drivers.cases import CASES
from understudy.controlplane.drivers.runner import Outcome, Plan, Servers, Verdict, outcomes
from understudy.machinery.releases.version import Version

FAULTS = [
    ("registers", "does not listen", "no plugin answers at a socket in plugins_registry within 4 s"),
    ("registers", "ends", "the driver ended with exit code 3"),
    ("registers", "another type of plugin", "its plugin type is 'DevicePlugin', not 'DRAPlugin'"),
    ("registers", "wrong name", "its name is no DNS subdomain"),
    ("registers", "unknown services", "it names v9.DRAPlugin, of which a kubelet of 1.37 knows only"),
    ("publishes", "no devices", "no complete pool of devices was published"),
    ("publishes", "slice is missing", "no complete pool of devices was published"),
    ("publishes", "slices are for another node", "is for node other, but the driver was started on node-1"),
    ("leaves-slices-alone", "slices are written again", "it wrote its ResourceSlices"),
    ("publishes-again", "publishes once", "slices that were deleted are not published again within 4 s"),
    ("prepares", "another device", "it prepared ('node-1', 'gpu-9')"),
    ("prepares", "another request", "it prepared for requests that the claim does not have: ['r9']"),
    ("prepares", "CDI id without vendor", "this is no CDI id (vendor/class=device): 'gpu-0'"),
    ("prepares-again", "new CDI ids", "for the same claim then"),
    ("prepares-again", "claims are prepared once", "it could not prepare a claim: device is busy"),
    ("prepares-several-claims", "only the first claim is answered", "answered nothing about 1 of 2 claims"),
    ("prepares-after-unpreparing", "claims are prepared once", "it could not prepare a claim: device is busy"),
    ("prepares-after-unpreparing", "devices are told once", "no devices for a claim that it had unprepared"),
    ("refuses-other-claims", "devices are told once", "no devices after it had refused a claim"),
    ("survives-timeouts", "devices are told when claims were unprepared", "no devices after a call that was given up"),
    ("unprepares-again", "what is not prepared cannot be unprepared", "it could not unprepare a claim again"),
    ("unprepares-deleted-claims", "claims are needed to unprepare", "it could not unprepare a claim that was deleted"),
    ("refuses-other-claims", "uid is not looked at", "it prepared a claim whose uid is another one by now"),
    ("refuses-other-claims", "missing claims are prepared", "it prepared a claim that does not exist"),
    ("survives-timeouts", "given up calls stay", "a call is under way"),
    ("runs-a-pod", "nothing is unprepared", "pod pod does not end within 4 s\n"),
    ("shares-a-claim", "nothing is prepared", "out of order"),
    ("grants-admin-access", "nothing is prepared", "out of order"),
    ("runs-fifty-pods-at-once", "one CDI id for all", "pods with claims of their own share CDI devices"),
    ("survives-a-restart", "new CDI ids after a start", "and after its start"),
    ("survives-a-restart", "what is not prepared cannot be unprepared", "that it had prepared before its start"),
    ("survives-a-crash", "old sockets are in the way", "no plugin answers at a socket"),
    ("keeps-pods-running", "what is not prepared cannot be unprepared", "does not end"),
    ("survives-a-kubelet-restart", "registers once", "within 4 s"),
    ("survives-a-reboot", "CDI files once", "it does not write its CDI files again after a reboot"),
    ("is-upgraded-without-a-break", NEWER, "too early"),
    ("stops", "socket stays", "its registration socket is still there"),
    ("gives-up-tainted-devices", "nothing is unprepared", "pod evicted does not end"),
    ("reports-health", "health of other devices", "it told the health of a device that it has not published"),
    ("shows-health-of-pods", "silent about health", "does not say whether its device is healthy"),
]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with Servers() as all_of_them:
        yield all_of_them


async def run(plan: Plan, servers: Servers) -> list[Outcome]:
    return [outcome async for outcome in outcomes(plan, servers)]


@pytest.mark.maintenance
async def test_good_driver_passes(servers: Servers) -> None:
    """A driver without faults passes every case."""
    made = await run(Plan(Starter(), [str(NEWEST)], jobs=4), servers)
    assert {outcome.case.name: outcome.text for outcome in made if outcome.verdict is not Verdict.PASSED} == {}
    assert [outcome.case for outcome in made] == list(CASES)


@every_release
async def test_good_driver_passes_on_every_release(release: Version, servers: Servers) -> None:
    """Claims have the form of the release; cases that need a later one are skipped."""
    chosen = [case for case in CASES if case.name == "prepares" or case.since > release]
    first, *others = await run(Plan(Starter(), [str(release)], chosen), servers)
    assert (first.case.name, first.text, first.verdict) == ("prepares", "", Verdict.PASSED)
    assert [outcome.text for outcome in others] == [f"needs {case.since}" for case in chosen[1:]]


async def test_nothing_is_tested_without_a_registration(servers: Servers) -> None:
    """After a case has failed that all others need, these are skipped."""
    first, *others = await run(Plan(Starter("ends"), [str(NEWEST)]), servers)
    assert first.verdict is Verdict.FAILED
    assert {(outcome.verdict, outcome.text) for outcome in others} == {(Verdict.SKIPPED, "registers failed")}
    assert len(others) == len(CASES) - 1


async def test_devices_may_be_told_to_the_container_runtime_alone(servers: Servers) -> None:
    """A driver that answers with no devices, ever, passes the cases that prepare claims."""
    named = {"prepares-after-unpreparing", "refuses-other-claims", "survives-timeouts"}
    chosen = [case for case in CASES if case.name in named]
    made = await run(Plan(Starter(TELLS_NO_DEVICES), [str(NEWEST)], chosen, jobs=3), servers)
    assert [(outcome.verdict, outcome.text) for outcome in made] == [(Verdict.PASSED, "")] * 3


@pytest.mark.maintenance
async def test_faults_are_found(servers: Servers) -> None:
    """A driver with a fault fails the case that is about it, and is told why."""
    turns = asyncio.Semaphore(8)

    async def found(name: str, fault: str) -> str:
        async with turns:
            [case] = [case for case in CASES if case.name == name]
            [outcome] = await run(Plan(Starter(fault), [str(NEWEST)], [case], timeout=4.0), servers)
            return f"{outcome.verdict}: {outcome.text}"

    seen = await asyncio.gather(*(found(name, fault) for name, fault, _ in FAULTS))
    others = {
        (name, fault): told
        for (name, fault, text), told in zip(FAULTS, seen, strict=True)
        if not told.startswith("failed: ") or text not in told
    }
    assert others == {}


def test_every_case_has_a_fault() -> None:
    """Each case is seen to fail."""
    assert {name for name, _, _ in FAULTS} == {case.name for case in CASES}
